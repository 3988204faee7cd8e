package backup

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"doublet/env"
	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
	"doublet/store/object"
)

// In the model, every operation also increments a counter in a note of the first database, in the same update. So a
// restored store shows its own moment. It must contain the operations up to that one, and no others.

// TestBackupUnderLoad takes backups while writers and the sweeper run. Each backup must restore exactly the moment at
// which it was taken.
func TestBackupUnderLoad(t *testing.T) {
	t.Parallel()
	m := newModel(t)
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	defer wg.Wait() // also if the test fails
	defer stop()
	for n := range 3 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			rng := rand.New(rand.NewPCG(7, uint64(n)))
			for ctx.Err() == nil && m.done() < 3000 {
				if err := m.step(rng); err != nil {
					t.Error(err)
					return
				}
			}
		}()
	}
	wg.Add(1)
	go func() {
		defer wg.Done()
		for ctx.Err() == nil {
			_, err := m.s.Sweep(ctx, 50)
			_, err2 := m.s.Rewrite(ctx)
			if err = errors.Join(err, err2, m.s.Trim(), m.s.Objects().Seal()); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
			time.Sleep(time.Millisecond)
		}
	}()
	type taken struct {
		number      uint64
		least, most int
	}
	var all []taken
	for range 4 {
		for start := m.done(); m.done() < start+60 && m.done() < 3000; {
			time.Sleep(time.Millisecond)
		}
		least := m.done()
		g, err := Take(ctx, m.f.Env, m.s, "backup", Options{Program: "test"})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, taken{g.Number, least - 3, m.done()})
	}
	stop()
	wg.Wait()
	for _, b := range all {
		dir := fmt.Sprint("restored", b.number)
		m.put(m.f.Env, b.number, dir)
		m.compare(m.f.Env, dir, b.least, b.most)
	}
	if err := m.s.Close(); err != nil {
		t.Error(err)
	}
}

// TestIncremental checks that a backup copies only what changed, and that pruning removes only what old generations
// need.
func TestIncremental(t *testing.T) {
	t.Parallel()
	m := newModel(t)
	ctx := context.Background()
	take := func() Generation {
		t.Helper()
		g, err := Take(ctx, m.f.Env, m.s, "backup", Options{})
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	m.steps(400, 1)
	first := take()
	m.steps(10, 2)
	n := m.done()
	second := take()
	if second.Copied*3 > first.Copied {
		t.Errorf("the second backup copied %d bytes, the first %d", second.Copied, first.Copied)
	}
	m.steps(300, 3)
	third := take()
	if _, err := Verify(ctx, m.f.Env, "backup", 0, Options{}); err != nil {
		t.Error(err)
	}
	p, err := Prune(context.Background(), m.f.Env, "backup", 2)
	if err != nil || !slices.Equal(p.Generations, []uint64{1}) || p.Bytes == 0 {
		t.Errorf("%+v, %v", p, err)
	}
	list, err := List(context.Background(), m.f.Env, "backup")
	if err != nil || len(list) != 2 || list[0].Number != second.Number || list[1].Number != third.Number {
		t.Errorf("%d generations, %v", len(list), err)
	}
	m.put(m.f.Env, second.Number, "r2")
	m.compare(m.f.Env, "r2", n, n)
	m.put(m.f.Env, 0, "r3")
	m.compare(m.f.Env, "r3", m.done(), m.done())
	_, err = Restore(ctx, m.f.Env, "backup", "r3", RestoreOptions{Store: storeOptions()})
	if !errors.Is(err, ErrNotEmpty) {
		t.Errorf("over a store: %v", err)
	}
	if _, err := Restore(ctx, m.f.Env, "backup", "r4", RestoreOptions{At: 1, Store: storeOptions()}); !errors.Is(err,
		ErrNotFound) {
		t.Errorf("a generation that is gone: %v", err)
	}
	if err := m.s.Close(); err != nil {
		t.Error(err)
	}
}

// TestFlippedByte flips one byte in every file of a backup. A restore must find the damage before it replaces anything.
func TestFlippedByte(t *testing.T) {
	t.Parallel()
	m := newModel(t)
	m.steps(60, 1)
	ctx := context.Background()
	if _, err := Take(ctx, m.f.Env, m.s, "backup", Options{}); err != nil {
		t.Fatal(err)
	}
	if err := m.s.Close(); err != nil {
		t.Fatal(err)
	}
	names, err := m.f.Mem.List("backup/pieces")
	if err != nil || len(names) == 0 {
		t.Fatal(err)
	}
	files := []string{"backup/generation-000001"}
	for _, n := range names {
		files = append(files, "backup/pieces/"+n)
	}
	before := tree(t, m.f, "data")
	for i, name := range files {
		info, err := m.f.Mem.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		at := info.Size() * int64(i%7) / 7
		flip(t, m.f, name, at)
		o := RestoreOptions{Replace: true, Store: storeOptions()}
		o.At = 1
		if _, err := Restore(ctx, m.f.Env, "backup", "data", o); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s at %d: %v", name, at, err)
		}
		if _, err := Verify(ctx, m.f.Env, "backup", 1, Options{}); !errors.Is(err, ErrDamaged) {
			t.Errorf("verify %s at %d: %v", name, at, err)
		}
		if err := m.f.Mem.Remove("backup/generation-000001" + checkedSuffix); err != nil { // a restore would use it
			t.Fatal(err)
		}
		flip(t, m.f, name, at)
	}
	if after := tree(t, m.f, "data"); after != before {
		t.Errorf("the store was touched:\n%s\nnot\n%s", after, before)
	}
}

func flip(t *testing.T, f *env.Fixture, name string, at int64) {
	t.Helper()
	file, err := f.Mem.OpenReadWrite(name, "test")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var b [1]byte
	if _, err := file.ReadAt(b[:], at); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 0x10
	if _, err := file.WriteAt(b[:], at); err != nil {
		t.Fatal(err)
	}
}

// tree returns the contents of a folder, without the staging folders of a restore.
func tree(t *testing.T, f *env.Fixture, dir string) string {
	t.Helper()
	var b bytes.Buffer
	names, err := f.Mem.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	for _, n := range names {
		if n == staged {
			continue
		}
		path := f.Mem.PathJoin(dir, n)
		info, err := f.Mem.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.IsDir() {
			b.WriteString(tree(t, f, path))
		} else {
			fmt.Fprintln(&b, path, info.Size())
		}
	}
	return strings.TrimSpace(b.String()) + "\n"
}

func newDiscard() *slog.Logger { return slog.New(slog.DiscardHandler) }

// TestRestoreInUse checks that a restore refuses to replace a store that is open, also one of another data folder whose
// index the settings name.
func TestRestoreInUse(t *testing.T) {
	t.Parallel()
	m := newModel(t)
	m.steps(20, 1)
	ctx := context.Background()
	if _, err := Take(ctx, m.f.Env, m.s, "backup", Options{}); err != nil {
		t.Fatal(err)
	}
	defer m.s.Close()
	o := RestoreOptions{Replace: true, Store: storeOptions()}
	if _, err := Restore(ctx, m.f.Env, "backup", "data", o); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("over the open store: %v", err)
	}
	o.Store.IndexDir = "data/notes"
	if _, err := Restore(ctx, m.f.Env, "backup", "elsewhere", o); err == nil ||
		!strings.Contains(err.Error(), "in use") {
		t.Errorf("over the open index: %v", err)
	}
	m.steps(20, 2)
	if _, err := Take(ctx, m.f.Env, m.s, "backup", Options{}); err != nil {
		t.Error(err)
	}
}

// segments returns the names of the files in a folder of segments.
func segments(t *testing.T, f *env.Fixture, dir string) []string {
	t.Helper()
	names, err := f.Mem.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	return names
}

// TestKeepsSegments has segments that are all garbage, which Rewrite removes. They are kept while a backup copies, and
// removed afterwards.
func TestKeepsSegments(t *testing.T) {
	t.Parallel()
	m := newModel(t)
	ctx := context.Background()
	m.steps(60, 1)
	err := m.s.Update(ctx, note.System, m.dbs, func(tx *store.Tx) error {
		for _, db := range m.dbs[1:] {
			w, err := tx.Database(db)
			if err != nil {
				return err
			}
			var ids []note.ID
			err = w.Notes(2, func(id note.ID, _ *layout.Note) bool { ids = append(ids, id); return true })
			for i := 0; i < len(ids) && err == nil; i++ {
				err = w.Destroy(ids[i])
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	at, err := m.s.Capture(ctx)
	if err != nil {
		t.Fatal(err)
	}
	before := segments(t, m.f, "data/objects")
	collect := func() {
		t.Helper()
		_, err := m.s.Sweep(ctx, 10_000)
		_, err2 := m.s.Sweep(ctx, 10_000)
		if err = errors.Join(err, err2, m.s.Objects().Seal()); err == nil {
			_, err = m.s.Rewrite(ctx)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	collect()
	if now := segments(t, m.f, "data/objects"); len(before) == 0 || !slices.Equal(now, before) {
		t.Errorf("while a backup copies: %v, there were %v", now, before)
	}
	for _, g := range at.Segments {
		if info, err := m.f.Mem.Stat("data/objects/" + object.FileName(g.ID)); err != nil || info.Size() < g.Size {
			t.Errorf("segment %d: %v", g.ID, err)
		}
	}
	if err := at.Release(); err != nil {
		t.Fatal(err)
	}
	collect()
	if now := segments(t, m.f, "data/objects"); len(now) != 0 {
		t.Errorf("after it: %v", now)
	}
	if err := m.s.Close(); err != nil {
		t.Error(err)
	}
}

// TestForeignFiles checks that a restore refuses to replace a store in a folder that also holds other files, such as
// the store's own backup.
func TestForeignFiles(t *testing.T) {
	t.Parallel()
	m := newModel(t)
	ctx := context.Background()
	m.steps(30, 1)
	if _, err := Take(ctx, m.f.Env, m.s, "data/notes/backup", Options{}); err != nil {
		t.Fatal(err)
	}
	if err := m.s.Close(); err != nil {
		t.Fatal(err)
	}
	before := tree(t, m.f, "data")
	o := RestoreOptions{Replace: true, Store: storeOptions()}
	if _, err := Restore(ctx, m.f.Env, "data/notes/backup", "data", o); !errors.Is(err, ErrForeign) {
		t.Errorf("over its own backup: %v", err)
	}
	if after := tree(t, m.f, "data"); after != before {
		t.Errorf("touched:\n%s\nnot\n%s", after, before)
	}
	if err := m.f.Mem.Rename("data/notes/backup", "backup"); err != nil {
		t.Fatal(err)
	}
	if _, err := Restore(ctx, m.f.Env, "backup", "data", o); err != nil {
		t.Errorf("when it is away: %v", err)
	}
	o.Store.IndexDir, o.Store.SegmentsDir = "data/notes", "data/objects"
	if _, err := Restore(ctx, m.f.Env, "backup", "new", o); !errors.Is(err, ErrForeign) {
		t.Errorf("over the index of another data folder: %v", err)
	}
}

// TestLives makes backups of two incarnations of a store in one folder, whose tables may have the same numbers and the
// same ends. No piece of one may be used for the other.
func TestLives(t *testing.T) {
	t.Parallel()
	m := newModel(t)
	ctx := context.Background()
	m.steps(50, 1)
	if _, err := Take(ctx, m.f.Env, m.s, "backup", Options{}); err != nil {
		t.Fatal(err)
	}
	m.put(m.f.Env, 0, "life2")
	second := openStore(t, m.f.Env, "life2")
	a, err := m.s.Capture(ctx)
	if err != nil {
		t.Fatal(err)
	}
	b, err := second.Capture(ctx)
	if err != nil {
		t.Fatal(err)
	}
	name := ""
	for _, n := range segments(t, m.f, a.Index) {
		if strings.HasSuffix(n, ".sst") {
			name = n
		}
	}
	if name == "" {
		t.Fatal("no table")
	}
	keys := map[string]bool{}
	for _, at := range []*store.Moment{a, b, a} {
		p := &plan{r: &repository{env: m.f.Env}, m: at}
		// Use the same bytes, as for two tables that differ only in the middle.
		if err := p.addFile("index/"+name, m.f.Mem.PathJoin(a.Index, name), immutable); err != nil {
			t.Fatal(err)
		}
		keys[p.files[0].key] = true
	}
	if len(keys) != 2 {
		t.Errorf("%d keys of a table in two lives", len(keys))
	}
	if err := errors.Join(a.Release(), b.Release()); err != nil {
		t.Error(err)
	}
	n := m.done()
	if _, err := Take(ctx, m.f.Env, second, "backup", Options{}); err != nil {
		t.Fatal(err)
	}
	m.put(m.f.Env, 0, "life3")
	m.compare(m.f.Env, "life3", n, n)
	if err := errors.Join(second.Close(), m.s.Close()); err != nil {
		t.Error(err)
	}
}
