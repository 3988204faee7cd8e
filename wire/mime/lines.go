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
	// LineLen > 0 means that the body is canonical base64: AppendBase64Lines(nil, decoded, LineLen, FinalCRLF)
	// reproduces its exact bytes, where decoded is the result of AppendBase64.
	LineLen   int
	FinalCRLF bool
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
		span.LineLen, span.FinalCRLF = canonicalBase64(p.Body(raw))
	}
	return append(spans, span)
}

// maxLineLen is the maximum length of a base64 line (RFC 2045).
const maxLineLen = 76

// canonicalBase64 returns the arguments with which AppendBase64Lines reproduces body from its decoded bytes, or lineLen
// 0 if body is not canonical. In canonical base64, all lines have one length, a multiple of four up to 76, and the last
// may be shorter. CRLF separates lines. Padding is only at the end, with unused bits zero.
func canonicalBase64(body []byte) (lineLen int, finalCRLF bool) {
	text := body
	if n := len(text); n >= 2 && text[n-1] == '\n' && text[n-2] == '\r' {
		text, finalCRLF = text[:n-2], true
	}
	if len(text) == 0 {
		return 0, false
	}
	lineLen = bytes.IndexByte(text, '\r')
	if lineLen < 0 {
		// A single line: any length that is not shorter works.
		lineLen = maxLineLen
		if len(text) > maxLineLen {
			return 0, false
		}
	}
	if lineLen == 0 || lineLen%4 != 0 || lineLen > maxLineLen {
		return 0, false
	}
	text, ok := cutLines(text, lineLen)
	if !ok || len(text)%4 != 0 || !lastLine(text) {
		return 0, false
	}
	return lineLen, finalCRLF
}

// cutLines removes all lines but the last. ok reports that they were full lines of base64.
func cutLines(text []byte, lineLen int) (last []byte, ok bool) {
	for len(text) > lineLen {
		if len(text) < lineLen+3 || text[lineLen] != '\r' || text[lineLen+1] != '\n' || !letters(text[:lineLen]) {
			return nil, false
		}
		text = text[lineLen+2:]
	}
	return text, true
}

// letters reports whether b, whose length is a multiple of four, has only letters of the alphabet.
func letters(b []byte) bool {
	var bad byte
	for len(b) >= 8 {
		bad |= base64Value[b[0]] | base64Value[b[1]] | base64Value[b[2]] | base64Value[b[3]] |
			base64Value[b[4]] | base64Value[b[5]] | base64Value[b[6]] | base64Value[b[7]]
		b = b[8:]
	}
	for len(b) >= 4 {
		bad |= base64Value[b[0]] | base64Value[b[1]] | base64Value[b[2]] | base64Value[b[3]]
		b = b[4:]
	}
	return bad < 64
}

// lastLine is letters for the last line, which may have padding.
func lastLine(b []byte) bool {
	n := len(b)
	if b[n-1] != '=' {
		return letters(b)
	}
	if !letters(b[:n-4]) {
		return false
	}
	a, c, d := base64Value[b[n-4]], base64Value[b[n-3]], base64Value[b[n-2]]
	if b[n-2] == '=' {
		return a|c < 64 && c&15 == 0
	}
	return a|c|d < 64 && d&3 == 0
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
