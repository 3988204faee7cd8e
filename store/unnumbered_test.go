package store_test

import (
	"reflect"
	"slices"
	"testing"

	"doublet/note"
	"doublet/store"
)

// waiting returns the notes that wait to be numbered, once according to the store, and once according to the rows of
// all notes.
func waiting(t *testing.T, r *store.Reader) (told, rows []note.UNID) {
	t.Helper()
	c, err := r.Replicable(store.ChangeQuery{Limit: 1 << 20, Max: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range c.Notes {
		told = append(told, n.UNID)
	}
	err = r.Since(0, func(_ uint64, id note.ID) bool {
		if row, err := r.Note(id); err == nil && row.Unnumbered {
			rows = append(rows, row.UNID)
		}
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	return told, rows
}

// TestWaiting checks that the store reports the waiting notes correctly, in whatever order deliveries, numberings and
// reads come, and also to a reader of an earlier state.
func TestWaiting(t *testing.T) {
	t.Parallel()
	w := newClusterWorld(t, 2, 7, false)
	home, other := w.nodes[0], w.nodes[1]
	w.together()
	look := func(where string, r *store.Reader) {
		told, rows := waiting(t, r)
		if !slices.Equal(told, rows) || r.Position().Pending != (len(rows) > 0) {
			t.Fatalf("%s: told %v, there are %v, pending %v", where, told, rows, r.Position().Pending)
		}
	}
	seen := 0
	for i := range 60 {
		other.read(func(before *store.Reader) error {
			for range w.rng.IntN(3) {
				other.put("INBOX")
			}
			if w.rng.IntN(2) == 0 {
				other.read(func(r *store.Reader) error { look("between", r); return nil })
			}
			if w.rng.IntN(2) == 0 {
				other.sendChanges(home, false)
			}
			if w.rng.IntN(3) > 0 {
				w.together() // the page ends the wait of all notes that the home has received
			}
			now, err := other.s.Current(w.ctx, w.db)
			if err != nil {
				t.Fatal(err)
			}
			other.read(func(r *store.Reader) error {
				look("after", r)
				told, _ := waiting(t, r)
				seen += len(told)
				if is := r.Current(); !reflect.DeepEqual(is, now) {
					t.Fatalf("current %+v, read %+v", now, is)
				}
				return nil
			})
			if i%2 == 0 {
				look("before", before)
			}
			return nil
		})
	}
	if seen == 0 {
		t.Error("nothing ever waited")
	}
	other.sendChanges(home, false)
	w.together()
	other.read(func(r *store.Reader) error {
		if told, _ := waiting(t, r); len(told) != 0 {
			t.Errorf("%d wait at rest", len(told))
		}
		return nil
	})
	other.check()
}

// BenchmarkPosition reads the position of a follower that has had many deliveries numbered.
func BenchmarkPosition(b *testing.B) {
	t := &testing.T{}
	w := newClusterWorld(t, 2, 7, false)
	home, other := w.nodes[0], w.nodes[1]
	w.together()
	for range 20 {
		for range 100 {
			other.put("INBOX")
		}
		other.sendChanges(home, false)
		w.together()
	}
	for b.Loop() {
		if other.position().Pending {
			b.Fatal("it waits")
		}
	}
}
