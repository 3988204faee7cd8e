package check_test

import (
	"context"
	"testing"

	"doublet/note"
	"doublet/store"
	"doublet/store/layout"

	"github.com/cockroachdb/pebble/v2"
)

// TestRenew runs out of terms. The numbering starts again: every folder has a new UIDVALIDITY, every note and folder
// has a low MODSEQ, and no old number is left.
func TestRenew(t *testing.T) {
	t.Parallel()
	w := build(t)
	validity := map[note.ID]uint32{}
	members := map[note.ID]int{}
	look := func(fn func(r *store.Reader) error) {
		t.Helper()
		if err := w.s.Read(context.Background(), note.System, w.mail, fn); err != nil {
			t.Fatal(err)
		}
	}
	// Use the numbers after 65,535 takeovers.
	key := layout.Prefix(w.num, layout.KindCounters)
	_, rows := w.rows(key)
	c, err := layout.ReadCounters(rows[0])
	if err != nil {
		t.Fatal(err)
	}
	old := note.ModSeq(1<<20-16)<<33 + 77
	c.Ledger.Last = old
	w.derive(func(b *pebble.Batch) { _ = b.Set(key, layout.AppendCounters(nil, &c), nil) })
	w.reopen()
	look(func(r *store.Reader) error {
		for _, f := range r.Folders() {
			validity[f.Note], members[f.Note] = f.UIDValidity, int(f.Total)
		}
		return nil
	})
	w.update(w.mail, func(wr *store.Writer) error { return wr.TakeOver() })
	look(func(r *store.Reader) error {
		l := r.Counters().Ledger
		if l.Last >= 1<<33 || l.Knows(old) || r.Counters().Floor != 0 {
			t.Errorf("the ledger goes on at %x", l.Last)
		}
		for _, f := range r.Folders() {
			if f.UIDValidity <= validity[f.Note] || int(f.Total) != members[f.Note] || f.Mod > l.Last {
				t.Errorf("folder %+v, before %d members under %d", f, members[f.Note], validity[f.Note])
			}
		}
		n := 0
		if err := r.Changes(0, func(mod note.ModSeq, ch layout.Change) bool {
			if mod > l.Last {
				t.Errorf("MODSEQ %x is left", mod)
			}
			if !ch.Expunged {
				n++
			}
			return true
		}); err != nil {
			return err
		}
		if uint64(n) != r.Counters().Notes {
			t.Errorf("%d notes under new numbers of %d", n, r.Counters().Notes)
		}
		return nil
	})
	w.clean(true)
	w.deliver(200, nil, w.inbox)
	w.reopen()
	w.clean(true)
}
