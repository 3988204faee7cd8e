package mime

import (
	"strings"
	"unicode/utf8"
)

// DecodeWords decodes the encoded words (RFC 2047) of an unfolded header value into UTF-8. It removes blanks between
// adjacent words. If their charset is the same, it joins their bytes before decoding, because some programs split
// characters. Malformed words stay as they are. 8-bit text outside words is UTF-8 (RFC 6532), else Windows-1252. The
// result is valid UTF-8.
func DecodeWords(s string) string {
	i := strings.Index(s, "=?")
	if i < 0 {
		return cleanText(s)
	}
	d := wordDecoder{out: make([]byte, 0, len(s))}
	for {
		w, ok := wordAt(s, i)
		if !ok {
			n := strings.Index(s[i+2:], "=?")
			if n < 0 {
				break
			}
			i += 2 + n
			continue
		}
		between := s[:i]
		if !d.open || strings.Trim(between, " \t\r\n") != "" {
			d.flush()
			d.out = append(d.out, cleanText(between)...)
		} else if !strings.EqualFold(d.charset, w.charset) {
			d.flush()
		}
		d.charset, d.open = w.charset, true
		if w.base64 {
			d.bytes = AppendBase64(d.bytes, []byte(w.text), -1)
		} else {
			d.bytes = appendQ(d.bytes, w.text)
		}
		s = s[w.end:]
		if i = strings.Index(s, "=?"); i < 0 {
			break
		}
	}
	d.flush()
	d.out = append(d.out, cleanText(s)...)
	return string(d.out)
}

// cleanText returns s as valid UTF-8.
func cleanText(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return toUTF8([]byte(s), "")
}

// wordDecoder collects the bytes of adjacent words of one charset.
type wordDecoder struct {
	out, bytes []byte
	charset    string
	open       bool // the previous token was a word
}

func (d *wordDecoder) flush() {
	if len(d.bytes) > 0 {
		d.out = append(d.out, toUTF8(d.bytes, d.charset)...)
		d.bytes = d.bytes[:0]
	}
	d.open = false
}

// encodedWord is =?charset?Q|B?text?=; end is the offset after it.
type encodedWord struct {
	charset, text string
	base64        bool
	end           int
}

// maxCharset is the maximum length of a charset name with its language tag (RFC 2231 section 5).
const maxCharset = 80

// wordAt parses the encoded word at s[i:], which starts with "=?".
func wordAt(s string, i int) (w encodedWord, ok bool) {
	pos := i + 2
	n := strings.IndexByte(s[pos:min(pos+maxCharset, len(s))], '?')
	if n <= 0 {
		return w, false
	}
	w.charset = s[pos : pos+n]
	if strings.ContainsAny(w.charset, " \t=") {
		return w, false
	}
	w.charset, _, _ = strings.Cut(w.charset, "*")
	pos += n + 1
	if pos+1 >= len(s) || s[pos+1] != '?' {
		return w, false
	}
	switch s[pos] {
	case 'B', 'b':
		w.base64 = true
	case 'Q', 'q':
	default:
		return w, false
	}
	pos += 2
	n = strings.IndexByte(s[pos:], '?') // '?' is not allowed in the text
	if n < 0 || pos+n+1 >= len(s) || s[pos+n+1] != '=' {
		return w, false
	}
	w.text, w.end = s[pos:pos+n], pos+n+2
	return w, true
}

// appendQ decodes the Q encoding.
func appendQ(dst []byte, s string) []byte {
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '_':
			dst = append(dst, ' ')
		case c == '=' && i+2 < len(s) && unhex(s[i+1]) < 16 && unhex(s[i+2]) < 16:
			dst = append(dst, unhex(s[i+1])<<4|unhex(s[i+2]))
			i += 2
		default:
			dst = append(dst, c)
		}
	}
	return dst
}
