package query

import (
	"math/rand/v2"
	"strings"
	"testing"

	"doublet/search/text"
	"doublet/search/words"
)

// TestPlain compares the search in ASCII texts with a look at all their words.
func TestPlain(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(8, 1))
	long := strings.Repeat("ab", words.MaxTerm/2)
	parts := []string{"a", "b", "ab", "ba", "A", "Ab", "abab", "x1", "1", "muller", "mueller", long, long + "x",
		"b" + long}
	gaps := []string{" ", " ", " ", "-", ", ", "\r\n", "", ".", "'"}
	line := func(n int) string {
		var b strings.Builder
		for range n {
			b.WriteString(parts[rng.IntN(len(parts))])
			b.WriteString(gaps[rng.IntN(len(gaps))])
		}
		return b.String()
	}
	found := 0
	for range 20_000 {
		s := strings.TrimSpace(line(1 + rng.IntN(3)))
		switch rng.IntN(8) {
		case 0:
			s = "*" + s
		case 1:
			s += "*"
		case 2:
			s = "*" + s + "*"
		case 3:
			s += " Müller"
		case 4:
			s += []string{" é", " 東京", " naïve"}[rng.IntN(3)]
		}
		p, hay := Phrase(text.Any, s), line(rng.IntN(12))
		want := false
		p.Each(hay, func(int, int) bool { want = true; return false })
		if got := p.InText(hay); got != want {
			t.Fatalf("%q in %q: %v, want %v", s, hay, got, want)
		}
		if want {
			found++
		}
	}
	if found < 1000 {
		t.Errorf("%d found", found)
	}
	// In another text, the same words are found by reading all of it.
	if p := Phrase(text.Any, "cafe bar"); !p.InText("the Café Bar") || p.InText("the Café x Bar") {
		t.Error("words with accents")
	}
}
