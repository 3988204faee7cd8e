package store_test

import (
	"context"
	"errors"
	"testing"

	"doublet/note"
	"doublet/store"
)

// TestRemoveUnchanged checks that a database is removed if it is unchanged, and kept if anything was committed since.
func TestRemoveUnchanged(t *testing.T) {
	t.Parallel()
	m := newModel(t)
	id, err := m.s.CreateDatabase(note.System, store.Create{Title: "Mail"})
	if err != nil {
		t.Fatal(err)
	}
	stands := func() (seq uint64) {
		if err := m.s.Read(context.Background(), note.System, id,
			func(r *store.Reader) error { seq = r.Counters().Seq; return nil }); err != nil {
			t.Fatal(err)
		}
		return seq
	}
	before := stands()
	err = m.s.Update(context.Background(), note.System, []note.DatabaseID{id}, func(tx *store.Tx) error {
		w, err := tx.Database(id)
		if err == nil {
			_, err = w.CreateFolder("INBOX", "")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.s.RemoveUnchanged(note.System, id, before); !errors.Is(err, store.ErrChanged) {
		t.Errorf("one that has changed: %v", err)
	}
	if err := m.s.RemoveUnchanged(note.Who{}, id, stands()); !errors.Is(err, store.ErrDenied) {
		t.Errorf("by anybody: %v", err)
	}
	if err := m.s.RemoveUnchanged(note.System, id, stands()); err != nil {
		t.Error(err)
	}
	if _, err := m.s.Info(id); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("it is there still: %v", err)
	}
}
