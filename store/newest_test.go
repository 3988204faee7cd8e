package store

import (
	"context"
	"errors"
	"slices"
	"testing"

	"doublet/env"
	"doublet/note"
	"doublet/store/layout"
)

// feedAll returns the changes after a cursor and the cursor that follows, reading n changes at a time.
func feedAll(t *testing.T, s *Store, c Cursor, n int) (list []Change, next Cursor) {
	t.Helper()
	for {
		took := 0
		next, err := s.Feed(c, func(ch Change) bool {
			if took++; took > n {
				return false
			}
			list = append(list, ch)
			return true
		})
		if err != nil {
			t.Fatal(err)
		}
		if c = next; took <= n {
			return list, c
		}
	}
}

// TestFeedInMemory checks that the feed gives the same changes and cursors from memory and from the engine, whatever
// the cursor: also one between the changes of a commit, and when one database was removed.
func TestFeedInMemory(t *testing.T) {
	t.Parallel()
	f := env.TestRealTime(t)
	s, err := Open(f.Env, "data", crashOptions())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var dbs []note.DatabaseID
	for range 3 {
		db, err := s.CreateDatabase(note.System, Create{Kind: "a"})
		if err != nil {
			t.Fatal(err)
		}
		dbs = append(dbs, db)
	}
	first := s.Now().Seq
	for i := range 20 {
		err := s.Update(context.Background(), note.System, dbs[i%3:], func(tx *Tx) error {
			for _, w := range tx.writers {
				for n := range 1 + i%3 {
					if _, err := w.Create(New{UNID: note.UNID{byte(i + 1), byte(n)},
						Content: note.Content{Items: version(1)}}); err != nil {
						return err
					}
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := s.RemoveDatabase(note.System, dbs[1]); err != nil {
		t.Fatal(err)
	}
	type result struct {
		list []Change
		next Cursor
	}
	read := func() (out []result) {
		for seq := first; seq <= s.Horizon()+1; seq++ {
			for _, n := range []int{1, 1 << 20} {
				list, next := feedAll(t, s, Cursor{s.Incarnation(), seq}, n)
				out = append(out, result{list, next})
			}
		}
		return out
	}
	before := s.feed.inMemory.Load()
	memory := read()
	if n := s.feed.reads.Load(); s.feed.inMemory.Load()-before != n || n == 0 {
		t.Errorf("%d of %d reads were in memory", s.feed.inMemory.Load()-before, n)
	}
	s.hz.cut(s.Horizon() + 2) // nothing is held any more
	inMemory := s.feed.inMemory.Load()
	engine := read()
	if s.feed.inMemory.Load() != inMemory {
		t.Error("a change that is not held was read in memory")
	}
	if len(memory[0].list) < 20 {
		t.Errorf("%d changes", len(memory[0].list))
	}
	for i := range engine {
		if !slices.Equal(memory[i].list, engine[i].list) || memory[i].next != engine[i].next {
			t.Errorf("%d: in memory %v, %v; from the engine %v, %v", i, memory[i].list, memory[i].next, engine[i].list,
				engine[i].next)
		}
	}
}

// TestNewest checks that newest is bounded, and always knows from where it holds all changes.
func TestNewest(t *testing.T) {
	t.Parallel()
	n := newest{floor: 5}
	seq := uint64(10)
	var all []layout.FeedItem
	for i := range 3 * maxNewest {
		items := make([]layout.FeedItem, i%4)
		if i == maxNewest {
			items = make([]layout.FeedItem, 5*maxNewest)
		}
		for k := range items {
			seq++
			items[k] = layout.FeedItem{Database: 1, Note: note.ID(i), Seq: seq}
		}
		seq++ // a recipe
		held, ok := n.since(seq)
		n.add(items)
		all = append(all, items...)
		if !ok || len(held) != 0 {
			t.Fatalf("%d after the last", len(held))
		}
		if len(n.list) >= 2*maxNewest && i != maxNewest {
			t.Fatalf("it holds %d", len(n.list))
		}
	}
	for _, at := range []uint64{0, 4, 5, 11, n.floor - 1, n.floor, n.floor + 1, seq - 3, seq, seq + 9} {
		got, ok := n.since(at)
		want := all
		for len(want) > 0 && want[0].Seq <= at {
			want = want[1:]
		}
		if ok != (at >= n.floor) || ok && !slices.Equal(got, want) {
			t.Errorf("after %d: %d changes, %v; want %d, the floor is %d", at, len(got), ok, len(want), n.floor)
		}
	}
}

// TestTrimmedFeed checks that a feed that was cut is cut in memory too.
func TestTrimmedFeed(t *testing.T) {
	t.Parallel()
	f := env.TestRealTime(t)
	s, err := Open(f.Env, "data", crashOptions())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	db, err := s.CreateDatabase(note.System, Create{Kind: "a"})
	if err != nil {
		t.Fatal(err)
	}
	start := s.Now()
	for i := range 3 {
		if err := put(t, s, db, note.UNID{byte(i + 1)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Trim(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Feed(start, func(Change) bool { return true }); !errors.Is(err, ErrFeedCut) {
		t.Errorf("behind the cut: %v", err)
	}
	if list, _ := feedAll(t, s, s.Now(), 9); len(list) != 0 {
		t.Errorf("%d changes after the last", len(list))
	}
}
