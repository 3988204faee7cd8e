// Package words cuts text into words and brings them into the one form in which they are indexed and
// looked for. It is the definition of what a word is (doc/search.md): whoever asks whether a text holds
// a word, with an index or without, asks it here.
//
// A word is a run of letters, digits and their marks. Case, accents, width and ligatures do not count.
// Scripts that write no blanks between words (Chinese, Japanese, Thai and their like), and Korean, whose
// particles hang on the word, are cut into letters; pairs of them are the terms, so that whatever stands
// in a text together is found together.
package words

import (
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// MaxTerm is the longest term in bytes. Of a longer word the beginning is the term.
const MaxTerm = 64

// Normal brings a text into the form that a Scanner reads (NFC). Nearly all text is in it.
func Normal(s string) string {
	for i := 0; i < len(s); i++ {
		if s[i] >= utf8.RuneSelf {
			if norm.NFC.IsNormalString(s[i:]) {
				return s
			}
			return norm.NFC.String(s)
		}
	}
	return s
}

// Scanner goes through the words of a text.
//
//	for s := words.Scan(text); s.Next(); {
//		use(s.Term)
//	}
type Scanner struct {
	text string
	pos  int

	// Term is the word in its one form, valid until Next. Of a run of letters without blanks it is a pair;
	// the last letter of the run comes once more alone.
	Term []byte
	// Start and End are where the word stands in the text; a pair, both its letters.
	Start, End int
	// Pos counts words, and the letters of runs.
	Pos int
	// Sure says that only case was changed. Cut says that the word is longer than its term.
	Sure, Cut bool
	// Gram marks a letter of a run, Last the last one.
	Gram, Last bool

	buf [MaxTerm + utf8.UTFMax]byte
	// the letter of a run that comes next, already folded
	held      bool
	heldText  string
	heldSure  bool
	heldStart int
	heldEnd   int
	begun     bool
}

// Scan begins with a text that is in the form of Normal.
func Scan(text string) *Scanner {
	s := &Scanner{}
	s.Reset(text)
	return s
}

// Reset begins again with another text.
func (s *Scanner) Reset(text string) {
	s.text, s.pos, s.held, s.begun, s.Pos = text, 0, false, false, 0
}

// Next goes to the next word and says whether there is one.
func (s *Scanner) Next() bool {
	if s.begun {
		s.Pos++
	}
	s.begun = true
	if s.held {
		return s.gram()
	}
	for s.pos < len(s.text) {
		c := s.text[s.pos]
		if c < utf8.RuneSelf {
			if asciiTable[c] != 0 {
				s.word()
				return true
			}
			s.pos++
			continue
		}
		r, n := utf8.DecodeRuneInString(s.text[s.pos:])
		switch f := fold(r); f.class {
		case classWord:
			s.word()
			return true
		case classGram:
			s.hold(f, s.pos, n)
			return s.gram()
		}
		s.pos += n
	}
	return false
}

// word reads a word whose first letter is at pos.
func (s *Scanner) word() {
	s.Start, s.Gram, s.Last, s.Sure, s.Cut = s.pos, false, false, true, false
	n, i, text := 0, s.pos, s.text
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

func (s *Scanner) hold(f folded, at, n int) {
	s.held, s.heldText, s.heldSure, s.heldStart, s.heldEnd = true, f.text, f.sure, at, at+n
	s.pos = at + n
}

// gram makes a pair of the letter that is held and the one behind it, or gives the last one alone.
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

// follow finds the letter that goes on a run. Marks that are dropped and invisible characters lie
// within, and so does one line break between letters of Chinese and Japanese, which programs put
// anywhere. clean says that nothing lay between.
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

// unspaced says whether a line of the rune's script may break between any two letters: Han, kana and what
// stands among them.
func unspaced(r rune) bool {
	return r >= 0x3005 && r <= 0x9fff || r >= 0xf900 && r <= 0xfaff || r >= 0xff66 && r <= 0xff9f || r >= 0x20000 && r <= 0x3ffff
}

// Fold is a word, or a piece of one, in the form of terms: what a Scanner would make of its letters if
// they were all one word. Anything between words is left out.
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

// IsGram says whether a term is of a run of letters without blanks.
func IsGram(term string) bool {
	r, _ := utf8.DecodeRuneInString(term)
	return r >= utf8.RuneSelf && fold(r).class == classGram
}
