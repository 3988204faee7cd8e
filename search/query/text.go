// Package query defines searches: tests of a text, as used by IMAP, JMAP and search boxes, and their combinations. A
// test decides about a text by itself. It also names the words by which an index finds the texts that may pass
// (doc/search.md).
package query

import (
	"strings"
	"unicode/utf8"

	"doublet/search/index"
	"doublet/search/text"
	"doublet/search/words"
	"doublet/wire/mime"
)

// Text is a test of the texts in some fields. It is safe for concurrent use.
type Text struct {
	// Fields are the fields to test. It is enough that one of them passes.
	Fields text.Field
	// Source is the text to search for, as given.
	Source string

	units  []unit // the sequence of words
	plain  plain
	needle *mime.Needle
	groups []Group
	sure   bool
}

// Group is a condition on words: at least one word fits one of the patterns.
type Group []index.Pattern

// unit is one word of a sequence. Without patterns it fits any word.
type unit struct{ fits Group }

// maxUnits is the maximum number of words in a sequence. Further words are ignored.
const maxUnits = 64

// Phrase returns a test for words in sequence. A star after the last word makes it a prefix; a star before the first
// word makes that a suffix. A phrase without words matches nothing.
func Phrase(fields text.Field, s string) *Text {
	t := &Text{Fields: fields, Source: s}
	open := strings.HasSuffix(s, "*")
	begun := strings.HasPrefix(s, "*")
	s = words.Normal(s)
	for sc := words.Scan(s); sc.Next() && len(t.units) < maxUnits; {
		term := string(sc.Term)
		how := index.Exact
		switch {
		case sc.Gram && sc.Last && len(t.units) > 0 && t.units[len(t.units)-1].pairs():
			// The pair before contains this letter.
			t.units = append(t.units, unit{})
			continue
		case sc.Gram && sc.Last:
			how = index.Prefix // alone, or the first letter of a pair
		}
		u := unit{Group{{How: how, Text: term}}}
		if other := umlauts(s[sc.Start:sc.End]); other != "" && other != term && !sc.Gram {
			u.fits = append(u.fits, index.Pattern{How: how, Text: other})
		}
		t.units = append(t.units, u)
	}
	t.trim()
	t.wild(begun, open)
	for _, u := range t.units {
		if u.fits != nil {
			t.groups = append(t.groups, u.fits)
		}
	}
	t.sure = len(t.units) == 1
	t.plain = newPlain(t.units)
	return t
}

// trim removes units without patterns from the end.
func (t *Text) trim() {
	for len(t.units) > 0 && t.units[len(t.units)-1].fits == nil {
		t.units = t.units[:len(t.units)-1]
	}
}

// pairs reports whether the unit is a pair of letters from a run (see words.Scanner).
func (u *unit) pairs() bool {
	return len(u.fits) == 1 && u.fits[0].How == index.Exact && utf8.RuneCountInString(u.fits[0].Text) > 1 &&
		words.IsGram(u.fits[0].Text)
}

// wild makes the first word a suffix (begun) and the last word a prefix (open).
func (t *Text) wild(begun, open bool) {
	if len(t.units) == 0 {
		return
	}
	turn := func(g Group, to index.How) {
		for i := range g {
			if words.IsGram(g[i].Text) {
				continue
			}
			if g[i].How != index.Exact {
				to = index.Infix
			}
			g[i].How = to
		}
	}
	if begun {
		turn(t.units[0].fits, index.Suffix)
	}
	if open {
		turn(t.units[len(t.units)-1].fits, index.Prefix)
	}
}

// umlauts returns a word with its umlauts written as two letters, or "" if it has none. So a search for Müller also
// finds Mueller.
func umlauts(s string) string {
	if !strings.ContainsAny(s, "äöüÄÖÜ") {
		return ""
	}
	s = words.Fold(strings.NewReplacer("ä", "ae", "ö", "oe", "ü", "ue", "Ä", "ae", "Ö", "oe", "Ü", "ue").Replace(s))
	if len(s) > words.MaxTerm {
		return ""
	}
	return s
}

// Substring returns a test for a string anywhere, also within words, ignoring case, as IMAP SEARCH requires. The empty
// string matches every text in the fields, but not a missing field.
func Substring(fields text.Field, s string) *Text {
	n := mime.NewNeedle(s)
	t := &Text{Fields: fields, Source: s, needle: &n}
	s = words.Normal(s)
	sc := words.Scan(s)
	var list tokens
	for sc.Next() {
		list = append(list, token{string(sc.Term), sc.Start, sc.End, sc.Sure, sc.Gram, sc.Last})
	}
	for i, x := range list {
		if i > 0 && list.pair(i-1) {
			continue // contained in the pair before
		}
		how, final := list.how(i)
		if i == 0 && final && x.start == 0 && x.end == len(s) {
			t.sure = x.sure
		}
		t.groups = append(t.groups, Group{{Text: x.term, How: how}})
	}
	return t
}

// token is a term of a substring.
type token struct {
	term       string
	start, end int
	sure       bool
	gram, last bool // a letter of a script without blanks, alone or with the next one; the last letter of a run
}

type tokens []token

// pair reports whether the token i is a pair of letters, of which the next token is the second and the last of its run.
func (l tokens) pair(i int) bool {
	return i+1 < len(l) && l[i].gram && !l[i].last && l[i+1].gram && l[i+1].last
}

// how returns how terms fit the token i, whose word may continue before or after the string. final is set if the string
// ends with the token.
func (l tokens) how(i int) (how index.How, final bool) {
	x, first := &l[i], i == 0
	final = i == len(l)-1
	switch {
	case x.gram && x.last:
		return index.Prefix, final
	case x.gram:
		return index.Exact, i == len(l)-2 && l.pair(i)
	case first && final:
		return index.Infix, true
	case first:
		return index.Suffix, false
	case final:
		return index.Prefix, true
	}
	return index.Exact, false
}

// Groups returns conditions that every passing text fulfils. If there are none, the words of a text do not help to
// decide the test.
func (t *Text) Groups() []Group { return t.groups }

// Pairs returns conditions on adjacent words that every passing text fulfils: it contains one of the pairs. Words that
// are looked for by their beginning or end are in none, nor are those that no pair is kept of.
func (t *Text) Pairs() (out [][]index.Pair) {
	for i := 1; i < len(t.units); i++ {
		first, second := hashes(t.units[i-1].fits), hashes(t.units[i].fits)
		if first == nil || second == nil {
			continue
		}
		var pairs []index.Pair
		for _, a := range first {
			for _, b := range second {
				pairs = append(pairs, index.MakePair(a, b))
			}
		}
		out = append(out, pairs)
	}
	return out
}

// hashes returns the hashes of the words that a group fits, nil if it fits others or words that are in no pair.
func hashes(g Group) (out []uint64) {
	for _, p := range g {
		h := index.HashTerm([]byte(p.Text))
		if p.How != index.Exact || h == 0 {
			return nil
		}
		out = append(out, h)
	}
	return out
}

// IsSubstring reports whether t was made by Substring, and not by Phrase.
func (t *Text) IsSubstring() bool { return t.needle != nil }

// Never reports whether no text can pass.
func (t *Text) Never() bool { return t.needle == nil && len(t.units) == 0 }

// Decides reports whether a word that fits the only group is enough to pass. sure is index.Code.Sure of the word.
func (t *Text) Decides(sure bool) bool { return t.sure && (t.needle == nil || sure) }

// Of returns the test for text.Passes.
func (t *Text) Of() *text.Test {
	out := &text.Test{Fields: t.Fields, In: t.InText}
	if t.plain.begins {
		out.Word = t.plain.lower
	}
	return out
}

// In reports whether a document passes.
func (t *Text) In(d *text.Document) bool {
	for i := range d.Stretches {
		s := &d.Stretches[i]
		if s.Field&t.Fields != 0 && t.InText(s.Text) {
			return true
		}
	}
	return false
}

// InText reports whether a text passes.
func (t *Text) InText(s string) bool {
	if t.needle != nil {
		return t.needle.In(s)
	}
	if (t.plain.never || t.plain.lower != "") && words.ASCII(s) {
		return !t.plain.never && t.plain.in(s, t.units)
	}
	found := false
	t.Each(s, func(int, int) bool {
		found = true
		return false
	})
	return found
}

// Each calls fn with each place in s where the sequence of words occurs, until fn returns false. s must be normalized
// (words.Normal).
func (t *Text) Each(s string, fn func(start, end int) bool) {
	n := len(t.units)
	if n == 0 {
		return
	}
	// Bit i is set if the last i+1 words scanned match the first i+1 words of the sequence.
	var row uint64
	var starts [maxUnits]int // start offsets of the last words, by Pos modulo maxUnits
	goal := uint64(1) << (n - 1)
	for sc := words.Scan(s); sc.Next(); {
		starts[sc.Pos%maxUnits] = sc.Start
		row = row<<1 | 1
		for i := range t.units {
			if bit := uint64(1) << i; row&bit != 0 && !t.units[i].takes(sc.Term) {
				row &^= bit
			}
		}
		if row&goal != 0 && !fn(starts[(sc.Pos-n+1)%maxUnits], sc.End) {
			return
		}
	}
}

func (u *unit) takes(term []byte) bool {
	if u.fits == nil {
		return true
	}
	for i := range u.fits {
		if u.fits[i].Fits(term) {
			return true
		}
	}
	return false
}
