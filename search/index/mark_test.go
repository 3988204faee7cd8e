package index

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestMark compares Mark with Next, on lists of postings and on any bytes.
func TestMark(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(6, 6))
	for round := range 3000 {
		docs := int64(1 + rng.IntN(300))
		w := segmentWriter{prev: -1}
		for ord := rng.IntN(4); int64(ord) < docs; ord += 1 + rng.IntN(1+rng.IntN(90)) {
			c := usual
			if rng.IntN(3) == 0 {
				c = MakeCode(uint16(1+rng.IntN(15)), rng.IntN(2) == 0, rng.IntN(9))
			}
			w.posting(uint32(ord), c)
		}
		raw := w.list
		if round%2 == 1 { // damaged
			raw = slices.Clone(raw)
			for range 1 + rng.IntN(3) {
				raw = append(raw, byte(rng.Uint32()))
				raw[rng.IntN(len(raw))] = byte(rng.Uint32())
			}
		}
		fields := uint16(rng.IntN(16))
		words := (docs + 63) / 64
		sure, others := make([]uint64, words), make([]uint64, words)
		wantSure, wantOthers := make([]uint64, words), make([]uint64, words)
		a := Postings{b: raw, prev: -1, docs: docs}
		a.Mark(fields, sure, others)
		b := Postings{b: raw, prev: -1, docs: docs}
		for b.Next() {
			bit := uint64(1) << (b.Ord % 64)
			switch {
			case b.Code.Fields()&fields == 0:
			case b.Code.Sure():
				wantSure[b.Ord/64] |= bit
			default:
				wantOthers[b.Ord/64] |= bit
			}
		}
		if a.bad != b.bad || !slices.Equal(sure, wantSure) || !slices.Equal(others, wantOthers) || a.Next() {
			t.Fatalf("%x: %x and %x, bad %v; want %x and %x, %v", raw, sure, others, a.bad, wantSure, wantOthers, b.bad)
		}
	}
}
