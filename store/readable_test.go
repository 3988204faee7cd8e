package store

import (
	"context"
	"errors"
	"slices"
	"testing"

	"doublet/env"
	"doublet/note"
	"doublet/store/layout"
)

// TestReadableNotes checks that ReadableNotes goes on behind damaged rows and names them, and that Notes fails at the
// first one.
func TestReadableNotes(t *testing.T) {
	t.Parallel()
	s, err := Open(env.Test(t).Env, "data", damageOptions())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx := context.Background()
	db, err := s.CreateDatabase(note.System, Create{Title: "db", Kind: "mail"})
	if err != nil {
		t.Fatal(err)
	}
	var ids []note.ID
	err = s.Update(ctx, note.System, []note.DatabaseID{db}, func(tx *Tx) error {
		w, err := tx.Database(db)
		for i := 0; i < 6 && err == nil; i++ {
			var id note.ID
			id, err = w.Create(New{Content: note.Content{Items: version(i)}})
			ids = append(ids, id)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	info, err := s.Info(db)
	if err != nil {
		t.Fatal(err)
	}
	bad := []note.ID{ids[0], ids[2], ids[5]}
	for _, id := range bad {
		if err := s.eng.Set(layout.NoteKey(info.Number, layout.KindNote, id), []byte{0xff}, nil); err != nil {
			t.Fatal(err)
		}
	}
	err = s.Read(ctx, note.System, db, func(r *Reader) error {
		var good, damaged []note.ID
		named := func(id note.ID, err error) {
			if !errors.Is(err, ErrDamaged) {
				t.Errorf("note %d: %v", id, err)
			}
			damaged = append(damaged, id)
		}
		all := func(id note.ID, _ *layout.Note) bool { good = append(good, id); return true }
		if err := ReadableNotes(r, 0, named, all); err != nil {
			t.Error(err)
		}
		if want := []note.ID{ids[1], ids[3], ids[4]}; !slices.Equal(good, want) || !slices.Equal(damaged, bad) {
			t.Errorf("notes %v and damaged %v, want %v and %v", good, damaged, want, bad)
		}
		good = nil
		if err := r.Notes(ids[1], all); !errors.Is(err, ErrDamaged) || !slices.Equal(good, ids[1:2]) {
			t.Errorf("Notes: %v, %v", good, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
