// Package query is what can be asked: tests of a text, as the doors' protocols and people's search boxes know
// them, and their combinations. A test decides about a text by itself, and says by which words of an index
// the texts that can pass it are found (doc/search.md).
package query

import (
	"strings"
	"unicode/utf8"

	"doublet/search/index"
	"doublet/search/text"
	"doublet/search/words"
	"doublet/wire/mime"
)

// Text is a test of the texts of some fields. It is safe for use by several goroutines.
type Text struct {
	// Fields are those that are looked at: one that passes is enough.
	Fields text.Field
	// Source is what is looked for, as it was given.
	Source string

	units  []unit // a sequence of words
	needle *mime.Needle
	groups []Group
	sure   bool
}

// Group is a condition on words: one of the patterns fits one of them.
type Group []index.Pattern

// unit is one word of a sequence. One without patterns stands for any.
type unit struct{ fits Group }

// maxUnits is how many words a sequence has at most: what is beyond is not looked for.
const maxUnits = 64

// Phrase tests for words that follow each other. A star behind the last one lets it be the beginning of a word, a
// star before the first one the end. A text without words is found nowhere.
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
			// Its letter is in the pair before.
			t.units = append(t.units, unit{})
			continue
		case sc.Gram && sc.Last:
			how = index.Prefix // alone, or the first of a pair
		}
		u := unit{Group{{How: how, Text: term}}}
		if other := umlauts(s[sc.Start:sc.End]); other != "" && other != term && !sc.Gram {
			u.fits = append(u.fits, index.Pattern{How: how, Text: other})
		}
		t.units = append(t.units, u)
	}
	for len(t.units) > 0 && t.units[len(t.units)-1].fits == nil {
		t.units = t.units[:len(t.units)-1]
	}
	t.wild(begun, open)
	for _, u := range t.units {
		if u.fits != nil {
			t.groups = append(t.groups, u.fits)
		}
	}
	t.sure = len(t.units) == 1
	return t
}

// pairs says whether the unit is a pair of letters of a run.
func (u *unit) pairs() bool {
	return len(u.fits) == 1 && u.fits[0].How == index.Exact && utf8.RuneCountInString(u.fits[0].Text) > 1 && words.IsGram(u.fits[0].Text)
}

// wild lets the ends of the sequence be parts of words.
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

// umlauts is a word with its umlauts written as two letters, "" where it has none: Müller is found as Mueller
// too.
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

// Substring tests for a string anywhere, within words too, without regard to case: what IMAP's SEARCH asks for.
// The empty string is in every text of the fields, and in none where there is none.
func Substring(fields text.Field, s string) *Text {
	n := mime.NewNeedle(s)
	t := &Text{Fields: fields, Source: s, needle: &n}
	s = words.Normal(s)
	sc := words.Scan(s)
	type token struct {
		p          index.Pattern
		start, end int
		sure       bool
		gram, last bool
	}
	var list []token
	for sc.Next() {
		list = append(list, token{index.Pattern{Text: string(sc.Term)}, sc.Start, sc.End, sc.Sure, sc.Gram, sc.Last})
	}
	for i := range list {
		x := &list[i]
		first, final := i == 0, i == len(list)-1
		switch {
		case x.gram && x.last && i > 0 && list[i-1].gram && !list[i-1].last:
			continue // in the pair before
		case x.gram && x.last:
			x.p.How = index.Prefix
		case x.gram:
			final = i == len(list)-2 && list[i+1].gram && list[i+1].last
		case first && final:
			x.p.How = index.Infix
		case first:
			x.p.How = index.Suffix
		case final:
			x.p.How = index.Prefix
		}
		if first && final && x.start == 0 && x.end == len(s) {
			t.sure = x.sure
		}
		t.groups = append(t.groups, Group{x.p})
	}
	return t
}

// Groups are the conditions that a text fulfils which passes; none means that words say nothing about it.
func (t *Text) Groups() []Group { return t.groups }

// IsSubstring tells the two kinds of test apart.
func (t *Text) IsSubstring() bool { return t.needle != nil }

// Never says that no text passes.
func (t *Text) Never() bool { return t.needle == nil && len(t.units) == 0 }

// Decides says that a text that fulfils the only condition by a word with this code passes.
func (t *Text) Decides(c index.Code) bool {
	return t.sure && (t.needle == nil || c.Sure())
}

// In says whether a document passes.
func (t *Text) In(d *text.Document) bool {
	for i := range d.Stretches {
		s := &d.Stretches[i]
		if s.Field&t.Fields != 0 && t.InText(s.Text) {
			return true
		}
	}
	return false
}

// InText says whether a text passes.
func (t *Text) InText(s string) bool {
	if t.needle != nil {
		return t.needle.In(s)
	}
	found := false
	t.Each(s, func(int, int) bool {
		found = true
		return false
	})
	return found
}

// Each calls fn with where a sequence of words stands in a text that is in the form of words.Normal, until fn
// returns false.
func (t *Text) Each(s string, fn func(start, end int) bool) {
	n := len(t.units)
	if n == 0 {
		return
	}
	// One bit for each word of the sequence: set where the words up to it stand in a row before this place.
	var row uint64
	var starts [maxUnits]int // of the last words, by their number
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
