package mime

import (
	"bytes"
	"strings"
)

// SevenBit returns a 7-bit message: it encodes the bodies with 8-bit characters. The parts decode to the same content.
// raw must have CRLF lines. ok is false if that would change text that must not change: 8-bit characters in headers and
// between parts, signed parts, and types that must not be encoded.
//
// Implements: RFC 6152 §3 Conversion of 8bit to quoted-printable or base64
// Implements: RFC 2045 §6.7 quoted-printable, encoded
// Implements: RFC 1847 §2.1 multipart/signed is not changed
func SevenBit(raw []byte) (out []byte, ok bool) {
	e := encoder{raw: raw, out: make([]byte, 0, len(raw)+len(raw)/8+512), foreign: eightBit}
	if !e.part(Parse(raw, Limits{}), true) {
		return nil, false
	}
	return e.out, true
}

// WithoutNUL returns a message in which the bodies with NULs are encoded in base64. The parts decode to the same
// content. ok is false if that is not possible: NULs in headers, between parts, in signed parts, or in bodies that
// declare another encoding. It allocates EncodedRoom bytes.
//
// Implements: RFC 3516 §4.3 the transfer encoding of binary data is changed without loss
func WithoutNUL(raw []byte) (out []byte, ok bool) {
	e := encoder{raw: raw, out: make([]byte, 0, EncodedRoom(len(raw))), foreign: hasNUL, keep: true}
	if !e.part(Parse(raw, Limits{}), true) {
		return nil, false
	}
	return e.out, true
}

// EncodedRoom returns the memory in bytes for a message of n bytes with its bodies in base64.
func EncodedRoom(n int) int { return n + n*3/8 + 4096 }

type encoder struct {
	raw, out []byte
	// foreign reports whether bytes contain characters that the result must not contain: 8-bit characters or NULs.
	foreign func([]byte) bool
	// keep leaves the headers of multiparts and messages unchanged.
	keep bool
}

// part writes a part and encodes it if necessary.
func (e *encoder) part(p *Part, message bool) bool {
	header, body := p.Header(e.raw), p.Body(e.raw)
	switch as := EncodingOf(p.Encoding); {
	case e.foreign(header):
		return false
	case !e.foreign(body):
		e.out = append(e.out, e.raw[p.HeaderStart:p.BodyEnd]...)
		return true
	case as != Encoding7Bit && as != Encoding8Bit && as != EncodingBinary:
		return false // it declares an encoding without such characters
	case p.Type == "multipart" && (p.Subtype == "signed" || p.Subtype == "encrypted"):
		return false
	case p.Type == "message" && strings.HasPrefix(p.Subtype, "global"): // RFC 6532 section 3.7
	case len(p.Children) > 0:
		return e.container(p, message)
	case p.Type == "multipart", p.Type == "message":
		return false // RFC 2045 section 6.4
	}
	if readable(p, body) {
		e.header(header, "quoted-printable", message, true)
		e.out = appendPrintable(e.out, body)
	} else {
		e.header(header, "base64", message, true)
		e.out = AppendBase64Lines(e.out, body, 76, bytes.HasSuffix(body, lineBreak))
	}
	return true
}

// readable reports whether most of a body stays as it is in quoted-printable.
func readable(p *Part, body []byte) bool {
	share := 8
	if p.Type == "text" {
		share = 4
	}
	return !hasNUL(body) && escapes(body) <= len(body)/share
}

var lineBreak = []byte("\r\n")

// container writes a multipart or an enclosed message, including the text around its parts.
func (e *encoder) container(p *Part, message bool) bool {
	if e.keep {
		e.out = append(e.out, p.Header(e.raw)...)
	} else {
		e.header(p.Header(e.raw), "7bit", message, false)
	}
	at := p.BodyStart
	for _, child := range p.Children {
		if e.foreign(e.raw[at:child.HeaderStart]) {
			return false
		}
		e.out = append(e.out, e.raw[at:child.HeaderStart]...)
		if !e.part(child, p.Type == "message") {
			return false
		}
		at = child.BodyEnd
	}
	e.out = append(e.out, e.raw[at:p.BodyEnd]...)
	return !e.foreign(e.raw[at:p.BodyEnd])
}

// header writes a header with another transfer encoding, and adds the fields that this requires. A leaf without a type
// becomes text with an unknown charset (RFC 1428 section 3).
func (e *encoder) header(header []byte, encoding string, message, leaf bool) {
	version, typed, end := false, false, 0
	for f := range Fields(header) {
		end = f.End
		version = version || f.Is("MIME-Version")
		typed = typed || f.Is("Content-Type")
		if !f.Is("Content-Transfer-Encoding") {
			e.out = append(e.out, header[f.Start:f.End]...)
		}
	}
	if message && !version {
		e.out = append(e.out, "MIME-Version: 1.0\r\n"...)
	}
	if leaf && !typed {
		e.out = append(e.out, "Content-Type: text/plain; charset=unknown-8bit\r\n"...)
	}
	e.out = append(append(append(e.out, "Content-Transfer-Encoding: "...), encoding...), "\r\n"...)
	e.out = append(e.out, header[end:]...)
}

// eightBit reports whether any byte has its highest bit set.
func eightBit(b []byte) bool {
	for _, c := range b {
		if c >= 0x80 {
			return true
		}
	}
	return false
}

func hasNUL(b []byte) bool { return bytes.IndexByte(b, 0) >= 0 }

// escapes returns the number of bytes that need three characters in quoted-printable.
func escapes(b []byte) (n int) {
	for _, c := range b {
		if c >= 0x80 || c == '=' || c < ' ' && c != '\t' && c != '\r' && c != '\n' {
			n++
		}
	}
	return n
}

// printableLine is the maximum length of a quoted-printable line, including the soft break.
const printableLine = 76

// appendPrintable encodes CRLF lines as quoted-printable.
func appendPrintable(dst, src []byte) []byte {
	const digits = "0123456789ABCDEF"
	room, soft := printableLine-1, false // soft: at the start of a line after a soft break
	for i := 0; i < len(src); i++ {
		c := src[i]
		if bytes.HasPrefix(src[i:], lineBreak) {
			dst, room, soft = append(dst, '\r', '\n'), printableLine-1, false
			i++
			continue
		}
		plain := c > ' ' && c < 0x7f && c != '='
		if c == ' ' || c == '\t' { // at the end of a line it would be lost
			plain = i+1 < len(src) && !bytes.HasPrefix(src[i+1:], lineBreak)
		}
		need := 3
		if plain {
			need = 1
		}
		if room < need {
			dst, room, soft = append(dst, '=', '\r', '\n'), printableLine-1, true
		}
		if soft && c == '-' {
			plain, need = false, 3 // unencoded it could look like a boundary
		}
		room -= need
		soft = false
		if plain {
			dst = append(dst, c)
		} else {
			dst = append(dst, '=', digits[c>>4], digits[c&15])
		}
	}
	return dst
}
