package admin

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"

	"doublet/catalog"
	"doublet/env"
	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

// spoil overwrites a row of a database. The types of the storage engine, which only the store imports, follow from
// Store.Derive.
func spoil[R, O any, B interface {
	Set(key, value []byte, o *O) error
}](t *testing.T, id note.DatabaseID,
	derive func(note.DatabaseID, func(R, uint32, B) error) error, key func(number uint32) []byte) {
	t.Helper()
	err := derive(id, func(_ R, number uint32, b B) error { return b.Set(key(number), []byte{0xFF}, nil) })
	if err != nil {
		t.Fatal(err)
	}
}

// damagedSystem returns a system with documents in the databases First, Second and Third, and their ids. It keeps one
// database open, so that a spoiled one is read again.
func damagedSystem(t *testing.T) (*Running, []note.DatabaseID) {
	t.Helper()
	f := env.TestRealTime(t)
	s := &Running{System: &System{Env: f.Env, Name: "mx.example.com"}, Stopping: context.Background()}
	inCluster(s, "", "")
	var err error
	s.Store, err = store.Open(f.Env, "data", store.Options{FloorBytes: -1, Ballast: -1, Databases: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Store.Close(); err != nil {
			t.Error(err)
		}
	})
	if s.Catalog, err = catalog.Open(s.Store, f.Env); err != nil {
		t.Fatal(err)
	}
	var ids []note.DatabaseID
	for n, title := range []string{"First", "Second", "Third"} {
		id, err := s.Store.CreateDatabase(note.System, store.Create{ID: note.DatabaseID(n + 1), Title: title,
			Kind: "documents"})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
		addDocument(t, s, id)
	}
	return s, ids
}

func addDocument(t *testing.T, s *Running, id note.DatabaseID) {
	t.Helper()
	err := s.Store.Update(context.Background(), note.System, []note.DatabaseID{id}, func(tx *store.Tx) error {
		w, err := tx.Database(id)
		if err == nil {
			_, err = w.Create(store.New{Content: note.Content{
				Items: note.MakeItems(note.Item{Name: "Subject", Value: note.Text("x")})}})
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestDamagedDatabase checks that a database that cannot be opened stops neither the catalog, which keeps its earlier
// entry, nor Compact, which compacts the others and reports it.
func TestDamagedDatabase(t *testing.T) {
	t.Parallel()
	s, ids := damagedSystem(t)
	ctx := context.Background()
	run := func() map[string]CatalogEntry {
		t.Helper()
		if _, err := Do[Done](ctx, Direct{s}, "catalog", nil); err != nil {
			t.Fatal(err)
		}
		list, err := Do[[]CatalogEntry](ctx, Direct{s}, "show catalog", nil)
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]CatalogEntry{}
		for _, e := range list {
			out[e.ID] = e
		}
		return out
	}
	before := run()
	if before[ids[0].String()].Notes != 1 {
		t.Fatalf("%+v", before)
	}
	spoil(t, ids[0], s.Store.Derive, func(n uint32) []byte { return layout.Prefix(n, layout.KindCounters) })
	addDocument(t, s, ids[2])
	after := run()
	got, want := after[ids[0].String()], before[ids[0].String()]
	want.State = layout.OutOfService.String()
	if len(after) != len(before) || !reflect.DeepEqual(got, want) {
		t.Errorf("the entry of the damaged database is %+v, want %+v", got, want)
	}
	if e := after[ids[2].String()]; e.Notes != 2 {
		t.Errorf("the entry of a sound database is old: %+v", e)
	}
	met, swept := map[string]bool{}, false
	c := &Call{System: s.System, Who: note.System, running: s, Progress: func(p Progress) {
		met[p.Text] = true
		swept = swept || p.Stage == "objects"
	}}
	_, err := c.run(ctx, "compact", []byte(`{"share":100}`))
	if !errors.Is(err, store.ErrDamaged) || !strings.Contains(err.Error(), ids[0].String()) {
		t.Errorf("compact: %v", err)
	}
	if len(met) < len(before) || !swept {
		t.Errorf("compact met %v, objects: %v", met, swept)
	}
}

// TestDamagedViews checks that a damaged list of notes does not stop UpdAll.
func TestDamagedViews(t *testing.T) {
	t.Parallel()
	s, ids := damagedSystem(t)
	spoil(t, ids[0], s.Store.Derive, func(n uint32) []byte { return layout.NoteKey(n, layout.KindNote, 1) })
	out, err := Do[Updated](context.Background(), Direct{s}, "updall", nil)
	if err != nil || out.Databases < 3 || len(out.Errors) != 1 || !strings.Contains(out.Errors[0], "First") {
		t.Errorf("%+v, %v", out, err)
	}
}
