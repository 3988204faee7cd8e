package rules

import (
	"cmp"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"doublet/wire/sieve"
)

// matchType is a match type of RFC 5228 section 2.7.1.
type matchType uint8

const (
	matchIs matchType = iota
	matchContains
	matchGlob
	matchRegexp
	matchCount
	matchValue
)

type comparator uint8

const (
	casemap comparator = iota
	octet
	numeric
)

// matcher compares values with keys.
type matcher struct {
	kind      matchType
	by        comparator
	relation  string
	keys      []key
	remembers bool // match variables are set
}

// key is a key with what was prepared of it; a key with variables is prepared in each run.
type key struct {
	text
	ready
}

type ready struct {
	lower string
	glob  *glob
	re    *regexp.Regexp
	size  int // instructions of re
}

func (m *matcher) prepare(s string) (ready, error) {
	out := ready{lower: s}
	if m.by == casemap {
		out.lower = asciiLower(s)
	}
	switch m.kind {
	case matchGlob:
		out.glob = compileGlob(out.lower)
	case matchRegexp:
		var err error
		if out.re, out.size, err = sieve.Regexp(s, m.by == casemap); err != nil {
			return out, err
		}
	}
	return out, nil
}

// any reports whether one of the values matches one of the keys.
func (m *matcher) any(r *run, values []value) (bool, error) {
	if m.kind == matchCount {
		return m.count(r, len(values))
	}
	for i := range m.keys {
		k := &m.keys[i]
		use := k.ready
		if k.parts != nil {
			if m.kind == matchRegexp {
				if r.patterns++; r.patterns > maxPatterns {
					return false, errPatterns
				}
			}
			var err error
			if use, err = m.prepare(r.expand(&k.text)); err != nil {
				return false, err
			}
			r.steps -= use.size
		}
		for j := range values {
			ok, err := m.one(r, &use, &values[j])
			if err != nil || ok {
				return ok, err
			}
		}
	}
	return false, nil
}

// count compares the number of values with the keys.
//
// Implements: RFC 5231 §4.2 match type :count
func (m *matcher) count(r *run, n int) (bool, error) {
	for i := range m.keys {
		if err := r.spend(0); err != nil {
			return false, err
		}
		if related(m.relation, compareNumbers(strconv.Itoa(n), r.expand(&m.keys[i].text))) {
			return true, nil
		}
	}
	return false, nil
}

// one compares one value with one key.
//
// Implements: RFC 5228 §2.7.1 match types :is, :contains, :matches
func (m *matcher) one(r *run, k *ready, v *value) (bool, error) {
	s := v.text
	if m.by == casemap && m.kind != matchRegexp {
		s = v.lower()
	}
	work := len(s)
	switch m.kind {
	case matchRegexp:
		work *= max(32, k.size/2) // for each byte the automaton may go through all its states
	case matchGlob:
		work *= len(k.glob.segments)
	}
	if err := r.spend(work); err != nil {
		return false, err
	}
	switch m.kind {
	case matchContains:
		return strings.Contains(s, k.lower), nil
	case matchGlob:
		spans, ok := k.glob.match(s)
		if ok && m.remembers {
			r.remember(v.text, spans)
		}
		return ok, nil
	case matchRegexp:
		return m.regexp(r, k.re, s), nil
	case matchValue:
		return related(m.relation, m.compare(s, k.lower)), nil
	}
	return m.compare(s, k.lower) == 0, nil
}

func (m *matcher) regexp(r *run, re *regexp.Regexp, s string) bool {
	if !m.remembers {
		return re.MatchString(s)
	}
	at := re.FindStringSubmatchIndex(s)
	if at == nil {
		return false
	}
	spans := make([][2]int, 0, len(at)/2)
	for i := 2; i+1 < len(at); i += 2 {
		spans = append(spans, [2]int{max(at[i], 0), max(at[i+1], 0)})
	}
	r.remember(s, spans)
	r.match[0] = s[at[0]:at[1]]
	return true
}

// remember sets the match variables.
//
// Implements: RFC 5229 §3.2 match variables
func (r *run) remember(s string, spans [][2]int) {
	r.match = append(r.match[:0:0], shorten(s, maxValue))
	for _, p := range spans[:min(len(spans), 64)] {
		r.match = append(r.match, shorten(s[p[0]:p[1]], maxValue))
	}
}

func (m *matcher) compare(a, b string) int {
	if m.by == numeric {
		return compareNumbers(a, b)
	}
	return strings.Compare(a, b)
}

// compareNumbers compares the leading digits of two strings. A string without digits is greater than all numbers.
//
// Implements: RFC 4790 §9.1 i;ascii-numeric
func compareNumbers(a, b string) int {
	a, b = leadingDigits(a), leadingDigits(b)
	switch {
	case a == "" && b == "":
		return 0
	case a == "":
		return 1
	case b == "":
		return -1
	}
	a, b = strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
	if c := cmp.Compare(len(a), len(b)); c != 0 {
		return c
	}
	return strings.Compare(a, b)
}

func leadingDigits(s string) string {
	n := 0
	for n < len(s) && '0' <= s[n] && s[n] <= '9' {
		n++
	}
	return s[:n]
}

// related reports whether the result of a comparison has a relation.
//
// Implements: RFC 5231 §4.1 match type :value
func related(relation string, c int) bool {
	switch relation {
	case "gt":
		return c > 0
	case "ge":
		return c >= 0
	case "lt":
		return c < 0
	case "le":
		return c <= 0
	case "ne":
		return c != 0
	}
	return c == 0
}

// glob is a pattern of :matches: segments between stars. Matching never tries a segment again after a later one failed,
// so it takes at most the product of the two lengths.
type glob struct{ segments []segment }

// segment is a row of texts and of single characters.
type segment []element

type element struct {
	text string // "" for any character
}

func compileGlob(pattern string) *glob {
	g := &glob{}
	var seg segment
	var b strings.Builder
	end := func() {
		if b.Len() > 0 {
			seg = append(seg, element{b.String()})
			b.Reset()
		}
	}
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; c {
		case '*':
			end()
			g.segments, seg = append(g.segments, seg), nil
		case '?':
			end()
			seg = append(seg, element{})
		case '\\':
			if i+1 < len(pattern) {
				i++
			}
			b.WriteByte(pattern[i])
		default:
			b.WriteByte(c)
		}
	}
	end()
	g.segments = append(g.segments, seg)
	return g
}

// at matches a segment at a place in s, and appends the spans of its single characters.
func (g segment) at(s string, pos int, spans [][2]int) (int, [][2]int, bool) {
	for i := range g {
		if t := g[i].text; t != "" {
			if !strings.HasPrefix(s[pos:], t) {
				return 0, spans, false
			}
			pos += len(t)
			continue
		}
		if pos >= len(s) {
			return 0, spans, false
		}
		_, n := utf8.DecodeRuneInString(s[pos:])
		spans = append(spans, [2]int{pos, pos + n})
		pos += n
	}
	return pos, spans, true
}

// match returns the spans of the wildcards.
func (g *glob) match(s string) ([][2]int, bool) {
	pos, spans, ok := g.segments[0].at(s, 0, nil)
	if !ok || len(g.segments) == 1 {
		return spans, ok && pos == len(s)
	}
	for i, seg := range g.segments[1:] {
		last := i == len(g.segments)-2
		if last && len(seg) == 0 {
			return append(spans, [2]int{pos, len(s)}), true
		}
		found := false
		for from := pos; from <= len(s); from++ {
			if len(seg) > 0 && seg[0].text != "" { // go to the first place where it can match
				k := strings.Index(s[from:], seg[0].text)
				if k < 0 {
					return nil, false
				}
				from += k
			}
			n := len(spans)
			end, with, ok := seg.at(s, from, append(spans, [2]int{pos, from}))
			if ok && (!last || end == len(s)) {
				pos, spans, found = end, with, true
				break
			}
			spans = with[:n]
		}
		if !found {
			return nil, false
		}
	}
	return spans, true
}
