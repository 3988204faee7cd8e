package fields

import (
	"encoding/base64"
	"strings"
	"unicode/utf8"
)

// DisplayName returns a display name for an address: a quoted string if it is ASCII, else encoded words.
func DisplayName(name string) string {
	name = OneLine(name)
	if !Ascii([]byte(name)) {
		return Encode(name)
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(name) + `"`
}

// Encode returns a text for an unstructured field: unchanged if it is short ASCII, else as folded encoded words (RFC
// 2047) that do not split characters.
func Encode(s string) string {
	s = OneLine(s)
	if Ascii([]byte(s)) && !strings.Contains(s, "=?") && len(s) <= 900 {
		return s
	}
	const most = 45 // bytes per word: 60 in base64, 75 with the delimiters
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
