package jmap

import (
	"strconv"
	"time"
	"unicode/utf8"
	"unsafe"
)

const hexDigits = "0123456789abcdef"

// plain are the octets that stand in a string as they are.
var plain = func() (t [256]bool) {
	for c := 0x20; c < 0x80; c++ {
		t[c] = c != '"' && c != '\\' && c != 0x7f
	}
	return t
}()

// AppendString prints a string. What is not UTF-8 becomes U+FFFD. U+2028 and U+2029, which end lines in a script, are
// escaped.
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

// QuotedLenBytes is QuotedLen for octets.
func QuotedLenBytes(s []byte) int { return QuotedLen(unsafe.String(unsafe.SliceData(s), len(s))) }

// QuotedLen returns the number of octets that AppendString prints for s.
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

// AppendBytes is AppendString for octets.
func AppendBytes(dst, s []byte) []byte {
	// The string lives no longer than the call, and nothing writes to s meanwhile.
	return AppendString(dst, unsafe.String(unsafe.SliceData(s), len(s)))
}

// AppendBool prints a truth value.
func AppendBool(dst []byte, on bool) []byte {
	if on {
		return append(dst, "true"...)
	}
	return append(dst, "false"...)
}

// AppendUint prints a number.
func AppendUint(dst []byte, n uint64) []byte { return strconv.AppendUint(dst, n, 10) }

// AppendUTCDate prints a moment as UTCDate (RFC 8620 section 1.4), in quotes.
//
// Implements: RFC 8620 §1.4 Date and UTCDate
func AppendUTCDate(dst []byte, t time.Time) []byte {
	return append(AppendDate(append(dst, '"'), t.UTC()), '"')
}

// AppendQuotedDate prints a moment as Date, with its zone, in quotes.
func AppendQuotedDate(dst []byte, t time.Time) []byte {
	return append(AppendDate(append(dst, '"'), t), '"')
}

// AppendDate prints a moment as RFC 3339 does with "T" and whole seconds, with the zone that it has; years beyond what
// the format holds as the first or last one.
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
		return append(dst, '0'+byte(y/1000), '0'+byte(y/100%10), '0'+byte(y/10%10), '0'+byte(y%10), '-', '0'+byte(mo/10), '0'+byte(mo%10), '-', '0'+byte(d/10), '0'+byte(d%10),
			'T', '0'+byte(h/10), '0'+byte(h%10), ':', '0'+byte(mi/10), '0'+byte(mi%10), ':', '0'+byte(s/10), '0'+byte(s%10), 'Z')
	}
	return t.AppendFormat(dst, "2006-01-02T15:04:05-07:00")
}

// ParseDate reads a Date or UTCDate.
func ParseDate(s string, utc bool) (time.Time, bool) {
	if len(s) < len("2006-01-02T15:04:05Z") || s[10] != 'T' || utc && s[len(s)-1] != 'Z' {
		return time.Time{}, false
	}
	t, err := time.Parse(time.RFC3339, s)
	return t, err == nil
}

// ValidID says whether a string can be an Id (RFC 8620 section 1.2).
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
