package scram

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Prepare normalizes a password or user name similarly to SASLprep (RFC 4013). It removes characters that are commonly
// mapped to nothing, replaces other spaces with the ASCII space, and applies Unicode normalization form KC. Text that
// SASLprep prohibits (control characters, private use and others), or that is not UTF-8, is used unchanged, as in
// PostgreSQL: such a password still works, the same way in all protocols. Unlike RFC 4013, it uses current Unicode
// tables and accepts mixed text directions.
func Prepare(s string) string {
	ascii := true
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			ascii = false
			break
		}
	}
	if ascii || !utf8.ValidString(s) {
		return s
	}
	mapped := strings.Map(func(r rune) rune {
		switch {
		case nothing(r):
			return -1
		case r > ' ' && unicode.Is(unicode.Zs, r) || r == 0x200b:
			return ' '
		}
		return r
	}, s)
	out := norm.NFKC.String(mapped)
	if strings.IndexFunc(out, forbidden) >= 0 {
		return s
	}
	return out
}

// nothing reports whether r is in RFC 3454 table B.1. U+200B is in two tables; RFC 4013 maps it to a space first.
func nothing(r rune) bool {
	switch r {
	case 0xad, 0x34f, 0x1806, 0x180b, 0x180c, 0x180d, 0x200c, 0x200d, 0x2060, 0xfeff:
		return true
	}
	return 0xfe00 <= r && r <= 0xfe0f
}

// prohibited holds the ranges of RFC 4013 section 2.3 that no category of Unicode holds.
var prohibited = [][2]rune{
	{0x340, 0x341}, {0x6dd, 0x6dd}, {0x70f, 0x70f}, {0x180e, 0x180e}, {0x200e, 0x200f}, {0x2028, 0x202e},
	{0x2061, 0x206f}, {0x2ff0, 0x2ffb}, {0xfdd0, 0xfdef}, {0xfff9, 0xfffd}, {0x1d173, 0x1d17a}, {0xe0001, 0xe007f},
}

// forbidden reports whether RFC 4013 section 2.3 prohibits r.
func forbidden(r rune) bool {
	return unicode.In(r, unicode.Cc, unicode.Co) || r&0xfffe == 0xfffe ||
		slices.ContainsFunc(prohibited, func(x [2]rune) bool { return x[0] <= r && r <= x[1] })
}
