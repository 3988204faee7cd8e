package mail

import (
	"strings"

	"doublet/note"
	"doublet/wire/mime"
)

// dateFormat is RFC 5322 section 3.3's.
const dateFormat = "Mon, 2 Jan 2006 15:04:05 -0700"

func appendHex(dst []byte, id note.UNID) []byte {
	const digits = "0123456789abcdef"
	for _, b := range id {
		dst = append(dst, digits[b>>4], digits[b&15])
	}
	return dst
}

// bounded cuts what others have chosen.
func bounded(s string) string { return s[:min(len(s), journalText)] }

func messageID(header []byte) string {
	id, _ := mime.Get(header[:mime.HeaderEnd(header)], "Message-ID")
	if len(id) > 500 || !strings.HasPrefix(id, "<") || !strings.HasSuffix(id, ">") || !ascii([]byte(id)) {
		return ""
	}
	return id
}

func ascii(b []byte) bool {
	for _, c := range b {
		if c >= 0x80 {
			return false
		}
	}
	return true
}

// oneLine keeps what could end a line out of a report, and bounds it.
func oneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
	return s[:min(len(s), 900)]
}
