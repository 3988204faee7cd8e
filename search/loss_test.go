package search

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"doublet/env"
	"doublet/note"
	"doublet/store"
)

// TestFeedCut checks that an index whose cursor is no longer in the feed catches up from the rows of the databases.
func TestFeedCut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.close()
	o := storeOptions()
	o.FeedKeep = 10
	var err error
	if w.s, err = store.Open(w.f.Env, "data", o); err != nil {
		t.Fatal(err)
	}
	w.svc = New(w.s, w.f.Env, w.o)
	db, dir := w.database(kindMail), w.database("directory")
	var p note.ID
	w.update(dir, func(x *store.Writer) (err error) {
		p, err = x.Create(store.New{Content: note.Content{Items: note.MakeItems(note.Item{Name: "FullName",
			Value: note.Text("Old Name")})}})
		return err
	})
	h := w.hand()
	a := w.deliver(mail("one", "apple"), day, db)[0]
	h.all()
	w.update(dir, func(x *store.Writer) error {
		c, err := x.Content(p)
		if err != nil {
			return err
		}
		win, _ := c.Tree.Winner()
		_, err = x.Revise(p, win.Rev,
			note.Content{Items: note.MakeItems(note.Item{Name: "FullName", Value: note.Text("New Name")})}, nil)
		return err
	})
	var last note.ID
	for i := range 100 {
		last = w.deliver(mail("more", fmt.Sprint("pear", i)), day, db)[0]
	}
	if err := w.s.Trim(); err != nil {
		t.Fatal(err)
	}
	if _, err := w.s.Feed(h.k.cur, func(store.Change) bool { return false }); !errors.Is(err, store.ErrFeedCut) {
		t.Fatalf("the feed is not cut: %v", err)
	}
	w.found(db, "pear99", last)
	h.all()
	if got := w.verdict(db, "pear99", last); got != Yes {
		t.Errorf("the verdict is %d", got)
	}
	w.found(db, "apple", a)
	w.found(dir, "new", p)
	w.found(dir, "old")
	if s := h.state(dir); !s.Active.Done || s.Active.Seq != 0 {
		t.Errorf("%+v", s.Active)
	}
}

// TestCrash resets the index to its last flush. It continues from its cursor and misses nothing.
func TestCrash(t *testing.T) {
	t.Parallel()
	for seed := uint64(1); seed <= 4; seed++ {
		w := newWorld(t)
		w.o.MemTableSize = 64 << 10
		w.reopen([]int{1, 5, 20, 128}[seed%4])
		w.run()
		g := &asks{&writer{rand.New(rand.NewPCG(seed, 9))}}
		dbs := []note.DatabaseID{w.database(kindMail), w.database(kindMail)}
		live := map[note.DatabaseID][]note.ID{}
		for round := range 3 {
			for range 120 {
				w.change(g, dbs, live)
			}
			if round == 1 {
				w.catch()
			}
			after := w.f.Crash(50, seed*10+uint64(round))
			w.stop()
			w.s.Close()
			w.f = after
			w.open()
			for range 5 { // without an index, as it is, and while it is running
				n := g.text()
				w.same(dbs[0], n, describe(n))
			}
			w.run()
			for range 5 {
				n := g.text()
				w.same(dbs[1], n, describe(n))
			}
		}
		w.catch()
		for range 10 {
			n := g.query(2)
			w.same(dbs[0], n, describe(n))
		}
		w.close()
	}
}

// TestRestored restores a store, which then assigns note ids again that the index knows for other notes.
func TestRestored(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	old, quiet := w.database(kindMail), w.database(kindMail)
	h := w.hand()
	w.deliver(mail("one", "apple"), day, old)
	q := w.deliver(mail("quiet", "stillness"), day, quiet)[0]
	h.all()
	// Save the current state of the store, but not of the index.
	m, err := w.s.Capture(w.ctx)
	if err != nil {
		t.Fatal(err)
	}
	kept := map[string][]byte{}
	names, err := w.f.FS.List(m.Index)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		kept[n] = w.file(w.f.FS.PathJoin(m.Index, n))
	}
	if err := m.Release(); err != nil {
		t.Fatal(err)
	}
	lost := w.deliver(mail("two", "banana"), day, old)[0]
	h.all()
	w.found(old, "banana", lost)
	built := h.state(quiet).Active.ID
	w.close()
	// Restore the store.
	dir := w.f.FS.PathJoin("data", "notes")
	if err := w.f.FS.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := w.f.FS.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for n, b := range kept {
		w.put(w.f.FS.PathJoin(dir, n), b)
	}
	w.open()
	if err := w.s.Rebranch(); err != nil {
		t.Fatal(err)
	}
	again := w.deliver(mail("three", "cherry"), day, old)[0]
	if again != lost {
		t.Fatalf("note %d is not given again: %d", lost, again)
	}
	h = w.hand()
	for range 2 {
		w.found(old, "banana")
		w.found(old, "cherry", again)
		w.found(quiet, "stillness", q)
		h.all()
	}
	if got := w.verdict(old, "banana", again); got != No {
		t.Errorf("the verdict is %d", got)
	}
	if got := h.state(quiet).Active.ID; got != built {
		t.Error("a database that nothing happened in was built anew")
	}
}

func (w *world) file(path string) []byte {
	w.t.Helper()
	f, err := w.f.FS.Open(path)
	if err != nil {
		w.t.Fatal(err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		w.t.Fatal(err)
	}
	b := make([]byte, st.Size())
	if _, err := f.ReadAt(b, 0); err != nil && len(b) > 0 {
		w.t.Fatal(err)
	}
	return b
}

func (w *world) put(path string, b []byte) {
	w.t.Helper()
	f, err := w.f.FS.Create(path, "")
	if err == nil {
		_, err = f.Write(b)
	}
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		w.t.Fatal(err)
	}
}

// TestDamaged checks that a damaged index is discarded and built again, and that answers are always correct.
func TestDamaged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	db := w.database(kindMail)
	var ids []note.ID
	for i := range 200 {
		ids = append(ids, w.deliver(mail("n", fmt.Sprint("word", i, " filler text for the index")), day, db)...)
	}
	w.run()
	w.catch()
	w.stop()
	dir := w.f.FS.PathJoin(w.o.Dir, "1")
	names, err := w.f.FS.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	flipped := 0
	for _, n := range names {
		if strings.HasSuffix(n, ".sst") || strings.HasSuffix(n, ".blob") {
			b := w.file(w.f.FS.PathJoin(dir, n))
			for i := 0; i < len(b)/2; i += 100 {
				b[i] ^= 0x55
			}
			w.put(w.f.FS.PathJoin(dir, n), b)
			flipped++
		}
	}
	if flipped == 0 {
		t.Fatalf("no tables among %v", names)
	}
	w.close()
	w.open()
	w.run()
	for i := range 20 {
		w.found(db, fmt.Sprint("word", i), ids[i])
	}
	w.catch()
	if w.svc.stat.remade.Value() == 0 {
		t.Error("the damage was not met")
	}
	w.found(db, "word7", ids[7])
	if got := w.verdict(db, "word7", ids[7]); got != Yes {
		t.Errorf("the verdict is %d", got)
	}
	names, err = w.f.FS.List(w.o.Dir)
	if err != nil || len(names) != 1 || names[0] == "1" {
		t.Errorf("folders %v, %v", names, err)
	}
}

// TestDead checks that a failed engine does not block the server.
func TestDead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	db := w.database(kindMail)
	w.run()
	a := w.deliver(mail("one", "apple"), day, db)[0]
	w.catch()
	w.f.Faults.FailFiles(env.OpWrite, func(n string) bool {
		return strings.Contains(n, "search") && strings.Contains(n, "MANIFEST")
	}, errors.New("no"))
	x := w.svc.index()
	go x.Flush()
	select {
	case <-x.Dead():
	case <-time.After(30 * time.Second):
		t.Fatal("the engine goes on")
	}
	w.f.Faults.Heal()
	w.found(db, "apple", a)
	b := w.deliver(mail("two", "banana"), day, db)[0]
	w.catch()
	w.found(db, "banana", b)
	if got := w.verdict(db, "apple", a); got != Yes {
		t.Errorf("the verdict is %d", got)
	}
}

// TestOtherMaking checks that an index with other settings is built again.
func TestOtherMaking(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	db := w.database(kindMail)
	id := w.deliver(mail("one", strings.Repeat("filler ", 100)+"end"), day, db)[0]
	w.run()
	w.catch()
	w.found(db, "end", id)
	w.close()
	w.o.Limits.Part = 100
	w.open()
	w.run()
	w.found(db, "end")
	w.catch()
	w.found(db, "end")
	w.found(db, "filler", id)
}
