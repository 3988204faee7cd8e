package mime

import "bytes"

// Encoding is a content transfer encoding (RFC 2045 section 6).
type Encoding uint8

// The encodings.
const (
	Encoding7Bit Encoding = iota
	Encoding8Bit
	EncodingBinary
	EncodingQuotedPrintable
	EncodingBase64
	EncodingUnknown
)

// EncodingOf returns the encoding with a name in lower case, or EncodingUnknown.
func EncodingOf(name string) Encoding {
	switch name {
	case "", "7bit", "7-bit":
		return Encoding7Bit
	case "8bit", "8-bit":
		return Encoding8Bit
	case "binary":
		return EncodingBinary
	case "quoted-printable":
		return EncodingQuotedPrintable
	case "base64":
		return EncodingBase64
	}
	return EncodingUnknown
}

// AppendDecoded appends at most limit bytes (all if limit is negative) of the decoded body. From malformed encodings it
// decodes as much as possible. ok is false for EncodingUnknown, and nothing is appended (IMAP answers UNKNOWN-CTE).
func AppendDecoded(dst, body []byte, e Encoding, limit int) (out []byte, ok bool) {
	switch e {
	case EncodingUnknown:
		return dst, false
	case EncodingBase64:
		return AppendBase64(dst, body, limit), true
	case EncodingQuotedPrintable:
		return AppendQuotedPrintable(dst, body, limit), true
	}
	if limit >= 0 && len(body) > limit {
		body = body[:limit]
	}
	return append(dst, body...), true
}

// base64Value maps a letter to its 6 bits, other bytes to 0xff.
var base64Value = func() (t [256]byte) {
	for i := range t {
		t[i] = 0xff
	}
	for i := range len(base64Letters) {
		t[base64Letters[i]] = byte(i)
	}
	return t
}()

const base64Letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

// AppendBase64 appends at most limit bytes (all if negative) of the data encoded in src. It skips letters outside the
// alphabet (RFC 2045 section 6.8). More data may follow padding.
func AppendBase64(dst, src []byte, limit int) []byte {
	stop := len(dst) + limit
	if limit < 0 {
		stop = len(dst) + len(src)
	}
	var bits uint32
	n := 0
	for i := 0; i < len(src) && len(dst) < stop; {
		if n == 0 && i+4 <= len(src) {
			a, b, c, d := base64Value[src[i]], base64Value[src[i+1]], base64Value[src[i+2]], base64Value[src[i+3]]
			if a|b|c|d < 64 {
				v := uint32(a)<<18 | uint32(b)<<12 | uint32(c)<<6 | uint32(d)
				dst = append(dst, byte(v>>16), byte(v>>8), byte(v))
				i += 4
				continue
			}
		}
		c := src[i]
		i++
		switch v := base64Value[c]; {
		case v < 64:
			bits = bits<<6 | uint32(v)
			if n++; n == 4 {
				dst = append(dst, byte(bits>>16), byte(bits>>8), byte(bits))
				n, bits = 0, 0
			}
		case c == '=':
			dst = appendTail(dst, bits, n)
			n, bits = 0, 0
		}
	}
	dst = appendTail(dst, bits, n)
	return dst[:min(len(dst), stop)]
}

// appendTail appends the whole bytes in the first n letters of a group.
func appendTail(dst []byte, bits uint32, n int) []byte {
	switch n {
	case 2:
		return append(dst, byte(bits>>4))
	case 3:
		return append(dst, byte(bits>>10), byte(bits>>2))
	}
	return dst
}

// AppendQuotedPrintable appends at most limit bytes (all if negative) of the data encoded in src (RFC 2045 section
// 6.7). An equals sign without two digits stays; blanks at line ends are removed.
func AppendQuotedPrintable(dst, src []byte, limit int) []byte {
	stop := len(dst) + limit
	if limit < 0 {
		stop = len(dst) + len(src)
	}
	for len(src) > 0 && len(dst) < stop {
		line, broken := src, false
		if i := bytes.IndexByte(src, '\n'); i >= 0 {
			line, src, broken = src[:i], src[i+1:], true
		} else {
			src = nil
		}
		full := line
		line = bytes.TrimRight(line, " \t\r")
		soft := len(line) > 0 && line[len(line)-1] == '='
		if soft {
			line = line[:len(line)-1]
		}
		dst = appendEscaped(dst, line)
		if broken && !soft {
			if len(full) > 0 && full[len(full)-1] == '\r' {
				dst = append(dst, '\r')
			}
			dst = append(dst, '\n')
		}
	}
	return dst[:min(len(dst), stop)]
}

// appendEscaped decodes =XX within a line.
func appendEscaped(dst, line []byte) []byte {
	for {
		i := bytes.IndexByte(line, '=')
		if i < 0 {
			return append(dst, line...)
		}
		dst = append(dst, line[:i]...)
		if i+2 < len(line) && unhex(line[i+1]) < 16 && unhex(line[i+2]) < 16 {
			dst = append(dst, unhex(line[i+1])<<4|unhex(line[i+2]))
			line = line[i+3:]
			continue
		}
		dst = append(dst, '=')
		line = line[i+1:]
	}
}
