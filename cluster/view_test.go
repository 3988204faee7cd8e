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
