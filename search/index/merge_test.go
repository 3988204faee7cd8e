package index

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"doublet/env"
	"doublet/note"

	"github.com/cockroachdb/pebble/v2"
)

// heap is a build with the terms that its notes have, to compare.
type heap struct {
	t    *testing.T
	x    *Index
	rng  *rand.Rand
	last note.ID
	want map[string]map[note.ID]Code
	gone map[note.ID]bool
}

const heapDB = note.DatabaseID(7)

func newHeap(t *testing.T) *heap {
	x, err := Open(env.TestRealTime(t).Env, "index", Options{})
	h := &heap{t: t, x: x, rng: rand.New(rand.NewPCG(4, 2)), want: map[string]map[note.ID]Code{},
		gone: map[note.ID]bool{}}
	h.must(err)
	t.Cleanup(func() { h.must(x.Close()) })
	h.must(x.Update(func(w *Writer) error { return w.Begin(heapDB) }))
	return h
}

func (h *heap) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

// segment adds n notes with common and rare terms, and makes a segment of them.
func (h *heap) segment(n int) {
	h.t.Helper()
	update := func(fn func(*Writer, *Build) error) {
		h.must(h.x.Update(func(w *Writer) error {
			s, err := w.State(heapDB)
			if err != nil {
				return err
			}
			return fn(w, s.Active)
		}))
	}
	update(func(w *Writer, b *Build) error {
		for range n {
			h.last++
			p := &Piece{Note: h.last, Length: 1}
			for k := range 40 {
				// Codes that are not the usual one make lists long, so that they span chunks.
				term, code := fmt.Sprintf("common%02d", k), MakeCode(uint16(1+h.rng.IntN(500)), true, 1)
				if h.rng.IntN(8) == 0 {
					term = fmt.Sprintf("rare%05d", h.rng.IntN(20_000))
				}
				if h.want[term][h.last] != 0 {
					continue
				}
				if h.want[term] == nil {
					h.want[term] = map[note.ID]Code{}
				}
				h.want[term][h.last] = code
				p.Coded, p.Count = AppendTerm(p.Coded, []byte(term), code), p.Count+1
			}
			w.Put(heapDB, b, p)
			b.Notes++
		}
		return nil
	})
	update(func(w *Writer, b *Build) error { return w.Pack(heapDB, b) })
}

func (h *heap) merge() (bool, error) {
	return h.x.Merge(heapDB, false, func(ids []note.ID) ([]bool, error) {
		out := make([]bool, len(ids))
		for i, id := range ids {
			out[i] = !h.gone[id]
		}
		return out, nil
	}, func() error { return nil })
}

// check compares the terms of the index with those of the notes that still exist.
func (h *heap) check() {
	h.t.Helper()
	v, err := h.x.Open(heapDB)
	h.must(err)
	defer func() { h.must(v.Close()) }()
	found := 0
	h.must(v.Search(Pattern{How: Prefix}, func(part int, list *Postings) (bool, error) {
		for list.Next() {
			id := v.Parts()[part].Docs.Notes[list.Ord]
			if h.gone[id] {
				h.t.Errorf("%s: has note %d, which is gone", list.Term, id)
			}
			if want := h.want[string(list.Term)][id]; want != list.Code {
				h.t.Errorf("%s: note %d has code %d, want %d", list.Term, id, list.Code, want)
			}
			found++
		}
		return true, nil
	}))
	want := 0
	for _, notes := range h.want {
		for id := range notes {
			if !h.gone[id] {
				want++
			}
		}
	}
	if found != want {
		h.t.Errorf("%d postings, want %d", found, want)
	}
}

// TestMerge checks that merges keep every posting of the notes that still exist, in lists that lie in one chunk and in
// lists that span several, over two generations of segments.
func TestMerge(t *testing.T) {
	t.Parallel()
	h := newHeap(t)
	for range fanout + 3 {
		h.segment(256)
		for range 100 {
			h.gone[1+note.ID(h.rng.Uint64N(uint64(h.last)))] = true
		}
		for merged, err := h.merge(); merged; merged, err = h.merge() {
			h.must(err)
		}
	}
	// A merge of all segments drops the rest of what is gone.
	h.must(h.x.Update(func(w *Writer) error {
		s, err := w.State(heapDB)
		if err == nil {
			s.Active.Gone = s.Active.Notes
		}
		return err
	}))
	_, err := h.merge()
	h.must(err)
	h.check()
}

// TestMergeDamaged checks that a merge reports a chunk of postings that is missing.
func TestMergeDamaged(t *testing.T) {
	t.Parallel()
	for chunk := range uint32(3) {
		h := newHeap(t)
		for range fanout {
			h.segment(256)
		}
		s, err := h.x.State(heapDB)
		h.must(err)
		key := partKey(spacePosts, heapDB, s.Active.Segments[3].ID)
		h.must(h.x.eng.Delete(append(key, 0, 0, 0, byte(chunk)), pebble.NoSync))
		if merged, err := h.merge(); merged || !errors.Is(err, ErrDamaged) {
			t.Errorf("chunk %d is missing: merged %v, %v", chunk, merged, err)
		}
	}
}
