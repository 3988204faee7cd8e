package words

import (
	"sync/atomic"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// class is the role of a rune in splitting text.
type class uint8

const (
	classGap    class = iota // separates words
	classWord                // letter or digit of a script with spaces between words
	classGram                // letter of a script without spaces between words
	classMark                // belongs to the preceding letter and is dropped
	classIgnore              // invisible: neither ends a word nor adds to it
)

// folded is the normalized form of a rune.
type folded struct {
	text  string
	class class
	// sure reports that only the case changed: text is a single rune that equals the original under simple case
	// folding.
	sure bool
}

// asciiTable maps ASCII letters and digits to their folded byte, and all other bytes to 0.
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

// pages caches the folding of the Basic Multilingual Plane. A page is computed when one of its 256 runes is first used.
var pages [256]atomic.Pointer[page]

// fold returns the folding of a rune.
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

// extra maps letters that Unicode does not decompose to their usual replacements on keyboards without the key.
var extra = map[rune]string{
	'ß': "ss", 'æ': "ae", 'œ': "oe", 'ø': "o", 'đ': "d", 'ð': "d", 'ł': "l", 'ı': "i", 'þ': "th", 'ħ': "h",
	'ŧ': "t", 'ŋ': "n",
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
		// A rune that decomposes into non-letters, such as ½ (but not ㎏), is not part of a word.
		if k := classify(x); k == classGap || k == classIgnore {
			return folded{class: classGap}
		}
	}
	if text == "" {
		return folded{class: classMark}
	}
	one, n := utf8.DecodeRuneInString(text)
	if c == classWord && n == len(text) && classify(one) == classGram { // a compatibility character
		c = classGram
	}
	return folded{text: text, class: c, sure: n == len(text) && sameLetter(one, r)}
}

// lower maps all letters that differ only in case to the same letter.
func lower(r rune) rune {
	least := r
	for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
		if f < least && unicode.IsLetter(f) {
			least = f
		}
	}
	return unicode.ToLower(least)
}

// sameLetter reports whether two letters are equal under simple case folding.
func sameLetter(a, b rune) bool {
	for f := unicode.SimpleFold(a); f != a && a != b; f = unicode.SimpleFold(f) {
		if f == b {
			return true
		}
	}
	return a == b
}

// dropped reports whether r is a mark that readers of its script treat as optional.
func dropped(r rune) bool { return r >= 0x300 && unicode.Is(optionalMarks, r) }

var optionalMarks = &unicode.RangeTable{R16: []unicode.Range16{
	{Lo: 0x300, Hi: 0x36f, Stride: 1}, // combining marks of Latin, Greek and Cyrillic
	{Lo: 0x483, Hi: 0x487, Stride: 1},
	{Lo: 0x591, Hi: 0x5bd, Stride: 1}, // points of Hebrew
	{Lo: 0x5bf, Hi: 0x5bf, Stride: 1},
	{Lo: 0x5c1, Hi: 0x5c2, Stride: 1},
	{Lo: 0x5c4, Hi: 0x5c5, Stride: 1},
	{Lo: 0x5c7, Hi: 0x5c7, Stride: 1},
	{Lo: 0x610, Hi: 0x61a, Stride: 1}, // vowel marks of Arabic, and the kashida
	{Lo: 0x640, Hi: 0x640, Stride: 1},
	{Lo: 0x64b, Hi: 0x65f, Stride: 1},
	{Lo: 0x670, Hi: 0x670, Stride: 1},
	{Lo: 0x6d6, Hi: 0x6dc, Stride: 1},
	{Lo: 0x6df, Hi: 0x6e4, Stride: 1},
	{Lo: 0x6e7, Hi: 0x6e8, Stride: 1},
	{Lo: 0x6ea, Hi: 0x6ed, Stride: 1},
	{Lo: 0x1ab0, Hi: 0x1aff, Stride: 1}, // combining marks again
	{Lo: 0x1dc0, Hi: 0x1dff, Stride: 1},
	{Lo: 0x20d0, Hi: 0x20ff, Stride: 1},
	{Lo: 0xfe20, Hi: 0xfe2f, Stride: 1},
	{Lo: 0xff9e, Hi: 0xff9f, Stride: 1}, // voice marks of half-width kana
}}

// grams lists the scripts without spaces between words, and Korean, which attaches particles to words.
var grams = []*unicode.RangeTable{
	unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Bopomofo, unicode.Thai, unicode.Lao,
	unicode.Khmer,
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
	case r == 0x30fc || r == 0xff70 || r == 0x3005: // prolonged sound marks of kana, iteration mark of Han
		return classGram
	case r == 0x200b: // zero width space: a line may break here
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
