package mime

import (
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/simplifiedchinese"
)

// moreCharsets has charset names that mail uses but the WHATWG index lacks or maps to no decoder.
var moreCharsets = map[string]encoding.Encoding{
	"hz-gb-2312": simplifiedchinese.HZGB2312,
	"cp437":      charmap.CodePage437, "ibm437": charmap.CodePage437,
	"cp850": charmap.CodePage850, "ibm850": charmap.CodePage850,
	"cp852": charmap.CodePage852, "ibm852": charmap.CodePage852,
	"cp858": charmap.CodePage858, "cp865": charmap.CodePage865,
	"cp932":    japanese.ShiftJIS,
	"cp1252":   charmap.Windows1252,
	"ansi":     charmap.Windows1252,
	"latin-1":  charmap.Windows1252,
	"8bit":     charmap.Windows1252,
	"iso8859":  charmap.Windows1252,
	"cp-850":   charmap.CodePage850,
	"x-cp1251": charmap.Windows1251,
}

// lookupCharset returns the decoder of a charset, nil for an unknown name.
func lookupCharset(name string) encoding.Encoding {
	name = strings.ToLower(strings.Trim(name, " \t\"'"))
	if e := moreCharsets[name]; e != nil {
		return e
	}
	e, err := htmlindex.Get(name)
	if err != nil {
		return nil
	}
	return e
}

// UnknownCharset reports whether charset is unknown, so that its text is decoded by guessing.
func UnknownCharset(charset string) bool {
	return !isUTF8Name(charset) && lookupCharset(charset) == nil
}

// isUTF8Name reports whether text with this charset name is first tried as UTF-8. Text declared as ASCII, or not at
// all, is often UTF-8.
func isUTF8Name(charset string) bool {
	switch len(charset) {
	case 0:
		return true
	case 4:
		return strings.EqualFold(charset, "utf8")
	case 5:
		return strings.EqualFold(charset, "utf-8") || strings.EqualFold(charset, "ascii")
	case 8:
		return strings.EqualFold(charset, "us-ascii")
	}
	return strings.EqualFold(charset, "unknown-8bit")
}

// stateful reports whether ASCII bytes may have another meaning in a charset.
func stateful(charset string) bool {
	if len(charset) < 3 {
		return false
	}
	switch lowerByte(charset[0]) {
	case 'i', 'c': // iso-2022-…, csiso2022…
		return strings.Contains(charset, "2022")
	case 'h':
		return true
	case 'u':
		return !isUTF8Name(charset)
	}
	return false
}

// toUTF8 converts b to UTF-8. The result is always valid UTF-8. Bytes of an unknown charset that are not UTF-8 are
// decoded as Windows-1252, the superset of Latin-1 that web browsers use.
func toUTF8(b []byte, charset string) string {
	if ascii(b) && !stateful(charset) {
		return string(b)
	}
	if isUTF8Name(charset) {
		if utf8.Valid(b) {
			return string(b)
		}
		if strings.EqualFold(charset, "utf-8") || strings.EqualFold(charset, "utf8") {
			return strings.ToValidUTF8(string(b), "\ufffd")
		}
	} else if e := lookupCharset(charset); e != nil {
		if out, err := e.NewDecoder().Bytes(b); err == nil {
			return strings.ToValidUTF8(string(out), "\ufffd")
		}
	} else if utf8.Valid(b) {
		return string(b)
	}
	out, err := charmap.Windows1252.NewDecoder().Bytes(b)
	if err != nil {
		return strings.ToValidUTF8(string(b), "\ufffd")
	}
	return string(out)
}

// ascii reports whether b is ASCII. It tests eight bytes at a time.
func ascii[T []byte | string](b T) bool {
	for len(b) >= 8 {
		if (b[0]|b[1]|b[2]|b[3]|b[4]|b[5]|b[6]|b[7])&0x80 != 0 {
			return false
		}
		b = b[8:]
	}
	for i := range len(b) {
		if b[i] >= 0x80 {
			return false
		}
	}
	return true
}
