package main

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// printable writes the result of a verb, in which strangers' text may stand (names, subjects, file names). What would make a
// terminal do something, or show the text in another order than it has, is written as \u{…}.
type printable struct{ w io.Writer }

func (p printable) Write(b []byte) (int, error) {
	if _, err := io.WriteString(p.w, plainText(string(b))); err != nil {
		return 0, err
	}
	return len(b), nil
}

// plainText returns a text without control characters, but for line ends and tabs, and without those that change its direction.
func plainText(s string) string {
	if !strings.ContainsFunc(s, commands) && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], "\ufffd"):
			fmt.Fprintf(&b, "\\x%02x", s[i])
		case r == '\r' && strings.HasPrefix(s[i:], "\r\n"):
			b.WriteRune(r)
		case commands(r):
			fmt.Fprintf(&b, "\\u{%x}", r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// commands reports that a character is obeyed and not shown.
func commands(r rune) bool {
	return r != '\n' && r != '\t' && unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == 0x2028 || r == 0x2029
}
