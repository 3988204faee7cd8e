package index

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestTrigrams checks that no block with a matching term is skipped, and that most blocks without one are.
func TestTrigrams(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	letters := []rune("abcdefghijklmnopqrstuvwxyzäöü東京")
	word := func(n int) string {
		var b strings.Builder
		for range n {
			b.WriteRune(letters[rng.IntN(len(letters))])
		}
		return b.String()
	}
	passed, asked := 0, 0
	for range 200 {
		var g trigrams
		var terms []string
		last := ""
		for i := range 300 {
			term := fmt.Sprintf("%s%s", last[:min(len(last), rng.IntN(6))], word(1+rng.IntN(9)))
			shared := 0
			for shared < len(last) && shared < len(term) && last[shared] == term[shared] {
				shared++
			}
			if i == 0 {
				shared = 0
			}
			g.add([]byte(term), shared)
			terms, last = append(terms, term), term
		}
		for _, term := range terms {
			from := rng.IntN(len(term))
			part := term[from : from+1+rng.IntN(len(term)-from)]
			if !mayHold(g[:], part) {
				t.Fatalf("%q is in %q, and is passed over", part, term)
			}
		}
		for range 20 {
			asked++
			if !mayHold(g[:], word(6)) {
				passed++
			}
		}
	}
	if passed < asked*8/10 {
		t.Errorf("of %d blocks %d are passed over", asked, passed)
	}
	if !mayHold([]byte("short"), "abcdef") {
		t.Error("a block that is none is passed over, and its damage not seen")
	}
}
