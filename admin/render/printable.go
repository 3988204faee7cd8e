package render

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// printable writes the result of a verb, which can hold text from strangers (names, subjects, file names). It writes
// characters that a terminal would obey, or that change the order of the text, as \u{…}.
type printable struct{ w io.Writer }

func (p printable) Write(b []byte) (int, error) {
	if _, err := io.WriteString(p.w, plainText(string(b))); err != nil {
		return 0, err
	}
	return len(b), nil
}

// plainText returns a text without control characters, except line ends and tabs, and without those that change its
// direction.
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

// commands reports whether a character is a command to the terminal and not shown.
func commands(r rune) bool {
	return r != '\n' && r != '\t' && unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == 0x2028 ||
		r == 0x2029
}
