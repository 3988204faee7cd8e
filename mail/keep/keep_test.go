package keep

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"doublet/env"
	"doublet/note"
	"doublet/stat"
	"doublet/store"
	"doublet/store/check"
)

var bg = context.Background()

type world struct {
	*Memory
	t   *testing.T
	fix *env.Fixture
	s   *store.Store
}

func open(t *testing.T, fix *env.Fixture) *world {
	t.Helper()
	w := &world{t: t, fix: fix}
	var err error
	w.s, err = store.Open(fix.Env, "data", store.Options{FloorBytes: 1 << 20, FloorPercent: -1, Ballast: -1,
		OnFatal: func(error) {}})
	w.ok(err)
	w.Memory, err = Open(w.s, fix.Env, stat.New(fix.Clock))
	w.ok(err)
	return w
}

func (w *world) ok(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) close() {
	w.t.Helper()
	w.ok(w.Close(bg))
	r, err := check.Run(bg, w.s, check.Options{Deep: true})
	w.ok(err)
	for _, f := range r.Findings {
		w.t.Errorf("check: %s", f)
	}
	w.ok(w.s.Close())
}

func (w *world) has(table string, want map[string]string) {
	w.t.Helper()
	got := map[string]string{}
	w.ok(w.Table(table).Each(bg, func(k, v string) { got[k] = v }))
	if !maps.Equal(got, want) {
		w.t.Errorf("%s: %d rows, want %d: %.300v, want %.300v", table, len(got), len(want), got, want)
	}
}

// TestAgainstModel puts and drops random rows, with stops and power failures, and compares with a model. Rows older
// than a second must be there, and no others.
func TestAgainstModel(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 1))
	w := open(t, env.Test(t))
	want := map[string]map[string]string{"a": {}, "b": {}}
	for i := range 40 {
		for range r.IntN(200) {
			table, key := string("ab"[r.IntN(2)]), fmt.Sprint("key ", r.IntN(700))
			if r.IntN(3) == 0 {
				w.Table(table).Drop(key)
				delete(want[table], key)
				continue
			}
			value := fmt.Sprint("value ", r.Uint64())
			w.Table(table).Put(key, value)
			want[table][key] = value
		}
		switch i % 4 {
		case 0:
			w.close()
			w = open(t, w.fix)
		case 1:
			w.fix.Time.Advance(behind)
			after := w.fix.Crash(r.IntN(101), r.Uint64())
			w.ok(w.s.Close())
			w = open(t, after)
		}
		w.has("a", want["a"])
		w.has("b", want["b"])
	}
	w.close()
}

// TestFull checks that values that could not be written to a full disk are written when there is space.
func TestFull(t *testing.T) {
	t.Parallel()
	w := open(t, env.Test(t))
	w.fix.Faults.SetSpace(1000)
	w.fix.Time.Advance(5 * time.Second) // the store checks the space
	w.Table("a").Put("k", "1")
	w.fix.Time.Advance(behind)
	if w.lost.Value() == 0 {
		t.Fatal("the disk took it")
	}
	w.Table("a").Put("k", "2") // the newer value wins
	w.fix.Faults.SetSpace(1 << 40)
	w.fix.Time.Advance(again + behind)
	after := w.fix.Crash(0, 1)
	w.ok(w.s.Close())
	w = open(t, after)
	w.has("a", map[string]string{"k": "2"})
	// A value that is too large is not stored, and a nil table stores nothing.
	w.Table("a").Put("k", string(make([]byte, maxValue)))
	w.has("a", map[string]string{"k": "2"})
	var none *Table
	none.Put("k", "v")
	none.Drop("k")
	w.ok(none.Each(bg, func(string, string) { t.Error("a row of nothing") }))
	w.close()
}

// TestHistory checks that a row that changes all the time does not grow.
func TestHistory(t *testing.T) {
	t.Parallel()
	w := open(t, env.Test(t))
	for i := range 300 {
		w.Table("a").Put("k", fmt.Sprint(i))
		w.ok(w.Flush(bg))
	}
	w.ok(w.s.Read(bg, note.System, ID, func(r *store.Reader) error {
		id, err := r.Find(place{"a", "k"}.unid())
		w.ok(err)
		c, err := r.Content(id)
		if err == nil && len(c.Tree) > 100 {
			t.Errorf("%d revisions are kept", len(c.Tree))
		}
		return err
	}))
	w.close()
}
