package imap

import (
	"strings"
	"testing"
)

func TestPattern(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"*", "a/b", true}, {"%", "a/b", false}, {"%", "a", true}, {"%/%", "a/b", true}, {"a*b", "a/x/b", true},
		{"a%b", "a/b", false}, {"", "", true}, {"", "a", false},
		{"*", "", true}, {"a", "A", false}, {"*%*", "x/y", true}, {"INBOX", "INBOX", true},
		{strings.Repeat("*a", 400), strings.Repeat("a", 399), false},
	} {
		if p := CompilePattern(c.pattern); p.Match(c.name) != c.want || fits(c.pattern, c.name) != c.want {
			t.Errorf("%.20q %.20q", c.pattern, c.name)
		}
	}
}

// fits implements the definition of a pattern directly: it tracks the set of positions in the pattern that a prefix of
// the name can reach.
func fits(pattern, name string) bool {
	now := map[int]bool{0: true}
	wild := func(set map[int]bool) map[int]bool {
		for p := range len(pattern) {
			if set[p] && (pattern[p] == '*' || pattern[p] == '%') {
				set[p+1] = true
			}
		}
		return set
	}
	now = wild(now)
	for i := range len(name) {
		next := map[int]bool{}
		for p := range now {
			switch {
			case p == len(pattern):
			case pattern[p] == '*', pattern[p] == '%' && name[i] != '/':
				next[p] = true
			case pattern[p] == name[i] && pattern[p] != '%':
				next[p+1] = true
			}
		}
		now = wild(next)
	}
	return now[len(pattern)]
}

// FuzzPattern compares Pattern with fits. It repeats the pattern so that it needs several words of bits.
func FuzzPattern(f *testing.F) {
	f.Add("a*%/b", "ax/y/b", uint8(0))
	f.Add("%*", "", uint8(40))
	f.Add("*%a", "aaaa/aaaa", uint8(70))
	f.Add("ab", "ab", uint8(64))
	f.Fuzz(func(t *testing.T, pattern, name string, times uint8) {
		if len(pattern) > 20 || len(name) > 40 {
			return
		}
		n := 1 + int(times)%70
		pattern = strings.Repeat(pattern, n)
		p := CompilePattern(pattern)
		for _, s := range []string{name, strings.Repeat(name, n), strings.Map(func(r rune) rune {
			if r == '*' || r == '%' {
				return -1
			}
			return r
		}, pattern)} {
			if got, want := p.Match(s), fits(pattern, s); got != want {
				t.Fatalf("%q, %q: %v, want %v", pattern, s, got, want)
			}
		}
	})
}

// TestPatternCost checks that patterns of wildcards only, or with more literals than a name has, cost almost nothing
// per name: no allocation, and at most one word of bits.
func TestPatternCost(t *testing.T) {
	p := CompilePattern(strings.Repeat("*%", 32<<10))
	if len(p.star) != 1 || !p.Match("a/b") {
		t.Error(len(p.star))
	}
	p = CompilePattern(strings.Repeat("*a", 32<<10))
	if p.literal != nil || p.Match(strings.Repeat("a", 32<<10)) {
		t.Error("too many literals were compiled")
	}
	p = CompilePattern(strings.Repeat("%", 64<<10) + "a")
	name := strings.Repeat("x", MaxMailboxName-1) + "a"
	if n := testing.AllocsPerRun(10, func() {
		if !p.Match(name) {
			t.Error("no match")
		}
	}); n != 0 || len(p.star) != 1 {
		t.Error(n, len(p.star))
	}
}
