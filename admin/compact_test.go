package admin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"doublet/env"
	"doublet/note"
	"doublet/store"
	"doublet/store/crypt"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestCompact checks that the space of deleted notes is freed, that what is left can be read, and that the result says
// how much was saved.
func TestCompact(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	ctx := context.Background()
	db, err := s.Store.CreateDatabase(note.System, store.Create{Title: "Heap", Kind: "documents", Queue: true})
	if err != nil {
		t.Fatal(err)
	}
	update := func(fn func(w *store.Writer) error) {
		t.Helper()
		if err := s.Store.Update(ctx, note.System, []note.DatabaseID{db}, func(tx *store.Tx) error {
			w, err := tx.Database(db)
			if err != nil {
				return err
			}
			return fn(w)
		}); err != nil {
			t.Fatal(err)
		}
	}
	var ids []note.ID
	for range 40 {
		update(func(w *store.Writer) error {
			for range 10 {
				text := make([]byte, 4000)
				s.Env.Fill(text)
				id, err := w.Create(store.New{Content: note.Content{Items: note.MakeItems(
					note.Item{Name: "Body", Value: note.Binary(text)})}})
				if err != nil {
					return err
				}
				ids = append(ids, id)
			}
			return nil
		})
	}
	run := func() Compacted {
		t.Helper()
		out, err := Do[Compacted](ctx, Direct{s}, "compact", Compact{Database: []string{"Heap"}, Share: 100})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	full := run()
	if full.After < 1<<20 {
		t.Fatalf("%+v: too little to compact", full)
	}
	for i := 0; i < len(ids)-1; i += 20 {
		update(func(w *store.Writer) error {
			for _, id := range ids[i:min(i+20, len(ids)-1)] {
				if err := w.Destroy(id); err != nil {
					return err
				}
			}
			return nil
		})
	}
	out := run()
	if out.Databases != 1 || out.After > full.After/4 || out.Saved == 0 || out.Saved != out.Before-out.After {
		t.Errorf("%+v after %+v", out, full)
	}
	if err := s.Store.Read(ctx, note.System, db, func(r *store.Reader) error {
		c, err := r.Content(ids[len(ids)-1])
		if err == nil && len(c.Content.Items.Get("Body").AsBinary()) != 4000 {
			err = errors.New("the body is gone")
		}
		return err
	}); err != nil {
		t.Error(err)
	}
	if all, err := Do[Compacted](ctx, Direct{s}, "compact", Compact{Share: 100}); err != nil || all.Databases < 2 {
		t.Errorf("all: %+v %v", all, err)
	}
}

// TestCompactErases encrypts a database. What it held before lies in files until compact has run.
func TestCompactErases(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	ctx := context.Background()
	db, err := s.Store.CreateDatabase(note.System, store.Create{Title: "Heap", Kind: "documents"})
	if err != nil {
		t.Fatal(err)
	}
	secret := make([]byte, 4000)
	s.Env.Fill(secret)
	if err := s.Store.Update(ctx, note.System, []note.DatabaseID{db}, func(tx *store.Tx) error {
		w, err := tx.Database(db)
		if err != nil {
			return err
		}
		_, err = w.Create(store.New{Content: note.Content{Items: note.MakeItems(
			note.Item{Name: "Body", Value: note.Binary(secret)})}})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	line, err := crypt.NewKey(s.Env)
	if err != nil {
		t.Fatal(err)
	}
	h, err := s.Env.FS.Create("own.key", vfs.WriteCategoryUnspecified)
	if err == nil {
		_, err = h.Write([]byte(line))
	}
	if err := errors.Join(err, h.Close(), s.Store.SetKey(db, "own.key"), s.Store.Settle(ctx, db, nil)); err != nil {
		t.Fatal(err)
	}
	if names := holding(t, s.Env.FS, "data", secret[:1000]); len(names) == 0 {
		t.Fatal("no file holds what was encrypted")
	}
	if _, err := Do[Compacted](ctx, Direct{s}, "compact", Compact{Share: 100}); err != nil {
		t.Fatal(err)
	}
	if names := holding(t, s.Env.FS, "data", secret[:1000]); len(names) > 0 {
		t.Errorf("%q hold what was encrypted", names)
	}
}

// holding returns the files under a folder that hold some bytes.
func holding(t *testing.T, fs env.FS, dir string, want []byte) (found []string) {
	t.Helper()
	names, err := fs.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		path := fs.PathJoin(dir, name)
		info, err := fs.Stat(path)
		if err != nil {
			continue // removed meanwhile
		}
		if info.IsDir() {
			found = append(found, holding(t, fs, path, want)...)
			continue
		}
		f, err := fs.Open(path)
		if err != nil {
			continue
		}
		b, err := io.ReadAll(f)
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(b, want) {
			found = append(found, path)
		}
	}
	return found
}

// TestPause checks the share of the time that work takes.
func TestPause(t *testing.T) {
	t.Parallel()
	f := env.Test(t)
	for share, want := range map[int]time.Duration{50: time.Minute, 20: 4 * time.Minute, 100: 0} {
		begun := f.Clock.Now()
		f.Time.Advance(time.Minute)
		done := make(chan error, 1)
		go func() { done <- pause(context.Background(), f.Env, begun, share) }()
		if want > 0 {
			f.Time.AwaitPending(1)
			f.Time.Advance(want - 1)
			select {
			case <-done:
				t.Error(fmt.Sprint(share, " %: the pause was too short"))
			default:
			}
			f.Time.Advance(1)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	f.Time.Advance(time.Minute)
	if err := pause(ctx, f.Env, f.Clock.Now().Add(-time.Minute), 50); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
