package store

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"doublet/env"
	"doublet/note"
	"doublet/store/layout"
)

// TestDescriptionIsDurable checks that nobody is shown a description, or the MODSEQ that its change has taken, while
// the flush of the log is held: after a crash that MODSEQ would be given again.
func TestDescriptionIsDurable(t *testing.T) {
	t.Parallel()
	f := env.TestRealTime(t)
	g := &gateFS{FS: f.Env.FS}
	f.Env.FS = g
	s, err := Open(f.Env, "data", crashOptions())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx := context.Background()
	id, err := s.CreateDatabase(note.System, Create{Title: "old", Kind: "a"})
	if err == nil {
		err = s.Share(ctx, id, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	before, err := s.Current(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	db, err := s.dbs.acquire(id)
	if err != nil {
		t.Fatal(err)
	}
	defer s.dbs.release(db)
	var held atomic.Bool
	held.Store(true)
	g.gate.Lock()
	release := sync.OnceFunc(func() {
		held.Store(false)
		g.gate.Unlock()
	})
	defer release()
	var all sync.WaitGroup
	waits := func(what string, fn func() (title string, err error)) {
		all.Add(1)
		go func() {
			defer all.Done()
			title, err := fn()
			if err != nil || title != "new" {
				t.Errorf("%s: %q, %v", what, title, err)
			}
			if held.Load() {
				t.Errorf("%s did not wait for the flush", what)
			}
		}()
	}
	waits("the change", func() (string, error) {
		return "new", s.SetInfo(note.System, id, func(i *layout.Info) { i.Title = "new" })
	})
	for db.cur.Load().info.Title == "old" {
		time.Sleep(time.Millisecond)
	}
	told := func(c *layout.Counters) {
		if c.Ledger.Last == before.Counters.Ledger.Last {
			t.Error("the change took no MODSEQ")
		}
	}
	waits("a read", func() (title string, err error) {
		err = s.Read(ctx, note.System, id, func(r *Reader) error {
			c := r.Counters()
			told(&c)
			title = r.Info().Title
			return nil
		})
		return title, err
	})
	waits("the current state", func() (string, error) {
		c, err := s.Current(ctx, id)
		if err != nil {
			return "", err
		}
		told(&c.Counters)
		return c.Info.Title, nil
	})
	waits("an update that changes nothing", func() (title string, err error) {
		err = s.Update(ctx, note.System, []note.DatabaseID{id}, func(tx *Tx) error {
			w, err := tx.Database(id)
			if err == nil {
				title = w.Info().Title
			}
			return err
		})
		return title, err
	})
	waits("the description", func() (string, error) {
		i, err := s.Info(id)
		return i.Title, err
	})
	waits("the list", func() (string, error) {
		list, err := s.Databases()
		if err != nil {
			return "", err
		}
		return list[0].Title, nil
	})
	waits("the list of rows", func() (title string, err error) {
		err = s.Infos(func(i *layout.Info) { title = i.Title })
		return title, err
	})
	time.AfterFunc(100*time.Millisecond, release)
	all.Wait()
}
