package store

import (
	"context"
	"testing"

	"doublet/env"
	"doublet/note"
	"doublet/store/layout"
)

func readFolder(s *Store, db note.DatabaseID, id note.ID) (f layout.Folder, err error) {
	err = s.Read(context.Background(), note.System, db, func(r *Reader) error {
		h, err := r.Folder(id)
		if err == nil {
			f = *h
		}
		return err
	})
	return f, err
}

// TestClaim checks that each UID is claimed once. A claim changes nothing if the numbering is another, the folder is
// gone, or the UIDs were claimed already. Claims survive a restart, and rows without the field have no recent messages.
func TestClaim(t *testing.T) {
	t.Parallel()
	f := env.Test(t)
	s, err := Open(f.Env, "data", crashOptions())
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(err)
	db, err := s.CreateDatabase(note.System, Create{})
	must(err)
	must(s.Update(context.Background(), note.System, []note.DatabaseID{db}, func(tx *Tx) error {
		w, err := tx.Database(db)
		if err != nil {
			return err
		}
		folder, err := w.CreateFolder("f", "")
		for range 3 {
			if _, cerr := w.Create(New{Folders: []note.ID{folder}}); cerr != nil {
				return cerr
			}
		}
		return err
	}))
	h, err := readFolder(s, db, 1)
	must(err)
	claim := func(folder note.ID, validity, upTo, want uint32) {
		t.Helper()
		if from, err := NewRecents(s).Claim(db, folder, validity, upTo); err != nil || from != want {
			t.Fatalf("claimed up to %d: from %d, want %d: %v", upTo, from, want, err)
		}
	}
	claim(1, h.UIDValidity+1, 4, 4)
	claim(99, h.UIDValidity, 4, 4)
	claim(1, h.UIDValidity, 3, 1)
	claim(1, h.UIDValidity, 2, 3)
	must(s.Close())
	s, err = Open(f.Env, "data", crashOptions())
	must(err)
	defer s.Close()
	claim(1, h.UIDValidity, 4, 3)
	claim(1, h.UIDValidity, 4, 4)
	if _, err := NewRecents(s).Claim(db+1, 1, h.UIDValidity, 4); err == nil {
		t.Error("a claim in a database that is not there")
	}
	h, err = readFolder(s, db, 1)
	must(err)
	again, err := layout.ReadFolder(1, layout.AppendFolder(nil, &h))
	must(err)
	if h.Told != 4 || again.Told != 4 || h.UIDNext != 4 {
		t.Errorf("told %d, read again %d, UIDNEXT %d", h.Told, again.Told, h.UIDNext)
	}
}
