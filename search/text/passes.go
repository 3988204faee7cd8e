package text

import (
	"strings"

	"doublet/search/words"
	"doublet/wire/mime"

	"golang.org/x/net/html"
)

// Test is a test of texts, for Passes.
type Test struct {
	Fields Field
	// In reports whether a text passes.
	In func(string) bool
	// Word, if not empty, is such that every text that passes contains a word that begins with it or, if the text is
	// not ASCII, one like it. It consists of ASCII letters in lower case and digits.
	Word string
}

// expansion is more than the factor by which decoding, charsets and normalization can make a text longer.
const expansion = 16

// Passes reports whether a stretch of the message, without slow attachments, is in one of the fields of a test and
// passes it. later is Document.Later, unless the message passes. It is faster than to look at all of Message, because
// it ends at the first such stretch, and does not read the text of parts that lack the word.
func Passes(raw []byte, l Limits, t *Test) (ok bool, later int) {
	l = l.filled()
	r := reader{raw: raw, l: l, d: &Document{}, left: l.Message, test: t}
	// A part that is not read does not count against the limits, so none of them may be near.
	r.skips = t.Word != "" && len(raw) <= min(l.Part, l.Message)/expansion
	r.read()
	return r.found, r.d.Later
}

// lacks reports whether the text of a part, or its source if it is HTML, certainly lacks the word of the test.
func (r *reader) lacks(s string, isHTML bool) bool {
	if !r.skips || !words.ASCII(s) || mime.IndexASCII(s, r.test.Word) >= 0 {
		return false
	}
	return !isHTML || !divided(s, r.test.Word) && !referred(s)
}

// divided reports whether a tag may divide a word that begins with word in the source of HTML: the first piece of it is
// before a tag.
func divided(s, word string) bool {
	for at := 0; ; at++ {
		n := strings.IndexByte(s[at:], '<')
		if n < 0 {
			return false
		}
		at += n
		start := at
		for start > 0 && words.WordByte(s[start-1]) {
			start--
		}
		if n := at - start; n > 0 && n < len(word) && strings.EqualFold(s[start:at], word[:n]) {
			return true
		}
	}
}

// referred reports whether a character reference in the source of HTML may belong to a word. Most of them are spaces
// and quotation marks, which separate words.
func referred(s string) bool {
	for {
		n := strings.IndexByte(s, '&')
		if n < 0 {
			return false
		}
		s = s[n:]
		end := 1
		for end < len(s) && (words.WordByte(s[end]) || s[end] == '#') {
			end++
		}
		ref := s[:end]
		s = s[end:]
		if strings.HasPrefix(s, ";") {
			ref += ";"
		}
		if shown := html.UnescapeString(ref); shown != ref {
			for _, c := range shown {
				if !words.Separates(c) || filler(c) {
					return true
				}
			}
		}
	}
}
