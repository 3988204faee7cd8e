package store_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"doublet/env"
	"doublet/note"
	"doublet/store"
	"doublet/store/layout"

	"github.com/cockroachdb/pebble/v2"
)

func grant(m *model, db note.DatabaseID, level note.Level) {
	m.t.Helper()
	m.must(m.s.SetInfo(note.System, db, func(i *layout.Info) {
		i.ACL = i.ACL.With(note.Entry{ID: persons[0], Level: level})
	}))
}

// TestConcurrentUpdates increments counters in more databases than are kept open. No increment may be lost.
func TestConcurrentUpdates(t *testing.T) {
	t.Parallel()
	m := newModel(t)
	const writers, rounds, count = 8, 30, 4
	var dbs []*modelDB
	for range count {
		id, err := m.s.CreateDatabase(note.System, store.Create{Kind: "mail"})
		m.must(err)
		d := &modelDB{id: id, folders: map[note.ID]string{}}
		m.createFolder(d, "f")
		dbs = append(dbs, d)
	}
	var fired atomic.Int64
	stop, err := m.s.Watch(dbs[0].id, func() { fired.Add(1) })
	m.must(err)
	var wg sync.WaitGroup
	for n := range writers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := range rounds {
				d := dbs[(n+i)%count]
				if err := m.update(func(ws ...*store.Writer) error {
					_, err := ws[0].Create(store.New{Folders: []note.ID{1}})
					return err
				}, d); err != nil {
					t.Error(err)
				}
			}
		}()
	}
	wg.Wait()
	stop()
	for _, d := range dbs {
		m.read(d, func(r *store.Reader) error {
			if f := r.Folders()[0]; f.Total != writers*rounds/count || f.UIDNext != f.Total+1 {
				t.Errorf("%d members, next UID %d; want %d", f.Total, f.UIDNext, writers*rounds/count)
			}
			return nil
		})
	}
	if fired.Load() == 0 {
		t.Error("the watcher heard nothing")
	}
	m.check()
}

// TestFailedFlush checks that after a failed flush of the log nothing is acknowledged, and no reader sees the change.
func TestFailedFlush(t *testing.T) {
	t.Parallel()
	f := env.TestRealTime(t)
	o := options()
	var fatal atomic.Int64
	o.OnFatal = func(error) { fatal.Add(1) }
	s, err := store.Open(f.Env, "data", o)
	if err != nil {
		t.Fatal(err)
	}
	db, err := s.CreateDatabase(note.System, store.Create{})
	if err != nil {
		t.Fatal(err)
	}
	f.Faults.FailFiles(env.OpSync, func(name string) bool { return strings.HasSuffix(name, ".log") },
		errors.New("the disk is gone"))
	var wg sync.WaitGroup
	for range 4 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			err := s.Update(context.Background(), note.System, []note.DatabaseID{db}, func(tx *store.Tx) error {
				w, err := tx.Database(db)
				if err == nil {
					_, err = w.Create(store.New{})
				}
				return err
			})
			if err == nil {
				t.Error("acknowledged though the flush failed")
			}
		}()
	}
	wg.Wait()
	err = s.Read(context.Background(), note.System, db, func(r *store.Reader) error {
		t.Errorf("a reader sees %d notes that may be lost", r.Counters().Notes)
		return nil
	})
	if err == nil || fatal.Load() == 0 {
		t.Errorf("read after the failure: %v; told %d times", err, fatal.Load())
	}
}

// TestSpace checks that below the floor nothing can be added, that deleting works, and that the store recovers when
// there is room.
func TestSpace(t *testing.T) {
	t.Parallel()
	f := env.Test(t)
	f.Faults.SetSpace(1 << 30)
	o := options()
	o.FloorBytes, o.FloorPercent = 100<<20, 1
	s, err := store.Open(f.Env, "data", o)
	if err != nil {
		t.Fatal(err)
	}
	db, err := s.CreateDatabase(note.System, store.Create{})
	if err != nil {
		t.Fatal(err)
	}
	do := func(fn func(w *store.Writer) error) error {
		return s.Update(context.Background(), note.System, []note.DatabaseID{db}, func(tx *store.Tx) error {
			w, err := tx.Database(db)
			if err != nil {
				return err
			}
			return fn(w)
		})
	}
	var id note.ID
	create := func(w *store.Writer) (err error) { id, err = w.Create(store.New{}); return err }
	if err := do(create); err != nil {
		t.Fatal(err)
	}
	f.Faults.SetSpace(60 << 20)
	f.Time.Advance(2e9)
	if err := do(create); !errors.Is(err, store.ErrNoSpace) {
		t.Error("created below the floor: ", err)
	}
	if _, err := s.Prepare(context.Background(), []byte("x"), nil); !errors.Is(err, store.ErrNoSpace) {
		t.Error("prepared below the floor: ", err)
	}
	if _, err := s.CreateDatabase(note.System, store.Create{}); !errors.Is(err, store.ErrNoSpace) {
		t.Error("made a database below the floor: ", err)
	}
	id = 1
	if err := do(func(w *store.Writer) error { return w.Destroy(id) }); err != nil {
		t.Error("deleting below the floor: ", err)
	}
	f.Faults.SetSpace(1 << 30)
	f.Time.Advance(2e9)
	if err := do(create); err != nil {
		t.Error("with room again: ", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestFormatAndLock(t *testing.T) {
	t.Parallel()
	m := newModel(t)
	if _, err := store.Open(m.f.Env, "data", options()); err == nil {
		t.Error("a second store opened the same folder")
	}
	m.must(m.s.Close())
	if err := m.s.Trim(); !errors.Is(err, store.ErrClosed) {
		t.Error("trim of a closed store: ", err)
	}
	if _, err := m.s.Feed(store.Cursor{}, func(store.Change) bool { return true }); !errors.Is(err, store.ErrClosed) {
		t.Error("feed of a closed store: ", err)
	}
	if err := m.s.SaveCursor("x", store.Cursor{}); !errors.Is(err, store.ErrClosed) {
		t.Error("cursor of a closed store: ", err)
	}
	format := func(set byte) (was byte) {
		eng, err := pebble.Open("data/notes", &pebble.Options{FS: m.f.Env.FS,
			FormatMajorVersion: pebble.FormatValueSeparation})
		m.must(err)
		v, closer, err := eng.Get(layout.MetaKey("format"))
		m.must(err)
		was = v[7]
		m.must(closer.Close())
		m.must(eng.Set(layout.MetaKey("format"), []byte{0, 0, 0, 0, 0, 0, 0, set}, pebble.Sync))
		m.must(eng.Close())
		return was
	}
	// An older format is raised when the store is opened, because an older program must not read new rows.
	format(1)
	s, err := store.Open(m.f.Env, "data", options())
	m.must(err)
	m.must(s.Close())
	if was := format(layout.FormatVersion + 1); was != layout.FormatPlain {
		t.Errorf("an old store has format %d after it was opened", was)
	}
	if _, err := store.Open(m.f.Env, "data", options()); !errors.Is(err, store.ErrFormat) {
		t.Error("a newer format was opened: ", err)
	}
}

// TestRebranch checks that a cursor of another branch is limited to the point where they diverged, that a cursor of an
// unknown incarnation starts at the beginning, and that the ledger begins a term.
func TestRebranch(t *testing.T) {
	t.Parallel()
	m := newModel(t)
	id, err := m.s.CreateDatabase(note.System, store.Create{})
	m.must(err)
	d := &modelDB{id: id, folders: map[note.ID]string{}}
	m.createFolder(d, "f")
	var uids []uint32
	create := func() {
		m.must(m.update(func(ws ...*store.Writer) error {
			n, err := ws[0].Create(store.New{Folders: []note.ID{1}})
			uids = append(uids, ws[0].UID(n, 1))
			return err
		}, d))
	}
	create()
	old := m.s.Now()
	m.must(m.s.Rebranch())
	create()
	if uids[0] != 1 || uids[1] < 17<<16 {
		t.Errorf("UIDs %v: another home may have given these", uids)
	}
	for _, c := range []struct {
		name string
		from store.Cursor
		want int
	}{
		{"of this branch", m.s.Now(), 0},
		{"of the old one", old, 1},
		{"of the old one, beyond the parting", store.Cursor{Incarnation: old.Incarnation, Seq: old.Seq + 1000}, 1},
		{"of a stranger", store.Cursor{Incarnation: 99, Seq: old.Seq + 1000}, 3},
	} {
		n := 0
		_, err := m.s.Feed(c.from, func(store.Change) bool { n++; return true })
		if err != nil || n != c.want {
			t.Errorf("cursor %s: %d changes, want %d: %v", c.name, n, c.want, err)
		}
	}
}
