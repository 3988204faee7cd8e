package index_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"doublet/env"
	"doublet/note"
	"doublet/search"
	"doublet/search/query"
	"doublet/search/text"
	"doublet/store"
	"doublet/store/layout"
	"doublet/wire/mime"

	"github.com/cockroachdb/pebble/v2"
)

// indexed is a store whose databases are indexed. The tests of package search may not open the engine of the store, so
// the tests that damage single rows are here.
type indexed struct {
	t   *testing.T
	f   *env.Fixture
	s   *store.Store
	svc *search.Service
	// end stops the service and returns its error.
	end func() error
}

// floor is the free space in bytes below which the index is not written.
const floor = 64 << 20

func (w *indexed) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *indexed) open() {
	w.t.Helper()
	var err error
	w.s, err = store.Open(w.f.Env, "data", store.Options{
		FloorBytes: floor, FloorPercent: -1, Ballast: -1, MemTableSize: 1 << 20, CacheSize: 4 << 20,
		LogSyncInterval: 20 * time.Microsecond,
		OnFatal:         func(err error) { w.t.Error(err) },
	})
	w.must(err)
	w.svc = search.New(w.s, w.f.Env, search.Options{
		Dir: "data/search", CacheSize: 2 << 20, MemTableSize: 256 << 10, Share: 100, RebuildShare: 100,
		Kinds: map[string]func(*note.Content) []text.Stretch{"mail": nil},
	})
}

func (w *indexed) run() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	svc := w.svc
	go func() { done <- svc.Run(ctx) }()
	w.end = func() error { cancel(); return <-done }
}

// catch waits until everything is indexed.
func (w *indexed) catch() {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := w.svc.Catch(ctx); err != nil {
		w.t.Fatalf("the index does not catch up: %v; the service ended with: %v", err, w.end())
	}
}

// damage closes the store, makes a note's row unreadable, and opens the store again.
func (w *indexed) damage(db note.DatabaseID, id note.ID) {
	w.t.Helper()
	info, err := w.s.Info(db)
	w.must(err)
	w.must(w.s.Close())
	eng, err := pebble.Open("data/notes", &pebble.Options{FS: w.f.Env.FS,
		FormatMajorVersion: pebble.FormatValueSeparation})
	w.must(err)
	w.must(eng.Set(layout.NoteKey(info.Number, layout.KindNote, id), []byte{0xff}, pebble.Sync))
	w.must(eng.Close())
	w.open()
	w.must(w.s.Read(context.Background(), note.System, db, func(r *store.Reader) error {
		if _, err := r.Row(id); !errors.Is(err, store.ErrDamaged) {
			return fmt.Errorf("note %d is not damaged: %v", id, err)
		}
		return nil
	}))
}

func (w *indexed) update(db note.DatabaseID, fn func(*store.Writer) error) {
	w.t.Helper()
	w.must(w.s.Update(context.Background(), note.System, []note.DatabaseID{db}, func(tx *store.Tx) error {
		x, err := tx.Database(db)
		if err != nil {
			return err
		}
		return fn(x)
	}))
}

func (w *indexed) deliver(db note.DatabaseID, word string) (id note.ID) {
	w.t.Helper()
	raw := []byte("From: a@example.com\r\nSubject: s\r\n\r\n" + word + "\r\n")
	m, err := w.s.Prepare(context.Background(), raw, mime.SplitLeaves(raw, mime.Parse(raw, mime.DefaultLimits),
		store.PartSize))
	w.must(err)
	defer m.Release()
	w.update(db, func(x *store.Writer) (err error) {
		id, err = x.Create(store.New{Message: m})
		return err
	})
	return id
}

func (w *indexed) ask(db note.DatabaseID, word string) (out []note.ID, err error) {
	n, err := query.Parse(word, query.Context{Now: w.f.Env.Clock.Now()})
	w.must(err)
	got, err := w.svc.Query(context.Background(), note.System, db, search.Request{Query: n.Node()})
	for _, h := range got.Hits {
		out = append(out, h.ID)
	}
	return out, err
}

func (w *indexed) found(db note.DatabaseID, word string, want note.ID) {
	w.t.Helper()
	if got, err := w.ask(db, word); err != nil || len(got) != 1 || got[0] != want {
		w.t.Errorf("%s: %v, %v, want note %d", word, got, err, want)
	}
}

// TestDamagedRow checks that a note whose row is damaged neither stops the indexing of its database and of others nor
// makes queries fail: without an index, while a database is built, when the feed names the note, and while the index
// lags behind it.
func TestDamagedRow(t *testing.T) {
	t.Parallel()
	w := &indexed{t: t, f: env.TestRealTime(t)}
	w.open()
	defer func() { w.must(w.s.Close()) }()
	bad, err := w.s.CreateDatabase(note.System, store.Create{Title: "damaged", Kind: "mail"})
	w.must(err)
	good, err := w.s.CreateDatabase(note.System, store.Create{Title: "sound", Kind: "mail"})
	w.must(err)
	first := w.deliver(bad, "apple")
	w.damage(bad, w.deliver(bad, "banana"))
	third, other := w.deliver(bad, "cherry"), w.deliver(good, "damson")
	w.found(bad, "apple", first) // without an index
	w.found(bad, "cherry", third)
	w.run()
	w.catch()
	w.found(bad, "apple", first)
	w.found(bad, "cherry", third)
	w.found(good, "damson", other)

	w.must(w.end())
	w.damage(bad, w.deliver(bad, "elder"))
	fig, grape := w.deliver(bad, "fig"), w.deliver(good, "grape")
	w.run()
	w.catch()
	w.found(bad, "fig", fig)
	w.found(good, "grape", grape)

	w.must(w.end())
	w.update(bad, func(x *store.Writer) error { return x.SetKeyword(third, "k", true) })
	w.damage(bad, third)
	w.f.Faults.SetSpace(floor / 2) // the index answers, and does not read the feed
	w.run()
	for until := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		if _, err = w.ask(bad, "apple"); err == nil || time.Now().After(until) {
			break
		}
	}
	w.must(err)
	w.found(bad, "apple", first)
	if got, err := w.ask(bad, "cherry"); err != nil || len(got) != 0 {
		t.Errorf("the damaged note: %v, %v", got, err)
	}
	w.must(w.end())
}
