package mailbox_test

import (
	"testing"

	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
)

// TestUses checks which folder serves a use: the one with the special use, else the one with the name, else a new one.
func TestUses(t *testing.T) {
	w := newWorld(t, 0)
	found := func() map[string]string {
		list, err := w.mf.Folders(w.ctx)
		w.must(err)
		out := map[string]string{}
		for _, use := range mailbox.Uses {
			if f := mailbox.ForUse(list, use); f != nil {
				out[use] = f.Name
			}
		}
		w.must(w.s.Read(w.ctx, note.System, w.db, func(r *store.Reader) error {
			for _, use := range mailbox.Uses {
				id, err := mailbox.FindUse(r, use)
				if f := mailbox.ForUse(list, use); (f == nil) != (err != nil) || f != nil && f.ID != id {
					t.Errorf("%s: ForUse returns %v, FindUse %v, %v", use, f, id, err)
				}
			}
			return nil
		}))
		return out
	}
	expect := func(want map[string]string) {
		t.Helper()
		got := found()
		for _, use := range mailbox.Uses {
			if name, other := want[use]; !other && got[use] != use || other && got[use] != name {
				t.Errorf("%s: %q, want %v", use, got[use], want)
			}
		}
	}
	expect(nil)
	w.must(w.mf.Rename(w.ctx, "Sent", "Gesendet"))
	expect(map[string]string{"Sent": "Gesendet"})
	_, err := w.mf.Create(w.ctx, "Sent", "") // another folder with the name
	w.must(err)
	expect(map[string]string{"Sent": "Gesendet"})
	w.must(w.mf.Delete(w.ctx, "Gesendet"))
	expect(nil)
	w.must(w.mf.Delete(w.ctx, "Sent"))
	expect(map[string]string{"Sent": ""})
	var made [2]note.UNID
	res, err := w.mf.Change(w.ctx, len(made), func(c *mailbox.Changing, i int) (err error) {
		made[i], err = c.ForUse(mailbox.UseSent)
		return err
	})
	w.must(err)
	if res.Errs[0] != nil || res.Errs[1] != nil || made[0] != made[1] || made[0].IsZero() {
		t.Errorf("%v: created %v", res.Errs, made)
	}
	expect(nil)
}
