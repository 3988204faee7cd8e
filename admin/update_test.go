package admin

import (
	"context"
	"errors"
	"testing"

	"doublet/note"
	"doublet/store"
	"doublet/store/view"
)

func TestUpdater(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	ctx := context.Background()
	db, err := s.Store.CreateDatabase(note.System, store.Create{Title: "Plans", Kind: "documents"})
	if err != nil {
		t.Fatal(err)
	}
	u := NewUpdater(s.Store)
	create := func(class note.Class, items ...note.Item) (id note.ID) {
		err := s.Store.Update(ctx, note.System, []note.DatabaseID{db}, func(tx *store.Tx) error {
			w, err := tx.Database(db)
			if err != nil {
				return err
			}
			id, err = w.Create(store.New{Class: class, Content: note.Content{Items: note.MakeItems(items...)}})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	design := create(note.Design, note.Item{Name: view.ItemView,
		Value: note.Text(`{"name":"All","columns":[{"item":"Name","sort":"asc"}]}`)})
	create(note.Document, note.Item{Name: "Name", Value: note.Text("one")})
	v, err := view.Open(s.Store, db, design)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.Read(ctx, note.System, view.Query{}); !errors.Is(err, view.ErrNotBuilt) {
		t.Errorf("before the task ran: %v", err)
	}
	for want := 1; want <= 2; want++ {
		if err := u.Run(ctx); err != nil {
			t.Fatal(err)
		}
		page, err := v.Read(ctx, note.System, view.Query{})
		if err != nil || len(page.Entries) != want {
			t.Errorf("after run %d: %d entries, %v", want, len(page.Entries), err)
		}
		create(note.Document, note.Item{Name: "Name", Value: note.Text("two")})
	}
	// A malformed view, or one that was deleted, stops nothing.
	create(note.Design, note.Item{Name: view.ItemView, Value: note.Text("{")})
	if err := u.Run(ctx); err != nil {
		t.Error(err)
	}
	if err := s.Store.RemoveDatabase(note.System, db); err != nil {
		t.Fatal(err)
	}
	if err := u.Run(ctx); err != nil {
		t.Error(err)
	}
}
