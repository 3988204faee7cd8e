package store

import (
	"context"
	"testing"

	"doublet/env"
	"doublet/note"
)

// TestPending checks that commits keep the knowledge whether a note waits to be numbered, and that the position is told
// by it.
func TestPending(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := env.TestRealTime(t)
	s, err := Open(f.Env, "data", crashOptions())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	db, err := s.CreateDatabase(note.System, Create{Kind: "a"})
	if err == nil {
		err = s.Share(ctx, db, 1)
	}
	if err != nil {
		t.Fatal(err)
	}
	next := byte(0)
	look := func(where string, known, pending bool) {
		t.Helper()
		d, err := s.dbs.acquire(db)
		if err != nil {
			t.Fatal(err)
		}
		defer s.dbs.release(d)
		now := snapshot{s: s, db: d, st: d.cur.Load()}
		if _, got := now.pending(); got != known {
			t.Errorf("%s: known %v, want %v", where, got, known)
		}
		c, err := s.Current(ctx, db)
		if err != nil || c.Position.Pending != pending || c.Counters.Seq != now.st.counters.Seq {
			t.Errorf("%s: pending %v at %d of %d, %v", where, c.Position.Pending, c.Counters.Seq, now.st.counters.Seq,
				err)
		}
	}
	write := func() {
		t.Helper()
		next++
		if err := put(t, s, db, note.UNID{next}); err != nil {
			t.Fatal(err)
		}
	}
	look("new", true, false)
	for range 3 {
		write()
		look("the home numbers", true, false)
	}
	if err := s.Follow(ctx, db); err != nil {
		t.Fatal(err)
	}
	look("it follows", true, false)
	for range 2 {
		write()
		look("one waits", true, true)
	}
	if err := s.Lead(ctx, db, LeadOptions{}); err != nil {
		t.Fatal(err)
	}
	look("all numbered, not scanned", false, false)
	look("all numbered", true, false)
	write()
	look("the home numbers again", true, false)
}
