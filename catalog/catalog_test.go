package catalog

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"doublet/env"
	"doublet/note"
	"doublet/store"
)

// TestModel compares the catalog with a map while databases come, change and go, over more than one page.
func TestModel(t *testing.T) {
	t.Parallel()
	f := env.Test(t)
	s, err := store.Open(f.Env, "data", store.Options{FloorBytes: -1, Ballast: -1, MemTableSize: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	c, err := Open(s, f.Env)
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	model := map[note.DatabaseID]Entry{}
	r := f.Env.Uint64
	for round := range 12 {
		f.Time.Advance(time.Hour)
		now := f.Clock.Now().UTC().Truncate(time.Second)
		next := map[note.DatabaseID]Entry{}
		var given []Entry
		wrote, gone := 0, 0
		for _, id := range slices.Sorted(maps.Keys(model)) {
			e := model[id]
			switch r() % 4 {
			case 0:
				gone++
				continue
			case 1:
				e.Sequence++
				e.Used = now
				wrote++
			case 2:
				e.Title = fmt.Sprintf("renamed %d", r())
				wrote++
			}
			next[id] = e
		}
		for range 2 * piece / 3 {
			id := note.DatabaseID(r()>>8 | 1)
			next[id] = Entry{ID: id, Title: fmt.Sprintf("database %d", id), Kind: "mail", Owner: "Ada",
				State: "in service", Servers: []string{"one", "two"}, Notes: r() % 100, Size: r() % 1e6,
				Rows: r() % 1e6, Quota: 1 << 20, Created: now, Sequence: r() % 1000}
			wrote++
		}
		for _, id := range slices.Sorted(maps.Keys(next)) {
			e := next[id]
			e.Used = time.Time{} // the catalog knows it
			given = append(given, e)
		}
		model = next
		written, removed, err := c.Update(ctx, given)
		if err != nil || written != wrote || removed != gone {
			t.Fatalf("round %d: %d written, %d removed, %v: want %d and %d", round, written, removed, err, wrote, gone)
		}
		got := map[note.DatabaseID]Entry{}
		if err := c.Each(ctx, func(e *Entry) bool {
			got[e.ID] = *e
			return true
		}); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, model) {
			t.Fatalf("round %d: the catalog differs: %d entries, want %d", round, len(got), len(model))
		}
	}
}

func TestFits(t *testing.T) {
	t.Parallel()
	e := Entry{ID: 7, Title: "Projects", Owner: "Ada Lovelace", Kind: "documents", Servers: []string{"mx.example.org"}}
	for _, text := range []string{"", "project", "LOVELACE", "doc", "mx.", "0007"} {
		if !e.Fits(text) {
			t.Errorf("%q does not fit", text)
		}
	}
	if e.Fits("bob") {
		t.Error("bob fits")
	}
}
