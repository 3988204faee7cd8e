package search

import (
	"math/rand/v2"
	"slices"
	"testing"

	"doublet/search/index"
)

// TestSortPairs compares sortPairs with sorting, also of pairs that a sender chose to be equal in their upper bits.
func TestSortPairs(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(4, 4))
	a := newAnalyser()
	for _, n := range []int{0, 1, 2, fewPairs, fewPairs + 1, 1000, 30_000, 100} {
		for _, mask := range []uint32{1<<32 - 1, 1<<22 - 1, 0xffc00003, 0} {
			a.reset()
			for range n {
				a.pairs = append(a.pairs, index.Pair(rng.Uint32()&mask))
			}
			want := slices.Clone(a.pairs)
			slices.Sort(want)
			if got := a.sortPairs(); !slices.Equal(got, slices.Compact(want)) {
				t.Fatalf("%d pairs with bits %x are out of order", n, mask)
			}
		}
	}
}
