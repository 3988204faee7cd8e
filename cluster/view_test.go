package cluster

import (
	"testing"
	"time"

	"doublet/note"
)

// TestStarting checks that a server after its start waits for mates that it has not heard yet, but not for a mate that
// it has heard and lost.
func TestStarting(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC)
	heard, silent := &peer{heard: at}, &peer{}
	for _, c := range []struct {
		name  string
		after time.Duration
		peers []*peer
		want  bool
	}{
		{"nobody is known", time.Second, nil, true},
		{"one is late", time.Second, []*peer{heard, silent}, true},
		{"all were heard", time.Second, []*peer{heard, heard}, false},
		{"one has not come for long", time.Minute, []*peer{silent}, false},
	} {
		v := view{
			snapshot: &snapshot{peers: map[note.UNID]*peer{}}, opt: &Options{StartWait: 10 * time.Second},
			start: at, now: at.Add(c.after),
		}
		for i, p := range c.peers {
			v.peers[note.UNID{byte(i)}] = p
		}
		if got := v.starting(); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// TestSilent checks that a database counts as left alone by its first server only while that one does not answer.
func TestSilent(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC)
	self, lives, died, never := note.UNID{1}, note.UNID{2}, note.UNID{3}, note.UNID{4}
	v := view{snapshot: &snapshot{peers: map[note.UNID]*peer{lives: {alive: true, heard: at.Add(time.Hour)},
		died: {heard: at}, never: {}}}, self: self}
	on := func(servers ...note.UNID) *Entry {
		e := &Entry{}
		for _, id := range servers {
			e.Replicas = append(e.Replicas, Replica{Server: id, State: Serving, Incarnation: 1})
		}
		return e
	}
	unmade, left := on(died, self), on(died, lives)
	unmade.Replicas[0].Incarnation, left.Replicas[0].State = 0, gone
	for name, c := range map[string]struct {
		e      *Entry
		since  time.Time
		silent bool
	}{
		"unknown": {}, "own": {e: on(self, died)}, "alive": {e: on(lives, died, self)},
		"dead":          {on(died, self, lives), at, true},
		"never heard":   {on(never, self), time.Time{}, true},
		"not made yet":  {e: unmade},
		"has left":      {e: left},
		"is no member":  {e: on(note.UNID{9}, self)},
		"was not there": {on(note.UNID{9}, died), at, true},
	} {
		if since, silent := v.silent(c.e); silent != c.silent || !since.Equal(c.since) {
			t.Errorf("%s: %v since %v", name, silent, since)
		}
	}
}
