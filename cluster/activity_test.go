package cluster

import (
	"context"
	"testing"
	"time"

	"doublet/note"
)

// written counts the writes to a table.
type written struct{ puts, drops int }

func (w *written) Put(string, string)                                  { w.puts++ }
func (w *written) Drop(string)                                         { w.drops++ }
func (w *written) Each(context.Context, func(key, value string)) error { return nil }

// TestActivityKept checks that a count is saved once, is not saved again merely because it decays, and is removed when
// it is near zero.
func TestActivityKept(t *testing.T) {
	now := time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC)
	u, w := used{at: now}, &written{}
	step := func(operations float64, puts, drops int) {
		t.Helper()
		now = now.Add(saveEvery)
		u.until(now)
		u.sum += operations
		u.keep(w, note.DatabaseID(1))
		if w.puts != puts || w.drops != drops {
			t.Fatalf("%d puts and %d drops, not %d and %d", w.puts, w.drops, puts, drops)
		}
	}
	step(0, 0, 0)
	step(1000, 1, 0)
	step(50, 1, 0)
	step(100, 2, 0)
	for range 6 * 24 * 11 { // 1,150 operations decay below 0.5 after a bit more than eleven days
		step(0, 2, 0)
	}
	for range 6 * 24 {
		now = now.Add(saveEvery)
		u.until(now)
		u.keep(w, note.DatabaseID(1))
	}
	step(0, 2, 1)
	step(10, 3, 1)
}
