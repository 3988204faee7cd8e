package view

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"doublet/env"
	"doublet/note"
	"doublet/store"
)

// bench is a store with one database, a view in it, and a plain model of the database's documents.
type bench struct {
	t      *testing.T
	f      *env.Fixture
	s      *store.Store
	db     note.DatabaseID
	design note.ID
	v      *View
	docs   map[note.ID]map[string]any
	def    string
}

const tasks = `{"name":"Tasks","selector":{"Form":"Task","Prio":{"$gt":2}},"columns":[
	{"item":"Cat","category":true},{"item":"Prio","sort":"desc","total":"sum"},{"item":"Title","sort":"asc"},
	{"item":"Done","total":"count"}]}`

const titles = `{"name":"Titles","selector":{"Form":{"$in":["Task","Memo"]}},"columns":[{"item":"Title","sort":"asc"}]}`

func newBench(t *testing.T, def string) *bench {
	t.Helper()
	b := &bench{t: t, f: env.Test(t), docs: map[note.ID]map[string]any{}, def: def}
	b.open()
	t.Cleanup(func() { _ = b.s.Close() })
	var err error
	b.db, err = b.s.CreateDatabase(note.System, store.Create{Title: "docs", Kind: "docs",
		ACL: note.ACL{Default: note.Editor}})
	if err != nil {
		t.Fatal(err)
	}
	b.update(func(w *store.Writer) error {
		b.design, err = w.Create(store.New{Class: note.Design, Content: note.Content{Items: viewItems(def)}})
		return err
	})
	b.openView()
	return b
}

func viewItems(def string) note.Items {
	return note.MakeItems(note.Item{Name: ItemView, Value: note.Text(def)})
}

func (b *bench) open() {
	b.t.Helper()
	s, err := store.Open(b.f.Env, "/data", store.Options{FloorBytes: -1, Ballast: -1, OnFatal: func(error) {}})
	if err != nil {
		b.t.Fatal(err)
	}
	b.s = s
}

func (b *bench) openView() {
	b.t.Helper()
	v, err := Open(b.s, b.db, b.design)
	if err != nil {
		b.t.Fatal(err)
	}
	v.batch = 3
	b.v = v
}

func (b *bench) update(fn func(*store.Writer) error) {
	b.t.Helper()
	err := b.s.Update(context.Background(), note.System, []note.DatabaseID{b.db}, func(tx *store.Tx) error {
		w, err := tx.Database(b.db)
		if err != nil {
			return err
		}
		return fn(w)
	})
	if err != nil {
		b.t.Fatal(err)
	}
}

func toItems(t *testing.T, doc map[string]any) note.Items {
	t.Helper()
	var list []note.Item
	for k, v := range doc {
		data, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		val, err := note.FromJSON(data)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, note.Item{Name: k, Value: val})
	}
	return note.MakeItems(list...)
}

func (b *bench) create(doc map[string]any, folders ...note.ID) note.ID {
	b.t.Helper()
	var id note.ID
	b.update(func(w *store.Writer) error {
		var err error
		id, err = w.Create(store.New{Content: note.Content{Items: toItems(b.t, doc)}, Folders: folders})
		return err
	})
	b.docs[id] = doc
	return id
}

func (b *bench) revise(id note.ID, items note.Items) {
	b.t.Helper()
	b.update(func(w *store.Writer) error {
		c, err := w.Content(id)
		if err != nil {
			return err
		}
		win, _ := c.Tree.Winner()
		_, err = w.Revise(id, win.Rev, note.Content{Items: items}, nil)
		return err
	})
}

func (b *bench) edit(id note.ID, doc map[string]any) {
	b.t.Helper()
	b.revise(id, toItems(b.t, doc))
	b.docs[id] = doc
}

func (b *bench) destroy(id note.ID) {
	b.t.Helper()
	b.update(func(w *store.Writer) error { return w.Destroy(id) })
	delete(b.docs, id)
}

func (b *bench) redefine(def string) {
	b.t.Helper()
	b.revise(b.design, viewItems(def))
	b.def = def
}

// line is an entry in the model.
type line struct {
	id     note.ID
	keys   []any
	desc   []bool
	values string
}

func text(values []any) string {
	var parts []string
	for _, v := range values {
		data, _ := json.Marshal(v)
		parts = append(parts, string(data))
	}
	return strings.Join(parts, " | ")
}

// model computes, independently of selectors, sort keys and rows, what the view must show.
func (b *bench) model() []string {
	var lines []line
	for id, d := range b.docs {
		form, _ := d["Form"].(string)
		if b.def == titles {
			if form == "Task" || form == "Memo" {
				lines = append(lines, line{id: id, keys: []any{d["Title"]}, desc: []bool{false},
					values: text([]any{d["Title"]})})
			}
			continue
		}
		prio, ok := d["Prio"]
		above := ok && rank(prio) > typeNumber
		switch p := prio.(type) {
		case int64:
			above = p > 2
		case float64:
			above = p > 2
		}
		if form != "Task" || !above {
			continue
		}
		cats := []any{d["Cat"]}
		if list, ok := d["Cat"].([]any); ok && len(list) > 0 {
			cats = nil
			for _, c := range list {
				if !slices.ContainsFunc(cats, func(o any) bool { return compare(o, c) == 0 }) {
					cats = append(cats, c)
				}
			}
		}
		for _, c := range cats {
			lines = append(lines, line{id: id, keys: []any{c, prio, d["Title"]}, desc: []bool{false, true, false},
				values: text([]any{c, prio, d["Title"], d["Done"]})})
		}
	}
	slices.SortFunc(lines, func(x, y line) int {
		for i := range x.keys {
			if r := compare(x.keys[i], y.keys[i]); r != 0 {
				if x.desc[i] {
					return -r
				}
				return r
			}
		}
		return cmp.Compare(x.id, y.id)
	})
	out := make([]string, len(lines))
	for i, l := range lines {
		out[i] = fmt.Sprintf("%d: %s", l.id, l.values)
	}
	return out
}

func (b *bench) shown(who note.Who, q Query) []string {
	b.t.Helper()
	out := []string{}
	for {
		p, err := b.v.Read(context.Background(), who, q)
		if err != nil {
			b.t.Fatal(err)
		}
		for _, e := range p.Entries {
			out = append(out, show(e))
		}
		if p.Next == nil {
			return out
		}
		q.From = p.Next
	}
}

func show(e Entry) string {
	var values []any
	for _, v := range e.Values {
		values = append(values, v.Any())
	}
	s := fmt.Sprintf("%d: %s", e.Note, text(values))
	if e.Conflict {
		s += " conflict"
	}
	return s
}

func (b *bench) refresh() {
	b.t.Helper()
	if err := b.v.Refresh(context.Background()); err != nil {
		b.t.Fatal(err)
	}
}

// compareAll compares the view with the model: forward, backward, by category, totals.
func (b *bench) compareAll() {
	b.t.Helper()
	b.refresh()
	want := b.model()
	if got := b.shown(note.System, Query{Limit: 4}); !slices.Equal(got, want) {
		b.t.Fatalf("view:\n%s\nmodel:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	back := b.shown(note.System, Query{Limit: 3, Reverse: true})
	slices.Reverse(back)
	if !slices.Equal(back, want) {
		b.t.Fatalf("backward:\n%s\nmodel:\n%s", strings.Join(back, "\n"), strings.Join(want, "\n"))
	}
	page, err := b.v.Read(context.Background(), note.System, Query{})
	if err != nil || page.Total != uint64(len(want)) {
		b.t.Fatal(page.Total, len(want), err)
	}
	cats, err := b.v.Categories(context.Background(), note.System, Query{Limit: 1000})
	if err != nil {
		b.t.Fatal(err)
	}
	// A person for whom the categories are counted again must see the same, with the same rights.
	slow, err := b.slowCategories()
	if err != nil || fmt.Sprint(slow) != fmt.Sprint(cats) {
		b.t.Fatalf("categories %v, counted anew %v, %v", cats, slow, err)
	}
	var sum uint64
	var listed []string
	for _, c := range cats {
		sum += c.Count
		in := b.shown(note.System, Query{Category: c.Path})
		if uint64(len(in)) != c.Count {
			b.t.Fatalf("category %v counts %d, holds %d", c.Path, c.Count, len(in))
		}
		listed = append(listed, in...)
	}
	if b.def == tasks && (sum != page.Total || !slices.Equal(listed, want)) {
		b.t.Fatalf("categories hold %d of %d", sum, page.Total)
	}
}

func (b *bench) slowCategories() (out []Category, err error) {
	err = b.v.reading(context.Background(), note.System, func(r *store.Reader, raw rawReader, br *branch,
		def *Definition) error {
		out, err = b.v.countCategories(context.Background(), raw, r, br, def, nil, &Query{Limit: 1000})
		return err
	})
	return out, err
}

func randomDoc(r *rand.Rand) map[string]any {
	d := map[string]any{"Form": []string{"Task", "Memo", "Other"}[r.IntN(3)]}
	values := []any{nil, false, true, int64(1), int64(3), int64(5), int64(-7), 2.5, 3.5, "a", "B", "b", "ä", "z",
		"", "a\x00b",
		[]any{"x", "y"}, []any{}, map[string]any{"k": int64(1)}}
	for _, name := range []string{"Cat", "Prio", "Title", "Done"} {
		if r.IntN(5) > 0 {
			d[name] = values[r.IntN(len(values))]
		}
	}
	if r.IntN(2) == 0 {
		d["Form"], d["Prio"] = "Task", int64(3+r.IntN(3))
	}
	return d
}

// someTurns is a context that is canceled after a number of checks.
type someTurns struct {
	context.Context
	left int
}

func (c *someTurns) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

func TestViewEqualsModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			b := newBench(t, tasks)
			r := rand.New(rand.NewPCG(seed, 1))
			for step := range 250 {
				b.randomStep(r)
				if step%25 == 0 {
					b.compareAll()
				}
			}
			b.compareAll()
		})
	}
}

func (b *bench) randomStep(r *rand.Rand) {
	b.t.Helper()
	ids := []note.ID{}
	for id := range b.docs {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	switch n := r.IntN(40); {
	case n < 16 || len(ids) == 0:
		b.create(randomDoc(r))
	case n < 26:
		b.edit(ids[r.IntN(len(ids))], randomDoc(r))
	case n < 33:
		b.destroy(ids[r.IntN(len(ids))])
	case n < 35:
		err := b.v.Refresh(&someTurns{context.Background(), 3 + r.IntN(8)})
		if err != nil && !errors.Is(err, context.Canceled) {
			b.t.Fatal(err)
		}
	case n == 35: // readers use the old generation, and a Refresh continues a Rebuild that was ended
		err := b.v.Rebuild(&someTurns{context.Background(), 3 + r.IntN(8)})
		if err != nil && !errors.Is(err, context.Canceled) {
			b.t.Fatal(err)
		}
	case n == 36:
		b.redefine(map[string]string{tasks: titles, titles: tasks}[b.def])
	case n == 37:
		if err := b.s.Close(); err != nil {
			b.t.Fatal(err)
		}
		b.open()
		b.openView()
	case n == 38:
		after := b.f.Crash(r.IntN(101), r.Uint64())
		_ = b.s.Close()
		b.f = after
		b.open()
		b.openView()
	default:
		if err := b.s.Rebranch(); err != nil {
			b.t.Fatal(err)
		}
	}
}
