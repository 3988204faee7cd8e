package admin

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
)

// TestListed compares the frame of list verbs with a filter over the whole list, for random lists, limits and
// positions. Pages may be longer than asked for, as those of names that replicas conflict over.
func TestListed(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		all := make([]int, r.IntN(4000))
		for i := range all {
			all[i] = r.IntN(1000)
		}
		limit, longer, most, reads := 1+r.IntN(3000), r.IntN(3), r.IntN(1100), 0
		at := r.IntN(len(all) + 1)
		read := func(n int, after string) ([]int, string, error) {
			reads++
			if n > 1000 {
				t.Fatalf("a page of %d", n)
			}
			from, _ := strconv.Atoi(after)
			if to := from + n + longer; to < len(all) {
				return all[from:to], strconv.Itoa(to), nil
			}
			return all[from:], "", nil
		}
		fits := func(n *int) bool { return *n < most }
		want := slices.DeleteFunc(slices.Clone(all[at:]), func(n int) bool { return !fits(&n) })
		want = want[:min(limit, len(want))]
		got, err := listed(limit, strconv.Itoa(at), read, fits, func(n int) int { return n })
		if err != nil || got == nil || !slices.Equal(got, want) {
			t.Fatalf("%d of %d from %d below %d: %d rows, not %d: %v", limit, len(all), at, most, len(got), len(want),
				err)
		}
		if reads > 2+len(all)/1000 {
			t.Errorf("%d pages of %d", reads, len(all))
		}
	}
}
