package backup

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"doublet/env"
	"doublet/store"
)

// faulty returns the environment with a file system that can fail, over the same files.
func faulty(f *env.Fixture) (*env.Env, *env.Faults) {
	e := *f.Env
	faults := env.WithFaults(f.Mem)
	e.FS = faults
	return &e, faults
}

var crashOps = []env.Op{env.OpCreate, env.OpWrite, env.OpSync, env.OpRename, env.OpRemove}

// each calls fn for places at which a run of clean fails: every place, or a selection if there are many.
func each(t *testing.T, clean env.Counts, most int, fn func(op env.Op, n int)) {
	t.Helper()
	for _, op := range crashOps {
		count := int(clean.Of(op))
		for i := 1; i <= count; i += max(1, count/most) {
			fn(op, i)
		}
	}
}

// TestCrashInBackup makes the power fail at every kind of write of a backup. The older generation must stay whole, and
// the next backup must be good.
func TestCrashInBackup(t *testing.T) {
	t.Parallel()
	m := newModel(t)
	ctx := context.Background()
	m.steps(60, 1)
	if _, err := Take(ctx, m.f.Env, m.s, "backup", Options{}); err != nil {
		t.Fatal(err)
	}
	first := m.done()
	m.steps(40, 2)
	if err := m.s.Close(); err != nil {
		t.Fatal(err)
	}
	base := m.f
	run := func(at *env.Fixture, fault func(*env.Faults)) (env.Counts, error) {
		e, faults := faulty(at)
		fault(faults)
		s := openStore(t, at.Env, "data")
		_, err := Take(ctx, e, s, "backup", Options{})
		return faults.Counts(), errors.Join(err, s.Close())
	}
	clean, err := run(base.Crash(0, 1), func(*env.Faults) {})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	each(t, clean, 8, func(op env.Op, at int) {
		n++
		name := fmt.Sprintf("%s %d", op, at)
		f := base.Crash(0, 1)
		got, err := run(f, func(faults *env.Faults) { faults.FailFrom(op, at, nil) })
		// The number of files depends on compactions. A run that does not reach its place is repeated with a place that
		// it has reached.
		for tries := 0; err == nil && op != env.OpRemove; tries++ {
			if last := int(got.Of(op)); last >= at || last == 0 || tries == 5 {
				t.Fatalf("%s: no error; it came to %d", name, last)
			} else {
				at = last
			}
			f = base.Crash(0, 1)
			got, err = run(f, func(faults *env.Faults) { faults.FailFrom(op, at, nil) })
		}
		f = f.Crash(n%3*50, uint64(n))
		list, err := List(context.Background(), f.Env, "backup")
		if err != nil || len(list) == 0 || list[0].Damage != nil {
			t.Fatalf("%s: %+v, %v", name, list, err)
		}
		for _, g := range list {
			if _, err := Verify(ctx, f.Env, "backup", g.Number, Options{}); err != nil {
				t.Errorf("%s: generation %d of %d: %v", name, g.Number, len(list), err)
			}
		}
		if _, err := run(f, func(*env.Faults) {}); err != nil {
			t.Errorf("%s: the next backup: %v", name, err)
		}
		if n%4 != 0 {
			return
		}
		m.put(f.Env, 1, "r1")
		m.put(f.Env, 0, "r2")
		m.s = openStore(t, f.Env, "data")
		m.compare(f.Env, "r1", first, first)
		m.compare(f.Env, "r2", m.done(), m.done())
		if err := m.s.Close(); err != nil {
			t.Error(err)
		}
	})
	if n < 20 {
		t.Errorf("only %d places", n)
	}
}

// TestCrashInRestore makes the power fail at every kind of write of a restore over another store. Either the store must
// be unchanged, or it is refused until another restore has finished, which must succeed.
func TestCrashInRestore(t *testing.T) {
	t.Parallel()
	m := newModel(t)
	ctx := context.Background()
	m.steps(60, 1)
	if _, err := Take(ctx, m.f.Env, m.s, "backup", Options{}); err != nil {
		t.Fatal(err)
	}
	moment := m.done()
	m.steps(20, 2)
	base := m.f
	run := func(at *env.Fixture, fault func(*env.Faults)) (env.Counts, error) {
		// Only the writes that put the files in place fail. A failure in the engine, which opens them later, would end
		// the process.
		e, faults := faulty(at)
		fault(faults)
		o := RestoreOptions{Replace: true, Store: storeOptions()}
		o.Store.LogDir = "log"
		s := &restore{env: e, ctx: ctx, at: store.PlacesOf(e.FS, "data2", o.Store), o: o}
		_, err := s.place("backup")
		counts := faults.Counts()
		if err == nil && counts.Of(env.OpWrite)%2 == 0 {
			s.env = at.Env
			err = s.rename()
		}
		return counts, err
	}
	finish := func(at *env.Fixture) error {
		o := RestoreOptions{Replace: true, Store: storeOptions()}
		o.Store.LogDir = "log"
		_, err := Restore(ctx, at.Env, "backup", "data2", o)
		return err
	}
	// The present store is another one, with a log of its own.
	o := storeOptions()
	o.LogDir = "log"
	other, err := store.Open(base.Env, "data2", o)
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	was := other.Incarnation()
	clean, err := run(base.Crash(0, 1), func(*env.Faults) {})
	if err != nil {
		t.Fatal(err)
	}
	n, refused, kept := 0, 0, 0
	each(t, clean, 10, func(op env.Op, at int) {
		n++
		name := fmt.Sprintf("%s %d", op, at)
		f := base.Crash(0, 1)
		_, failed := run(f, func(faults *env.Faults) { faults.FailFrom(op, at, nil) })
		f = f.Crash(n%3*50, uint64(n))
		s, err := store.Open(f.Env, "data2", o)
		switch {
		case errors.Is(err, store.ErrRestoring):
			refused++
		case err != nil:
			t.Errorf("%s: what is left cannot be opened: %v", name, err)
		default:
			if s.Incarnation() == was {
				kept++
			} else if failed != nil && op != env.OpRemove && op != env.OpSync {
				t.Errorf("%s: failed (%v), and there is another store", name, failed)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
		if err := finish(f); err != nil {
			t.Errorf("%s: the next restore: %v", name, err)
			return
		}
		if n%4 == 0 {
			s, err := store.Open(f.Env, "data2", o) // reads the log into its tables
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			m.compareLog(f.Env, moment)
		}
	})
	if refused == 0 || kept == 0 {
		t.Errorf("refused %d, kept %d of %d", refused, kept, n)
	}
	if err := m.s.Close(); err != nil {
		t.Error(err)
	}
}

// TestFinishWithoutBackup finishes an interrupted restore when the backup is not available: everything was copied
// already.
func TestFinishWithoutBackup(t *testing.T) {
	t.Parallel()
	m := newModel(t)
	ctx := context.Background()
	m.steps(60, 1)
	if _, err := Take(ctx, m.f.Env, m.s, "backup", Options{}); err != nil {
		t.Fatal(err)
	}
	o := RestoreOptions{Store: storeOptions()}
	if _, err := Restore(ctx, m.f.Env, "nowhere", "data2", o); err == nil {
		t.Error("restored from nowhere")
	}
	e, faults := faulty(m.f)
	faults.FailFrom(env.OpRename, int(renames(t, m))-1, nil)
	if _, err := Restore(ctx, e, "backup", "data2", o); err == nil {
		t.Fatal("it was not interrupted")
	}
	if _, err := store.Open(m.f.Env, "data2", storeOptions()); !errors.Is(err, store.ErrRestoring) {
		t.Fatalf("half way: %v", err)
	}
	if _, err := Restore(ctx, m.f.Env, "nowhere", "data2", o); err != nil {
		t.Fatal(err)
	}
	m.compare(m.f.Env, "data2", m.done(), m.done())
	if err := m.s.Close(); err != nil {
		t.Error(err)
	}
}

// renames counts the renames with which a restore puts the files in place.
func renames(t *testing.T, m *model) uint64 {
	t.Helper()
	e, faults := faulty(m.f)
	o := RestoreOptions{Store: storeOptions()}
	s := &restore{env: e, ctx: context.Background(), at: store.PlacesOf(e.FS, "counted", o.Store), o: o}
	unlock, err := s.lock()
	if err == nil {
		_, err = s.place("backup")
	}
	if err = errors.Join(err, unlock()); err != nil {
		t.Fatal(err)
	}
	counts := faults.Counts()
	return uint64(counts.Of(env.OpRename))
}

func (m *model) compareLog(e *env.Env, at int) {
	m.t.Helper()
	m.compareWith(e, "data2", at, at, func(o *store.Options) { o.LogDir = "log" })
}
