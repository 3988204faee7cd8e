package index

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"doublet/env"
	"doublet/note"

	"github.com/cockroachdb/pebble/v2"
)

// paired is a build with the pairs that its notes have, to compare.
type paired struct {
	*heap
	pairs map[note.ID][]Pair
}

// segment makes a segment of n notes with pairs. Some are long, some have no words, and of some the pairs are not
// known.
func (h *paired) segment(n int) {
	h.t.Helper()
	h.must(h.x.Update(func(w *Writer) error {
		s, err := w.State(heapDB)
		if err != nil {
			return err
		}
		for range n {
			h.last++
			p := &Piece{Note: h.last, Flags: Paired}
			switch h.rng.IntN(10) {
			case 0:
				p.Flags = 0
			case 1:
				p.Length = uint32(h.rng.IntN(20_000))
			case 2:
			default:
				p.Length = uint32(h.rng.IntN(600))
			}
			if p.Flags&Paired != 0 {
				for range p.Length * 3 / 4 {
					p.Pairs = append(p.Pairs, Pair(h.rng.Uint32()))
				}
				slices.Sort(p.Pairs)
				h.pairs[h.last] = p.Pairs
			}
			w.Put(heapDB, s.Active, p)
			s.Active.Notes++
		}
		return nil
	}))
	h.must(h.x.Update(func(w *Writer) error {
		s, err := w.State(heapDB)
		if err != nil {
			return err
		}
		return w.Pack(heapDB, s.Active)
	}))
}

// adjacent returns the notes that may have one of some pairs.
func (h *paired) adjacent(pairs ...Pair) (map[note.ID]bool, error) {
	h.t.Helper()
	v, err := h.x.Open(heapDB)
	h.must(err)
	defer func() { h.must(v.Close()) }()
	out := map[note.ID]bool{}
	err = v.Adjacent(pairs, func(id note.ID) { out[id] = true })
	return out, err
}

// check compares the filters of the index with the pairs of the notes that still exist.
func (h *paired) check() {
	h.t.Helper()
	chance, tried := 0, 0
	for range 60 {
		asked := []Pair{Pair(h.rng.Uint32()), Pair(h.rng.Uint32())}
		for i := range asked {
			if of := h.pairs[note.ID(1+h.rng.IntN(int(h.last)))]; len(of) > 0 && h.rng.IntN(2) == 0 {
				asked[i] = of[h.rng.IntN(len(of))]
			}
		}
		asked = asked[:1+h.rng.IntN(2)]
		found, err := h.adjacent(asked...)
		h.must(err)
		for id := note.ID(1); id <= h.last; id++ {
			of, known := h.pairs[id]
			has := slices.ContainsFunc(asked, func(x Pair) bool {
				_, ok := slices.BinarySearch(of, x)
				return ok
			})
			switch {
			case h.gone[id]:
			case has || !known:
				if !found[id] {
					h.t.Fatalf("note %d is missing: has one of %x %v, known %v", id, asked, has, known)
				}
			default:
				tried += len(asked)
				if found[id] {
					chance++
				}
			}
		}
	}
	if share := float64(chance) / float64(tried); share > 0.15 {
		h.t.Errorf("%.2f of the notes without a pair are in the filter, want at most an eighth", share)
	}
}

// TestPairs compares the filters of segments with the pairs of their notes, before and after merges and while notes
// are removed.
func TestPairs(t *testing.T) {
	h := &paired{newHeap(t), map[note.ID][]Pair{}}
	merges := 0
	for i := range 2 * fanout {
		h.segment(64 + h.rng.IntN(30))
		for range 3 {
			h.gone[note.ID(1+h.rng.IntN(int(h.last)))] = true
		}
		if i%5 == 0 {
			h.check()
		}
		for {
			merged, err := h.merge()
			h.must(err)
			if !merged {
				break
			}
			merges++
			h.check()
		}
	}
	if merges == 0 {
		t.Error("nothing was merged")
	}
	if st, err := h.x.State(heapDB); err != nil || len(st.Active.Segments) == 0 {
		t.Error(st, err)
	}
	// A segment that is dropped leaves no rows behind.
	h.must(h.x.Update(func(w *Writer) error { return w.Drop(heapDB) }))
	h.must(scan(h.x.eng, dbKey(spacePairs, heapDB), func(k, _ []byte) (bool, error) {
		t.Errorf("row %x is left", k)
		return true, nil
	}))
}

// TestPairsDamaged reads filters whose rows are damaged.
func TestPairsDamaged(t *testing.T) {
	for _, row := range [][]byte{
		{},                           // no number of bits
		{pairLowMax + 1, 0},          // too many of them
		{0, 0xff, 0xff},              // no end of the ones
		{4, 0, 0},                    // too few bits for the last position
		{30, 0xfe, 0xff, 0xff, 0xff}, // a position behind the last bucket
	} {
		h := &paired{newHeap(t), map[note.ID][]Pair{}}
		h.segment(64)
		h.must(scan(h.x.eng, dbKey(spacePairs, heapDB), func(k, _ []byte) (bool, error) {
			return true, h.x.eng.Set(slices.Clone(k), row, pebble.NoSync)
		}))
		var all error
		for range pairBuckets {
			_, err := h.adjacent(Pair(h.rng.Uint32()))
			all = errors.Join(all, err)
		}
		if !errors.Is(all, ErrDamaged) {
			t.Errorf("%x: %v, want ErrDamaged", row, all)
		}
	}
}

// TestPairLists writes lists of positions and reads them again.
func TestPairLists(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for range 300 {
		p := &pairWriter{slots: 1 + rng.Uint64N(1<<rng.IntN(30)), low: uint(rng.IntN(pairLowMax + 1))}
		most := p.slots * pairBuckets
		var want []uint64
		for at := rng.Uint64N(most); at < most && len(want) < 400; at += 1 + rng.Uint64N(1+16<<p.low) {
			want = append(want, at)
			for range 1 + rng.IntN(2) {
				p.add(at/p.slots, at%p.slots)
			}
		}
		p.fill()
		var r pairRow
		r.begin(p.row, most)
		first := want[0] / p.slots * p.slots
		for _, w := range want {
			if got, ok := r.read(); !ok || got+first != w {
				t.Fatalf("read %d %v, want %d", got, ok, w-first)
			}
		}
		if got, ok := r.read(); ok || r.bad {
			t.Fatalf("read %d %v behind the last position, bad %v", got, ok, r.bad)
		}
	}
}

// FuzzPairRow reads any bytes as a row: positions ascend below the limit, and writing them again gives the same list.
func FuzzPairRow(f *testing.F) {
	f.Add([]byte{2, 0x34, 0x12, 0xf0}, uint64(1000))
	f.Add([]byte{0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f}, uint64(1)<<40)
	f.Fuzz(func(t *testing.T, row []byte, limit uint64) {
		var r pairRow
		r.begin(row, limit)
		p := &pairWriter{slots: max(limit, 1), low: r.low}
		var list []uint64
		for {
			at, ok := r.read()
			if !ok {
				break
			}
			if at >= limit || len(list) > 0 && at <= list[len(list)-1] {
				t.Fatalf("position %d after %v, limit %d", at, list, limit)
			}
			list = append(list, at)
			p.add(0, at)
		}
		if len(list) == 0 {
			return
		}
		p.fill()
		r.begin(p.row, limit)
		for _, want := range list {
			if at, ok := r.read(); !ok || at != want {
				t.Fatalf("read %d %v, want %d", at, ok, want)
			}
		}
	})
}

// TestFormatWithoutPairs opens an index of the version before pairs: it is kept, and marked so that programs of that
// version build it again. One of an older version is not opened.
func TestFormatWithoutPairs(t *testing.T) {
	t.Parallel()
	e := env.TestRealTime(t).Env
	mark := func(format byte) error {
		x, err := Open(e, "index", Options{})
		if err != nil {
			return err
		}
		v := append([]byte{format}, make([]byte, 8)...)
		return errors.Join(x.eng.Set(metaKey(metaFormat), v, pebble.NoSync), x.Close())
	}
	if err := errors.Join(mark(unpaired), mark(unpaired)); err != nil {
		t.Fatal(err)
	}
	x, err := Open(e, "index", Options{})
	if err != nil {
		t.Fatal(err)
	}
	v, err := getValue(x.eng, metaKey(metaFormat))
	if err = errors.Join(err, x.Close()); err != nil || v[0] != Format {
		t.Errorf("format %x, %v", v, err)
	}
	if err := errors.Join(mark(unpaired-1), mark(Format)); !errors.Is(err, ErrFormat) {
		t.Errorf("an older version: %v", err)
	}
}
