package fields

import (
	"encoding/base64"
	"strings"
	"unicode/utf8"
)

// DisplayName is a name for before an address: quoted where it is ASCII, else in encoded words.
func DisplayName(name string) string {
	name = OneLine(name)
	if !Ascii([]byte(name)) {
		return Encode(name)
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(name) + `"`
}

// Encode is text for an unstructured field: as it is where it is short ASCII, else in encoded
// words (RFC 2047) of which each holds whole characters, folded.
func Encode(s string) string {
	s = OneLine(s)
	if Ascii([]byte(s)) && !strings.Contains(s, "=?") && len(s) <= 900 {
		return s
	}
	const most = 45 // bytes in a word: 60 of base64, 75 in all
	var b strings.Builder
	for len(s) > 0 {
		n := min(most, len(s))
		for n > 0 && n < len(s) && !utf8.RuneStart(s[n]) {
			n--
		}
		if n == 0 {
			n = min(most, len(s))
		}
		if b.Len() > 0 {
			b.WriteString("\r\n ")
		}
		b.WriteString("=?utf-8?B?" + base64.StdEncoding.EncodeToString([]byte(s[:n])) + "?=")
		s = s[n:]
	}
	return b.String()
}
