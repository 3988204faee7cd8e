package jmap

import (
	"strconv"
	"time"
	"unicode/utf8"
	"unsafe"
)

const hexDigits = "0123456789abcdef"

// plain marks the octets that need no escape in a string.
var plain = func() (t [256]bool) {
	for c := 0x20; c < 0x80; c++ {
		t[c] = c != '"' && c != '\\' && c != 0x7f
	}
	return t
}()

// AppendString appends a string in quotes. Invalid UTF-8 becomes U+FFFD. U+2028 and U+2029 are escaped, because they
// end lines in JavaScript.
func AppendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if plain[c] {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if (r != utf8.RuneError || n > 1) && r != 0x2028 && r != 0x2029 {
				i += n
				continue
			}
			dst = append(dst, s[start:i]...)
			if r == utf8.RuneError {
				dst = append(dst, "\ufffd"...)
			} else {
				dst = append(dst, `\u202`...)
				dst = append(dst, hexDigits[r&15])
			}
			i += n
			start = i
			continue
		}
		dst = append(dst, s[start:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
		i++
		start = i
	}
	return append(append(dst, s[start:]...), '"')
}

// QuotedLenBytes is QuotedLen for a byte slice.
func QuotedLenBytes(s []byte) int { return QuotedLen(unsafe.String(unsafe.SliceData(s), len(s))) }

// QuotedLen returns the number of octets that AppendString appends for s.
func QuotedLen(s string) int {
	n := 2
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case plain[c]:
			n++
		case c >= utf8.RuneSelf:
			r, size := utf8.DecodeRuneInString(s[i:])
			switch {
			case r == utf8.RuneError && size == 1:
				n += len("\ufffd")
			case r == 0x2028 || r == 0x2029:
				n += len(`\u2028`)
			default:
				n += size
			}
			i += size
			continue
		case c == '"', c == '\\', c == '\n', c == '\r', c == '\t':
			n += 2
		default:
			n += len(`\u0000`)
		}
		i++
	}
	return n
}

// AppendBytes is AppendString for a byte slice.
func AppendBytes(dst, s []byte) []byte {
	// Safe: the string is not used after the call, and nothing changes s meanwhile.
	return AppendString(dst, unsafe.String(unsafe.SliceData(s), len(s)))
}

// AppendBool appends a boolean.
func AppendBool(dst []byte, on bool) []byte {
	if on {
		return append(dst, "true"...)
	}
	return append(dst, "false"...)
}

// AppendUint appends a number.
func AppendUint(dst []byte, n uint64) []byte { return strconv.AppendUint(dst, n, 10) }

// AppendUTCDate appends a time as a UTCDate (RFC 8620 section 1.4), in quotes.
//
// Implements: RFC 8620 §1.4 Date and UTCDate
func AppendUTCDate(dst []byte, t time.Time) []byte {
	return append(AppendDate(append(dst, '"'), t.UTC()), '"')
}

// AppendQuotedDate appends a time as a Date, with its zone, in quotes.
func AppendQuotedDate(dst []byte, t time.Time) []byte {
	return append(AppendDate(append(dst, '"'), t), '"')
}

// AppendDate appends a time in the format of RFC 3339 with "T" and whole seconds, in its own zone. Years outside 0 to
// 9999, which the format cannot hold, become the first or last moment of that range.
func AppendDate(dst []byte, t time.Time) []byte {
	switch y := t.Year(); {
	case y < 0:
		t = time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC)
	case y > 9999:
		t = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
	}
	if _, offset := t.Zone(); offset == 0 {
		y, mo, d := t.Date()
		h, mi, s := t.Clock()
		return append(dst, '0'+byte(y/1000), '0'+byte(y/100%10), '0'+byte(y/10%10), '0'+byte(y%10), '-',
			'0'+byte(mo/10), '0'+byte(mo%10), '-', '0'+byte(d/10), '0'+byte(d%10),
			'T', '0'+byte(h/10), '0'+byte(h%10), ':', '0'+byte(mi/10), '0'+byte(mi%10), ':', '0'+byte(s/10),
			'0'+byte(s%10), 'Z')
	}
	return t.AppendFormat(dst, "2006-01-02T15:04:05-07:00")
}

// ParseDate parses a Date, or a UTCDate if utc is set.
func ParseDate(s string, utc bool) (time.Time, bool) {
	if len(s) < len("2006-01-02T15:04:05Z") || s[10] != 'T' || utc && s[len(s)-1] != 'Z' {
		return time.Time{}, false
	}
	t, err := time.Parse(time.RFC3339, s)
	return t, err == nil
}

// ValidID reports whether a string is a valid Id (RFC 8620 section 1.2).
//
// Implements: RFC 8620 §1.2 Id
func ValidID(s string) bool {
	if s == "" || len(s) > 255 {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if !('a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '_') {
			return false
		}
	}
	return true
}
