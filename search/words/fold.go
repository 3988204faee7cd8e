package words

import (
	"sync/atomic"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// class is what a rune is to the splitter.
type class uint8

const (
	classGap    class = iota // stands between words
	classWord                // a letter or digit of a script that writes words apart
	classGram                // a letter of a script that does not
	classMark                // belongs to the letter before it, and adds nothing
	classIgnore              // invisible: neither ends a word nor adds to it
)

// folded is what becomes of a rune.
type folded struct {
	text  string
	class class
	// sure says that only case went: text is one rune that simple case folding makes equal to the rune.
	sure bool
}

// asciiTable gives the folded byte of ASCII letters and digits, 0 for what is none.
var asciiTable = func() (t [256]byte) {
	for c := byte('0'); c <= '9'; c++ {
		t[c] = c
	}
	for c := byte('a'); c <= 'z'; c++ {
		t[c], t[c-'a'+'A'] = c, c
	}
	return t
}()

// page is the folding of 256 runes.
type page [256]folded

// pages are the folded runes of the first plane, worked out when one of their 256 is met first.
var pages [256]atomic.Pointer[page]

// fold looks a rune up.
func fold(r rune) folded {
	if r > 0xffff {
		return compute(r)
	}
	p := pages[r>>8].Load()
	if p == nil {
		p = new(page)
		for i := range p {
			p[i] = compute(r&^0xff | rune(i))
		}
		pages[r>>8].Store(p)
	}
	return p[r&0xff]
}

// extra are letters that Unicode does not take apart, as those who lack the key write them.
var extra = map[rune]string{
	'ß': "ss", 'æ': "ae", 'œ': "oe", 'ø': "o", 'đ': "d", 'ð': "d", 'ł': "l", 'ı': "i", 'þ': "th", 'ħ': "h", 'ŧ': "t", 'ŋ': "n",
}

func compute(r rune) folded {
	c := classify(r)
	if c != classWord && c != classGram {
		return folded{class: c}
	}
	var out []rune
	for _, x := range norm.NFKD.String(string(r)) {
		if dropped(x) {
			continue
		}
		if s, ok := extra[lower(x)]; ok {
			out = append(out, []rune(s)...)
			continue
		}
		out = append(out, lower(x))
	}
	text := norm.NFC.String(string(out))
	for _, x := range text {
		// What falls apart into other than letters (㎏ does not, ½ does) is no word of its own.
		if k := classify(x); k == classGap || k == classIgnore {
			return folded{class: classGap}
		}
	}
	if text == "" {
		return folded{class: classMark}
	}
	one, n := utf8.DecodeRuneInString(text)
	if c == classWord && n == len(text) && classify(one) == classGram { // a compatibility letter
		c = classGram
	}
	return folded{text: text, class: c, sure: n == len(text) && sameLetter(one, r)}
}

// lower is the one letter for all that differ only in case.
func lower(r rune) rune {
	least := r
	for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
		if f < least && unicode.IsLetter(f) {
			least = f
		}
	}
	return unicode.ToLower(least)
}

// sameLetter says whether simple case folding makes two letters equal.
func sameLetter(a, b rune) bool {
	for f := unicode.SimpleFold(a); f != a && a != b; f = unicode.SimpleFold(f) {
		if f == b {
			return true
		}
	}
	return a == b
}

// dropped are the marks over and under letters of scripts that are read without them.
func dropped(r rune) bool {
	switch {
	case r >= 0x300 && r <= 0x36f, r >= 0x1ab0 && r <= 0x1aff, r >= 0x1dc0 && r <= 0x1dff, r >= 0x20d0 && r <= 0x20ff,
		r >= 0xfe20 && r <= 0xfe2f, r >= 0x483 && r <= 0x487:
		return true // of Latin, Greek, Cyrillic
	case r >= 0x591 && r <= 0x5bd, r == 0x5bf, r == 0x5c1, r == 0x5c2, r == 0x5c4, r == 0x5c5, r == 0x5c7:
		return true // points of Hebrew
	case r == 0xff9e, r == 0xff9f:
		return true // voice marks of half-width kana
	case r >= 0x610 && r <= 0x61a, r >= 0x64b && r <= 0x65f, r == 0x670, r >= 0x6d6 && r <= 0x6dc, r >= 0x6df && r <= 0x6e4,
		r == 0x6e7, r == 0x6e8, r >= 0x6ea && r <= 0x6ed, r == 0x640:
		return true // vowels of Arabic, and what only makes a word longer on paper
	}
	return false
}

// grams are the scripts that write no blanks between words, and Korean, which hangs its particles on them.
var grams = []*unicode.RangeTable{
	unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Bopomofo, unicode.Thai, unicode.Lao, unicode.Khmer,
	unicode.Myanmar, unicode.Yi,
}

func classify(r rune) class {
	switch {
	case r < utf8.RuneSelf:
		if asciiTable[r] != 0 {
			return classWord
		}
		return classGap
	case dropped(r):
		return classMark
	case r == 0x30fc || r == 0xff70 || r == 0x3005: // the sign that lengthens a vowel of kana, the one that repeats a Han letter
		return classGram
	case r == 0x200b: // where a line may break
		return classGap
	case unicode.Is(unicode.Cf, r), unicode.Is(unicode.Variation_Selector, r):
		return classIgnore
	case unicode.Is(unicode.L, r), unicode.Is(unicode.N, r), unicode.Is(unicode.M, r):
		if unicode.In(r, grams...) {
			return classGram
		}
		return classWord
	}
	return classGap
}
