package store

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"doublet/env"
	"doublet/note"
	"doublet/store/layout"
)

// TestRenumber runs out of UIDs in the middle of an update. Every folder is renumbered, with notes of the same update,
// of other folders, and moved and removed ones, all in their order.
func TestRenumber(t *testing.T) {
	t.Parallel()
	f := env.Test(t)
	s, err := Open(f.Env, "data", crashOptions())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	db, err := s.CreateDatabase(note.System, Create{})
	if err != nil {
		t.Fatal(err)
	}
	update := func(fn func(w *Writer) error) {
		t.Helper()
		if err := s.Update(context.Background(), note.System, []note.DatabaseID{db}, func(tx *Tx) error {
			w, err := tx.Database(db)
			if err != nil {
				return err
			}
			return fn(w)
		}); err != nil {
			t.Fatal(err)
		}
	}
	create := func(w *Writer, folder note.ID) note.ID {
		t.Helper()
		id, err := w.Create(New{Folders: []note.ID{folder}})
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	var want [3][]note.ID // by folder
	var validity [3]uint32
	update(func(w *Writer) error {
		for i := range 2 {
			if _, err := w.CreateFolder(fmt.Sprint("f", i), ""); err != nil {
				return err
			}
		}
		return nil
	})
	update(func(w *Writer) error {
		for _, folder := range []note.ID{2, 1, 1, 1, 2} { // folder 2 holds the notes that folder 1 will get
			want[folder] = append(want[folder], create(w, folder))
		}
		return nil
	})
	f1, err := readFolder(s, db, 1)
	if err != nil {
		t.Fatal(err)
	}
	if from, err := NewRecents(s).Claim(db, 1, f1.UIDValidity, 4); err != nil || from != 1 { // for UIDs 2, 3 and 4
		t.Fatal(from, err)
	}
	update(func(w *Writer) error {
		for i := 1; i <= 2; i++ {
			validity[i] = w.st.folder(note.ID(i)).UIDValidity
		}
		w.mutable().counters.Ledger.UID = note.MaxUID - 1
		want[1] = append(want[1], create(w, 1)) // the last UID
		if err := w.RemoveFrom(want[1][0], 1); err != nil {
			return err
		}
		want[1] = want[1][1:]
		for range 3 {
			want[2] = append(want[2], create(w, 2))
		}
		return nil
	})
	err = s.Read(context.Background(), note.System, db, func(r *Reader) error {
		for folder := note.ID(1); folder <= 2; folder++ {
			h, err := r.Folder(folder)
			if err != nil {
				return err
			}
			var got []note.ID
			last := uint32(0)
			if err := r.Members(folder, 1, note.MaxUID, func(uid uint32, id note.ID) bool {
				n, err := r.Note(id)
				if err != nil {
					t.Error(err)
					return false
				}
				if m, _ := n.Member(folder); m.UID != uid || uid > 20 {
					t.Errorf("UID %d of folder %d leads to a note under %d", uid, folder, m.UID)
				}
				got, last = append(got, id), uid
				return true
			}); err != nil {
				return err
			}
			if fmt.Sprint(got) != fmt.Sprint(want[folder]) || h.UIDNext != last+1 ||
				h.UIDValidity <= validity[folder] || int(h.Total) != len(got) {
				t.Errorf("folder %d holds %v, want %v; %+v", folder, got, want[folder], h)
			}
			if first, err := r.At(1, 0); folder == 1 && (err != nil || h.Told != first+1) {
				t.Errorf("sessions were told of UID 3, which is %d now, and messages are recent from %d on: %v", first,
					h.Told, err)
			}
			for i, uid := 0, uint32(0); i < len(got); i++ {
				if at, err := r.At(folder, uint32(i)); err != nil || at <= uid {
					t.Errorf("at %d: %d, %v", i, at, err)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// TestRenewRecent runs out of terms while recent changes are cached. None with an old number may be reported
// afterwards.
func TestRenewRecent(t *testing.T) {
	t.Parallel()
	f := env.Test(t)
	s, err := Open(f.Env, "data", crashOptions())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	db, err := s.CreateDatabase(note.System, Create{})
	if err != nil {
		t.Fatal(err)
	}
	update := func(fn func(w *Writer) error) {
		t.Helper()
		if err := s.Update(context.Background(), note.System, []note.DatabaseID{db}, func(tx *Tx) error {
			w, err := tx.Database(db)
			if err != nil {
				return err
			}
			return fn(w)
		}); err != nil {
			t.Fatal(err)
		}
	}
	create := func(w *Writer) error {
		_, err := w.Create(New{Folders: []note.ID{1}})
		return err
	}
	update(func(w *Writer) error { _, err := w.CreateFolder("f", ""); return err })
	for range 3 {
		update(create)
	}
	update(func(w *Writer) error { return w.RemoveFrom(3, 1) })
	update(func(w *Writer) error { // the numbers after 65,535 takeovers
		w.mutable().counters.Ledger.Last = note.ModSeq(1<<20-16)<<33 + 77
		return create(w)
	})
	update(func(w *Writer) error { return w.RemoveFrom(4, 1) })
	update(func(w *Writer) error { return w.TakeOver() })
	for range 2 * maxRecent {
		update(create)
		err := s.Read(context.Background(), note.System, db, func(r *Reader) error {
			last := r.Counters().Ledger.Last
			for since := note.ModSeq(0); since <= last; since++ {
				var got, want []note.ModSeq
				err := r.Changes(since, func(mod note.ModSeq, _ layout.Change) bool {
					got = append(got, mod)
					return true
				})
				if err != nil {
					return err
				}
				prefix := layout.Prefix(r.db.num, layout.KindModSeq)
				if err := scanRange(r.eng, layout.IDKey(r.db.num, layout.KindModSeq, uint64(since)+1),
					layout.After(prefix), func(k, _ []byte) error {
						want = append(want, note.ModSeq(layout.Tail64(k)))
						return nil
					}); err != nil {
					return err
				}
				if !slices.Equal(got, want) || len(want) > 0 && want[len(want)-1] > last {
					t.Errorf("behind %d of %d: %d, in the engine %d", since, last, got, want)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
