package store

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"doublet/env"
	"doublet/note"
	"doublet/stat"
	"doublet/store/layout"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// gateFS holds the flushes of the log while its lock is held.
type gateFS struct {
	env.FS
	gate sync.RWMutex
}

func (g *gateFS) wrap(f env.File, name string, err error) (env.File, error) {
	if err != nil || !strings.HasSuffix(name, ".log") {
		return f, err
	}
	return &gateFile{File: f, g: g}, nil
}

func (g *gateFS) Create(name string, c vfs.DiskWriteCategory) (env.File, error) {
	f, err := g.FS.Create(name, c)
	return g.wrap(f, name, err)
}

func (g *gateFS) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (env.File, error) {
	f, err := g.FS.ReuseForWrite(old, name, c)
	return g.wrap(f, name, err)
}

func (g *gateFS) pass() {
	g.gate.RLock()
	defer g.gate.RUnlock()
}

type gateFile struct {
	env.File
	g *gateFS
}

func (f *gateFile) Sync() error {
	f.g.pass()
	return f.File.Sync()
}

func (f *gateFile) SyncData() error {
	f.g.pass()
	return f.File.SyncData()
}

func (f *gateFile) SyncTo(n int64) (bool, error) {
	f.g.pass()
	return f.File.SyncTo(n)
}

// change creates a note in each database, in one update. With home, a client is told of its numbers.
func change(s *Store, home bool, ids ...note.DatabaseID) error {
	return s.Update(context.Background(), note.System, ids, func(tx *Tx) error {
		open := tx.Database
		if home {
			open = tx.Home
		}
		for _, id := range ids {
			w, err := open(id)
			if err == nil {
				_, err = w.Create(New{})
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// TestEarly checks what does not wait for the flush of the log, and what does: with the flush held, a change of a
// database that acknowledges early returns, and nothing else does.
func TestEarly(t *testing.T) {
	t.Parallel()
	f := env.TestRealTime(t)
	g := &gateFS{FS: f.Env.FS}
	f.Env.FS = g
	o := crashOptions()
	o.MemTableSize = 16 << 20
	o.Stats = stat.New(f.Clock)
	o.Confirm = func(context.Context, []note.DatabaseID, uint64) error {
		t.Error("a mate was asked to confirm a change")
		return nil
	}
	s, err := Open(f.Env, "data", o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx := context.Background()
	var ids []note.DatabaseID
	for _, ack := range []layout.Ack{layout.AckEarly, layout.AckEarly, layout.AckLocal} {
		id, err := s.CreateDatabase(note.System, Create{Kind: "a", Ack: ack})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	// The engine begins with small memtables and doubles them. It cannot begin another log while the flush is held, so
	// there must be room in the present one.
	large := note.MakeItems(note.Item{Name: "Large", Value: note.Text(strings.Repeat("x", 100<<10))})
	for range 100 {
		if err := s.Update(ctx, note.System, ids[2:], func(tx *Tx) error {
			w, err := tx.Database(ids[2])
			if err == nil {
				_, err = w.Create(New{Content: note.Content{Items: large}})
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	before := s.Now()
	var held atomic.Bool
	held.Store(true)
	g.gate.Lock()
	release := sync.OnceFunc(g.gate.Unlock)
	defer release()
	for range 4 {
		if err := change(s, false, ids[0], ids[1]); err != nil {
			t.Fatal(err)
		}
	}
	if s.Now() != before {
		t.Error("the horizon passed a change that is not flushed")
	}
	if got := o.Stats.Snapshot("Database.RM.Commits.*"); len(got) != 2 || got[0].Value != 4 || got[1].Value != 4 {
		t.Errorf("%v", got)
	}
	var all sync.WaitGroup
	waits := func(what string, fn func() error) {
		all.Add(1)
		go func() {
			defer all.Done()
			if err := fn(); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			if held.Load() {
				t.Errorf("%s did not wait for the flush", what)
			}
		}()
	}
	waits("a local change", func() error { return change(s, false, ids[2]) })
	waits("a change of both kinds", func() error { return change(s, false, ids[0], ids[2]) })
	waits("a change that names a local database", func() error {
		return s.Update(ctx, note.System, []note.DatabaseID{ids[0], ids[2]}, func(tx *Tx) error {
			w, err := tx.Database(ids[0])
			if err == nil {
				_, err = w.Create(New{})
			}
			return err
		})
	})
	waits("a change whose numbers are told", func() error { return change(s, true, ids[0]) })
	waits("a change of a replica", func() error {
		return s.Replicate(ctx, ids[0], func(w *Writer) error {
			_, err := w.Create(New{})
			return err
		})
	})
	waits("an update that changes nothing", func() error {
		return s.Update(ctx, note.System, ids[:1], func(*Tx) error { return nil })
	})
	waits("a read", func() error { return s.Read(ctx, note.System, ids[0], func(*Reader) error { return nil }) })
	waits("a description", func() error {
		return s.SetInfo(note.System, ids[1], func(i *layout.Info) { i.Title = "b" })
	})
	for range earlyMax - 4 {
		if err := change(s, false, ids[1]); err != nil {
			t.Fatal(err)
		}
	}
	waits("a change beyond the bound", func() error { return change(s, false, ids[1]) })
	held.Store(false)
	release()
	all.Wait()
	if err := s.hz.wait(s.hz.taken()); err != nil {
		t.Fatal(err)
	}
	if s.Now().Seq <= before.Seq+earlyMax {
		t.Errorf("the horizon is at %d", s.Now().Seq)
	}
}

// TestEarlyIsInLog reads the log while the flush of one change waits, and the next one, which was acknowledged early,
// is in memory only. The part that is read has both.
func TestEarlyIsInLog(t *testing.T) {
	t.Parallel()
	f := env.TestRealTime(t)
	g := &gateFS{FS: f.Env.FS}
	f.Env.FS = g
	o := crashOptions()
	o.KeepLog = 1 << 30
	s, err := Open(f.Env, "data", o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	id, err := s.CreateDatabase(note.System, Create{Kind: "a", Ack: layout.AckEarly})
	if err != nil {
		t.Fatal(err)
	}
	at, err := s.NewestLog()
	if err != nil {
		t.Fatal(err)
	}
	before, err := s.ReadLog(at, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	g.gate.Lock()
	for range 2 {
		if err := change(s, false, id); err != nil {
			t.Error(err)
		}
		time.Sleep(20 * time.Millisecond) // the flush begins, and waits
	}
	read := make(chan LogPart, 1)
	go func() {
		p, err := s.ReadLog(before.To, 1<<20)
		if err != nil {
			t.Error(err)
		}
		read <- p
	}()
	time.Sleep(20 * time.Millisecond)
	g.gate.Unlock()
	if p := <-read; len(p.Batches) != 2 || p.More {
		t.Errorf("the log has %d changes of 2", len(p.Batches))
	}
}

// TestEarlyFailedFlush checks that the process ends if the flush of a change fails that was acknowledged early, and
// that nobody reads the change.
func TestEarlyFailedFlush(t *testing.T) {
	t.Parallel()
	f := env.TestRealTime(t)
	o := crashOptions()
	ended := make(chan struct{})
	var once sync.Once
	o.OnFatal = func(error) { once.Do(func() { close(ended) }) }
	s, err := Open(f.Env, "data", o)
	if err != nil {
		t.Fatal(err)
	}
	db, err := s.CreateDatabase(note.System, Create{Kind: "a", Ack: layout.AckEarly})
	if err != nil {
		t.Fatal(err)
	}
	f.Faults.FailFiles(env.OpSync, func(name string) bool { return strings.HasSuffix(name, ".log") }, nil)
	_ = change(s, false, db) // answered early, or refused because the failure came first
	<-ended
	if err := change(s, false, db); err == nil {
		t.Error("acknowledged after the failure")
	}
	if err := s.Read(context.Background(), note.System, db, func(*Reader) error { return nil }); err == nil {
		t.Error("a reader sees a change that may be lost")
	}
	s.dbs.drain() // nothing waits for the flush any more
}
