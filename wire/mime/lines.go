package mime

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"slices"
)

// AppendCRLF appends src with every bare LF replaced by CRLF. All other bytes stay; a CR without LF is not a line end.
// An LF at the start of src completes a CR at the end of dst, so that a text can be appended in pieces.
func AppendCRLF(dst, src []byte) []byte {
	for len(src) > 0 {
		i := bytes.IndexByte(src, '\n')
		if i < 0 {
			return append(dst, src...)
		}
		dst = append(dst, src[:i]...)
		if n := len(dst); n == 0 || dst[n-1] != '\r' {
			dst = append(dst, '\r')
		}
		dst = append(dst, '\n')
		src = src[i+1:]
	}
	return dst
}

// LeafSpan is the body [Start, End) of a leaf.
type LeafSpan struct {
	Start, End int
	// LineLen > 0 means that the body may be canonical base64 in lines of this length. AppendCanonical decides it.
	LineLen int
}

// SplitLeaves returns the leaf bodies of at least least bytes in ascending order.
func SplitLeaves(raw []byte, root *Part, least int) []LeafSpan {
	return appendLeaves(nil, raw, root, least)
}

func appendLeaves(spans []LeafSpan, raw []byte, p *Part, least int) []LeafSpan {
	if p.BodyEnd-p.BodyStart < least {
		return spans
	}
	if len(p.Children) > 0 {
		for _, c := range p.Children {
			spans = appendLeaves(spans, raw, c, least)
		}
		return spans
	}
	span := LeafSpan{Start: p.BodyStart, End: p.BodyEnd}
	if p.Encoding == "base64" {
		span.LineLen = firstLine(p.Body(raw))
	}
	return append(spans, span)
}

// maxLineLen is the maximum length of a base64 line (RFC 2045).
const maxLineLen = 76

// firstLine returns the length of the lines of canonical base64 that begins as body does, or 0 if there is none.
func firstLine(body []byte) int {
	n := bytes.IndexByte(body[:min(len(body), maxLineLen+1)], '\r')
	switch {
	case n < 0 && len(body) > maxLineLen, n == 0, n%4 != 0 && n > 0:
		return 0
	case n < 0 || n+2 == len(body): // a single line: any length that is not shorter works
		return maxLineLen
	}
	return n
}

// AppendCanonical appends the data of body if it is canonical base64 in lines of lineLen letters: then
// AppendBase64Lines(nil, data, lineLen, finalCRLF) reproduces its exact bytes. In canonical base64, all lines have one
// length, a multiple of four, and the last may be shorter. CRLF separates lines. Padding is only at the end, with
// unused bits zero. If body is not canonical or empty, ok is false and nothing is appended.
func AppendCanonical(dst, body []byte, lineLen int) (out []byte, finalCRLF, ok bool) {
	text, finalCRLF := bytes.CutSuffix(body, lineBreak)
	if lineLen <= 0 || lineLen%4 != 0 || len(text) == 0 {
		return dst, false, false
	}
	out = slices.Grow(dst, len(text)/4*3+lettersRoom)
	for len(text) > lineLen {
		if len(text) < lineLen+3 || text[lineLen] != '\r' || text[lineLen+1] != '\n' {
			return dst, false, false
		}
		if out, ok = appendLetters(out, text[:lineLen]); !ok {
			return dst, false, false
		}
		text = text[lineLen+2:]
	}
	if len(text)%4 != 0 {
		return dst, false, false
	}
	if out, ok = appendLastLine(out, text); !ok {
		return dst, false, false
	}
	return out, finalCRLF, true
}

// lettersRoom is the number of bytes that appendLetters may overwrite behind its result.
const lettersRoom = 2

// appendLetters appends the data of b, whose length is a multiple of four. ok is false if b has a byte that is not in
// the alphabet. dst must have the capacity for the data and lettersRoom.
func appendLetters(dst, b []byte) (out []byte, ok bool) {
	n := len(dst)
	out = dst[:n+len(b)/4*3+lettersRoom]
	var bad byte
	for len(b) >= 8 {
		c, d, e, f := base64Value[b[0]], base64Value[b[1]], base64Value[b[2]], base64Value[b[3]]
		g, h, i, j := base64Value[b[4]], base64Value[b[5]], base64Value[b[6]], base64Value[b[7]]
		bad |= c | d | e | f | g | h | i | j
		binary.BigEndian.PutUint64(out[n:n+8], uint64(c)<<58|uint64(d)<<52|uint64(e)<<46|uint64(f)<<40|
			uint64(g)<<34|uint64(h)<<28|uint64(i)<<22|uint64(j)<<16)
		b, n = b[8:], n+6
	}
	if len(b) >= 4 {
		c, d, e, f := base64Value[b[0]], base64Value[b[1]], base64Value[b[2]], base64Value[b[3]]
		bad |= c | d | e | f
		binary.BigEndian.PutUint32(out[n:n+4], uint32(c)<<26|uint32(d)<<20|uint32(e)<<14|uint32(f)<<8)
		n += 3
	}
	return out[:n], bad < 64
}

// appendLastLine is appendLetters for the last line, which may have padding.
func appendLastLine(dst, b []byte) (out []byte, ok bool) {
	n := len(b)
	if b[n-1] != '=' {
		return appendLetters(dst, b)
	}
	if out, ok = appendLetters(dst, b[:n-4]); !ok {
		return dst, false
	}
	a, c, d := base64Value[b[n-4]], base64Value[b[n-3]], base64Value[b[n-2]]
	if b[n-2] == '=' {
		return append(out, a<<2|c>>4), a|c < 64 && c&15 == 0
	}
	return append(out, a<<2|c>>4, c<<4|d>>2), a|c|d < 64 && d&3 == 0
}

// AppendBase64Lines appends data as base64 in lines of lineLen letters (a multiple of four), with CRLF between lines,
// and after the last if finalCRLF is set.
func AppendBase64Lines(dst, data []byte, lineLen int, finalCRLF bool) []byte {
	chunk := max(lineLen/4, 1) * 3
	lines := (len(data) + chunk - 1) / chunk
	if need := (len(data)+2)/3*4 + 2*lines; cap(dst)-len(dst) < need {
		grown := make([]byte, len(dst), len(dst)+need)
		copy(grown, dst)
		dst = grown
	}
	for len(data) > chunk {
		dst = append(encodeBase64(dst, data[:chunk]), '\r', '\n')
		data = data[chunk:]
	}
	dst = encodeBase64(dst, data)
	if finalCRLF {
		dst = append(dst, '\r', '\n')
	}
	return dst
}

// base64Pairs has the two letters for every 12 bits, the first letter in the low byte.
var base64Pairs = func() (t [1 << 12]uint16) {
	for i := range t {
		t[i] = uint16(base64Letters[i>>6]) | uint16(base64Letters[i&63])<<8
	}
	return t
}()

// encodeBase64 is a faster base64.StdEncoding.AppendEncode that encodes six bytes at a time. Most of the time to read a
// message with attachments is spent here.
func encodeBase64(dst, src []byte) []byte {
	at := len(dst)
	dst = slices.Grow(dst, (len(src)+2)/3*4)
	dst = dst[:at+len(src)/6*8]
	for len(src) >= 8 {
		v, out := binary.BigEndian.Uint64(src), dst[at:at+8]
		binary.LittleEndian.PutUint64(out, uint64(base64Pairs[v>>52])|uint64(base64Pairs[v>>40&0xfff])<<16|
			uint64(base64Pairs[v>>28&0xfff])<<32|uint64(base64Pairs[v>>16&0xfff])<<48)
		src, at = src[6:], at+8
	}
	return base64.StdEncoding.AppendEncode(dst[:at], src)
}
