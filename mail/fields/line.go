package fields

import (
	"strings"

	"doublet/wire/mime"
)

// DateFormat is the date format of RFC 5322 section 3.3.
const DateFormat = "Mon, 2 Jan 2006 15:04:05 -0700"

// maxLogged is the maximum length of an address or a reply in the log, in bytes.
const maxLogged = 300

// Logged shortens a foreign text for the log.
func Logged(s string) string { return s[:min(len(s), maxLogged)] }

// MessageID returns the Message-ID of a header with its angle brackets, or "" if it is missing, malformed, not ASCII or
// longer than 500 bytes.
func MessageID(header []byte) string {
	id, _ := mime.Get(header[:mime.HeaderEnd(header)], "Message-ID")
	if len(id) > 500 || !strings.HasPrefix(id, "<") || !strings.HasSuffix(id, ">") || !Ascii([]byte(id)) {
		return ""
	}
	return id
}

// Ascii reports whether b has only ASCII characters.
func Ascii(b []byte) bool {
	for _, c := range b {
		if c >= 0x80 {
			return false
		}
	}
	return true
}

// OneLine replaces control characters by blanks, so that they cannot end a line, and limits the length to 900 bytes.
func OneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
	return s[:min(len(s), 900)]
}
