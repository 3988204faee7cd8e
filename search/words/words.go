// Package words splits text into words and normalizes them for indexing and searching. It defines what a word is
// (doc/search.md): with or without an index, all code that tests for words uses it.
//
// A word is a run of letters, digits and their marks. Case, accents, width and ligatures are ignored. Some scripts put
// no spaces between words (Chinese, Japanese, Thai and similar ones), and Korean attaches particles to words. Such text
// is split into letters, and the terms are pairs of adjacent letters (grams), so that any substring of it can be found.
package words

import (
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// MaxTerm is the maximum length of a term in bytes. A longer word is cut to its first MaxTerm bytes.
const MaxTerm = 64

// Normal returns a text in Unicode form NFC, which a Scanner requires. Most texts already have it.
func Normal(s string) string {
	i := asciiEnd(s)
	if i == len(s) || norm.NFC.IsNormalString(s[i:]) {
		return s
	}
	return norm.NFC.String(s)
}

// asciiEnd returns the offset of the first byte of s that is not ASCII, or len(s). It tests eight bytes at a time.
func asciiEnd(s string) int {
	i := 0
	for i+8 <= len(s) && (s[i]|s[i+1]|s[i+2]|s[i+3]|s[i+4]|s[i+5]|s[i+6]|s[i+7]) < utf8.RuneSelf {
		i += 8
	}
	for i < len(s) && s[i] < utf8.RuneSelf {
		i++
	}
	return i
}

// ASCII reports whether s is ASCII. The words of such a text are its runs of ASCII letters and digits.
func ASCII(s string) bool { return asciiEnd(s) == len(s) }

// WordByte reports whether an ASCII byte belongs to a word.
func WordByte(c byte) bool { return asciiTable[c] != 0 }

// Separates reports whether a rune separates words, wherever it is.
func Separates(r rune) bool { return fold(r).class == classGap }

// Scanner iterates over the words of a text.
//
//	for s := words.Scan(text); s.Next(); {
//		use(s.Term)
//	}
type Scanner struct {
	text string
	pos  int

	// Term is the normalized word, valid until Next. In a run of letters without spaces it is a pair of letters; after
	// the last pair, the last letter follows alone.
	Term []byte
	// Start and End are the word's position in the text. For a pair they include both letters.
	Start, End int
	// Pos is the number of the word; each letter of a run counts as a word.
	Pos int
	// Sure reports that normalization changed only the case. Cut reports that the word is longer than its term.
	Sure, Cut bool
	// Gram marks a term from a run; Last marks the last letter of the run.
	Gram, Last bool

	buf [MaxTerm + utf8.UTFMax]byte
	// The next letter of a run, already folded.
	held      bool
	heldText  string
	heldSure  bool
	heldStart int
	heldEnd   int
	begun     bool
}

// Scan returns a Scanner for a text in the form of Normal.
func Scan(text string) *Scanner {
	s := &Scanner{}
	s.Reset(text)
	return s
}

// Reset restarts the Scanner with another text.
func (s *Scanner) Reset(text string) {
	s.text, s.pos, s.held, s.begun, s.Pos = text, 0, false, false, 0
}

// Next moves to the next word and reports whether there is one.
func (s *Scanner) Next() bool {
	if s.begun {
		s.Pos++
	}
	s.begun = true
	if s.held {
		return s.gram()
	}
	text, i := s.text, s.pos
	for i < len(text) {
		c := text[i]
		if c < utf8.RuneSelf {
			if asciiTable[c] != 0 {
				s.pos = i
				s.word()
				return true
			}
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(text[i:])
		switch f := fold(r); f.class {
		case classWord:
			s.pos = i
			s.word()
			return true
		case classGram:
			s.hold(f, i, n)
			return s.gram()
		}
		i += n
	}
	s.pos = i
	return false
}

// word reads the word that starts at pos.
func (s *Scanner) word() {
	s.Start, s.Gram, s.Last, s.Sure, s.Cut = s.pos, false, false, true, false
	n, text := s.plain(), s.text
	i := s.pos + n
	end := i
	for i < len(text) {
		c := text[i]
		if c < utf8.RuneSelf {
			b := asciiTable[c]
			if b == 0 {
				break
			}
			if n < MaxTerm {
				s.buf[n] = b
				n++
			} else {
				s.Cut = true
			}
			i++
			end = i
			continue
		}
		r, w := utf8.DecodeRuneInString(text[i:])
		f := fold(r)
		if f.class == classGap || f.class == classGram {
			break
		}
		i += w
		switch {
		case f.class != classWord:
			s.Sure = false
			if f.class == classMark {
				end = i
			}
			continue
		case s.Cut || n+len(f.text) > MaxTerm:
			s.Cut = true
		default:
			n += copy(s.buf[n:], f.text)
		}
		s.Sure = s.Sure && f.sure
		end = i
	}
	s.Sure = s.Sure && !s.Cut
	s.pos, s.End, s.Term = i, end, s.buf[:n]
}

// plain reads the letters of the word up to the first that is not ASCII, and returns their number. Most words have no
// others.
func (s *Scanner) plain() int {
	text := s.text[s.pos:min(s.pos+MaxTerm, len(s.text))]
	for n := range len(text) {
		b := asciiTable[text[n]]
		if b == 0 {
			return n
		}
		s.buf[n] = b
	}
	return len(text)
}

func (s *Scanner) hold(f folded, at, n int) {
	s.held, s.heldText, s.heldSure, s.heldStart, s.heldEnd = true, f.text, f.sure, at, at+n
	s.pos = at + n
}

// gram returns the pair of the held letter and the next one, or the held letter alone at the end of the run.
func (s *Scanner) gram() bool {
	s.Gram, s.Cut, s.held = true, false, false
	s.Start, s.End, s.Sure = s.heldStart, s.heldEnd, s.heldSure
	n := copy(s.buf[:], s.heldText)
	f, at, w, clean := s.follow()
	s.Last = f.class != classGram
	if !s.Last {
		n += copy(s.buf[n:], f.text)
		s.Sure = s.Sure && f.sure && clean
		s.End = at + w
		s.hold(f, at, w)
	}
	s.Term = s.buf[:n]
	return true
}

// follow finds the next letter of a run. It skips dropped marks and invisible characters. It also skips one line break
// between Chinese or Japanese letters, because programs wrap lines anywhere in such text. clean reports that it skipped
// nothing.
func (s *Scanner) follow() (f folded, at, w int, clean bool) {
	at, clean = s.pos, true
	lines := 0
	for at < len(s.text) {
		c := s.text[at]
		if c == '\n' || c == '\r' && at+1 < len(s.text) && s.text[at+1] == '\n' {
			if c == '\n' {
				lines++
			}
			clean = false
			at++
			continue
		}
		var r rune
		r, w = utf8.DecodeRuneInString(s.text[at:])
		f = fold(r)
		if f.class == classMark || f.class == classIgnore {
			clean = false
			at += w
			continue
		}
		if f.class == classGram && (lines == 0 || lines == 1 && unspaced(r) && unspaced(s.heldRune())) {
			return f, at, w, clean
		}
		break
	}
	return folded{}, at, 0, clean
}

func (s *Scanner) heldRune() rune {
	r, _ := utf8.DecodeRuneInString(s.text[s.heldStart:])
	return r
}

// unspaced reports whether lines may break between any two letters of the rune's script: Han, kana and the signs used
// with them.
func unspaced(r rune) bool {
	return r >= 0x3005 && r <= 0x9fff || r >= 0xf900 && r <= 0xfaff || r >= 0xff66 && r <= 0xff9f || r >= 0x20000 &&
		r <= 0x3ffff
}

// Fold returns a word, or a part of one, in the form of a term, as if all its letters were one word. It drops all
// characters that separate words.
func Fold(s string) string {
	var b []byte
	for _, r := range Normal(s) {
		if r < utf8.RuneSelf {
			if c := asciiTable[r]; c != 0 {
				b = append(b, c)
			}
		} else {
			b = append(b, fold(r).text...)
		}
	}
	return string(b)
}

// IsGram reports whether a term is from a run of letters without spaces.
func IsGram(term string) bool {
	r, _ := utf8.DecodeRuneInString(term)
	return r >= utf8.RuneSelf && fold(r).class == classGram
}
