package replica

import (
	"testing"
	"time"

	"doublet/env"
	"doublet/note"
)

// TestProgressSeldom checks that the progress of a mate in a database that changes all the time is committed once a
// minute, each mate and each database for itself.
func TestProgressSeldom(t *testing.T) {
	t.Parallel()
	clock := env.NewManual(env.TestStart)
	s := &Service{env: &env.Env{Clock: clock}, peers: map[recordKey]time.Time{}}
	commits := map[recordKey]int{}
	for range 5 * 60 {
		for db := range note.DatabaseID(2) {
			for mate := range note.ReplicaID(2) {
				if s.due(db, mate) {
					commits[recordKey{db, mate}]++
					s.committed(db, mate)
				}
			}
		}
		clock.Advance(time.Second)
	}
	if len(commits) != 4 {
		t.Errorf("%d of 4 were committed", len(commits))
	}
	for k, n := range commits {
		if n != 5 {
			t.Errorf("%+v: %d commits in 5 minutes", k, n)
		}
	}
}

// TestProgressAgain checks that a progress whose commit failed is committed with the next one.
func TestProgressAgain(t *testing.T) {
	t.Parallel()
	s := &Service{env: &env.Env{Clock: env.NewManual(env.TestStart)}, peers: map[recordKey]time.Time{}}
	for range 2 {
		if !s.due(1, 2) {
			t.Error("a progress that was not committed is not due")
		}
	}
	if s.committed(1, 2); s.due(1, 2) {
		t.Error("a progress that was committed just now is due again")
	}
}
