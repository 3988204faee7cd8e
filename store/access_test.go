package store_test

import (
	"errors"
	"fmt"
	"testing"

	"doublet/env"
	"doublet/note"
	"doublet/store"
)

// TestAccess does each operation as a person of each level, on the person's own note and on another's, and compares the
// results with the table of the design.
func TestAccess(t *testing.T) {
	t.Parallel()
	const (
		never = note.Manager + 1
	)
	ops := []struct {
		name       string
		own, other note.Level // the lowest level that may do it
		// depositor means that a Depositor may do it too.
		depositor bool
		do        func(w *store.Writer, id, folder, second note.ID) error
	}{
		{"read", note.Reader, note.Reader, false, func(w *store.Writer, id, _,
			_ note.ID) error {
			_, err := w.Note(id)
			return err
		}},
		{"content", note.Reader, note.Reader, false, func(w *store.Writer, id, _,
			_ note.ID) error {
			_, err := w.Content(id)
			return err
		}},
		{"folder", note.Reader, note.Reader, false, func(w *store.Writer, _, f,
			_ note.ID) error {
			_, err := w.Folder(f)
			return err
		}},
		{"create", note.Author, note.Author, true, func(w *store.Writer, _, f, _ note.ID) error {
			_, err := w.Create(store.New{Folders: []note.ID{f}})
			return err
		}},
		{"seen", note.Reader, note.Reader, false, func(w *store.Writer, id, _,
			_ note.ID) error {
			return w.SetSeen(id, persons[0], true)
		}},
		{"seen by another", never, never, false, func(w *store.Writer, id, _,
			_ note.ID) error {
			return w.SetSeen(id, persons[1], true)
		}},
		{"keyword", note.Author, note.Editor, false, func(w *store.Writer, id, _,
			_ note.ID) error {
			return w.SetKeyword(id, "k", true)
		}},
		{"mark", note.Author, note.Editor, false, func(w *store.Writer, id, f,
			_ note.ID) error {
			return w.MarkDeleted(id, f, true)
		}},
		{"rewrite", note.Author, note.Editor, false, func(w *store.Writer, id, _,
			_ note.ID) error {
			return w.Rewrite(id, items("new"))
		}},
		{"add", note.Author, note.Author, false, func(w *store.Writer, id, _,
			s note.ID) error {
			_, err := w.AddTo(id, s)
			return err
		}},
		{"remove", note.Author, note.Editor, false, func(w *store.Writer, id, f,
			_ note.ID) error {
			return w.RemoveFrom(id, f)
		}},
		{"destroy", note.Author, note.Editor, false, func(w *store.Writer, id, _,
			_ note.ID) error {
			return w.Destroy(id)
		}},
		{"create folder", note.Designer, note.Designer, false,
			func(w *store.Writer, _, _, _ note.ID) error { _, err := w.CreateFolder("new", ""); return err }},
		{"rename folder", note.Designer, note.Designer, false,
			func(w *store.Writer, _, f, _ note.ID) error { return w.RenameFolder(f, "other") }},
		{"delete folder", note.Designer, note.Designer, false,
			func(w *store.Writer, _, _, s note.ID) error { return w.DeleteFolder(s) }},
		{"subscribe", note.Reader, note.Reader, false, func(w *store.Writer, _, f,
			_ note.ID) error {
			return w.Subscribe(f, persons[0], true)
		}},
		{"folder list", note.Manager, note.Manager, false, func(w *store.Writer, _, f,
			_ note.ID) error {
			return w.SetFolderACL(f, &note.ACL{})
		}},
		{"take over", never, never, false, func(w *store.Writer, _, _, _ note.ID) error { return w.TakeOver() }},
		{"peer", never, never, false, func(w *store.Writer, _, _, _ note.ID) error { return w.Peers.Set(1, 1) }},
		{"apply", never, never, false, func(w *store.Writer, _, _,
			_ note.ID) error {
			_, err := w.Apply(&store.Remote{}, nil)
			return err
		}},
		{"prune", never, never, false, func(w *store.Writer, id, _, _ note.ID) error { return w.Prune(id, 1) }},
	}
	m := newModel(t)
	undo := errors.New("undo")
	for level := note.NoAccess; level <= note.Manager; level++ {
		db, err := m.s.CreateDatabase(note.System,
			store.Create{ACL: note.ACL{Default: note.Author}.With(note.Entry{ID: persons[0], Level: level})})
		m.must(err)
		var notes [2]note.ID
		var folders [2]note.ID
		m.must(m.s.Update(m.ctx, note.System, []note.DatabaseID{db}, func(tx *store.Tx) error {
			w, err := tx.Database(db)
			m.must(err)
			for i := range folders {
				folders[i], err = w.CreateFolder(fmt.Sprint("f", i), "")
				m.must(err)
			}
			return nil
		}))
		for i := range notes {
			who := note.Who{Person: persons[i], Groups: []note.UNID{{9}}}
			// Both persons were authors once.
			m.must(m.s.Update(m.ctx, note.System, []note.DatabaseID{db}, func(tx *store.Tx) error { return nil }))
			grant(m, db, note.Author)
			m.must(m.s.Update(m.ctx, who, []note.DatabaseID{db}, func(tx *store.Tx) error {
				w, err := tx.Database(db)
				m.must(err)
				notes[i], err = w.Create(store.New{Folders: folders[:1]})
				return err
			}))
			grant(m, db, level)
		}
		for _, op := range ops {
			for i, from := range []note.Level{op.own, op.other} {
				err := m.s.Update(m.ctx, note.Who{Person: persons[0]}, []note.DatabaseID{db}, func(tx *store.Tx) error {
					w, err := tx.Database(db)
					m.must(err)
					if err := op.do(w, notes[i], folders[0], folders[1]); err != nil {
						return err
					}
					return undo
				})
				allowed := level >= from || op.depositor && level == note.Depositor
				switch {
				case allowed && err != undo:
					t.Errorf("%s as %s, own %v: %v", op.name, level, i == 0, err)
				case !allowed && !errors.Is(err, store.ErrDenied) && !errors.Is(err, store.ErrNotFound):
					t.Errorf("%s as %s, own %v was allowed: %v", op.name, level, i == 0, err)
				}
			}
		}
	}
}

func newModel(t *testing.T) *model {
	m := &model{t: t, f: env.TestRealTime(t), ctx: t.Context()}
	m.open()
	t.Cleanup(func() { m.s.Close() })
	return m
}

// TestFolderAccess checks that a folder's own list replaces the database's there. A note is readable through any folder
// that grants it, and can be destroyed only with t and e in all of its folders.
func TestFolderAccess(t *testing.T) {
	t.Parallel()
	m := newModel(t)
	db, err := m.s.CreateDatabase(note.System, store.Create{ACL: note.ACL{Default: note.Editor}})
	m.must(err)
	d := &modelDB{id: db, folders: map[note.ID]string{}}
	m.createFolder(d, "open")
	m.createFolder(d, "closed")
	var id, inside note.ID
	m.must(m.update(func(ws ...*store.Writer) error {
		m.must(ws[0].SetFolderACL(2, &note.ACL{Default: note.NoAccess}))
		id, err = ws[0].Create(store.New{Folders: []note.ID{1, 2}})
		m.must(err)
		inside, err = ws[0].Create(store.New{Folders: []note.ID{2}})
		return err
	}, d))
	err = m.s.Update(m.ctx, note.Who{Person: persons[0]}, []note.DatabaseID{db}, func(tx *store.Tx) error {
		w, err := tx.Database(db)
		m.must(err)
		if _, err := w.Note(id); err != nil {
			t.Error("readable through the open folder: ", err)
		}
		if _, err := w.Note(inside); !errors.Is(err, store.ErrNotFound) {
			t.Error("in the closed folder alone: ", err)
		}
		if len(w.Folders()) != 1 {
			t.Error("the closed folder is listed")
		}
		if err := w.SetKeyword(id, "k", true); err != nil {
			t.Error("keywords need w in one folder: ", err)
		}
		if err := w.Destroy(id); !errors.Is(err, store.ErrDenied) {
			t.Error("destroyed without t and e in all: ", err)
		}
		if err := w.RemoveFrom(id, 2); !errors.Is(err, store.ErrDenied) {
			t.Error("removed from the closed folder: ", err)
		}
		return nil
	})
	m.must(err)
	m.check()
}
