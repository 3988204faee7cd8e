// Package dkim parses, verifies and makes DKIM signatures (RFC 6376, with the algorithms of RFC 8301 and RFC 8463) and
// ARC sets (RFC 8617). It makes no DNS queries: the caller supplies the key records and the time. All work is linear in
// the size of the message and limited. The body is hashed once for each canonicalization, however many signatures there
// are.
package dkim

import (
	"bytes"
	"crypto/sha256"
	"errors"
)

// Limits. A signature beyond them fails with a permanent error or is ignored.
const (
	maxHeaderBytes  = 1 << 20
	maxFields       = 10_000
	maxSignature    = 16 << 10 // bytes of one DKIM-Signature field
	maxTags         = 32
	maxSignedFields = 400
	maxKeyRecord    = 8 << 10
	minRSABits      = 1024 // RFC 8301 section 3.2
	maxRSABits      = 4096
)

// Kinds of errors of a signature, as in RFC 8601 section 2.7.1.
var (
	// ErrPermanent means that the signature or key cannot be used: permerror.
	ErrPermanent = errors.New("signature cannot be used")
	// ErrFail means that the signature does not match the message: fail.
	ErrFail = errors.New("signature does not match")
	// ErrPolicy means that the signature is valid but proves too little: policy.
	ErrPolicy = errors.New("signature is not acceptable")
)

// field is one header field; raw includes its line breaks.
type field struct {
	name []byte
	raw  []byte
}

// Message is a message parsed for signing or verification.
type Message struct {
	fields []field
	body   []byte
	// bad is set if the header is too large to be processed.
	bad    bool
	hashes [2]*bodyHash // simple, relaxed
}

type bodyHash struct {
	sum    [sha256.Size]byte
	length int64 // of the canonical body
}

// New parses a message with CRLF lines. The result refers to its memory.
func New(message []byte) *Message {
	m := &Message{fields: make([]field, 0, 32)}
	at := 0
	for at < len(message) {
		end := lineEnd(message, at)
		if line := message[at:end]; len(line) == 2 && line[0] == '\r' || len(line) == 1 && line[0] == '\n' {
			m.body = message[end:]
			break
		}
		if c := message[at]; (c == ' ' || c == '\t') && len(m.fields) > 0 {
			last := &m.fields[len(m.fields)-1]
			last.raw = last.raw[:len(last.raw)+end-at]
		} else {
			raw := message[at:end]
			name, _, found := bytes.Cut(raw, []byte{':'})
			if !found {
				name = nil
			}
			m.fields = append(m.fields, field{bytes.TrimRight(name, " \t"), raw})
		}
		at = end
		if at > maxHeaderBytes || len(m.fields) > maxFields {
			m.bad = true
			break
		}
	}
	return m
}

func lineEnd(b []byte, at int) int {
	if i := bytes.IndexByte(b[at:], '\n'); i >= 0 {
		return at + i + 1
	}
	return len(b)
}

// value returns the text after the colon, without the last line break.
func (f *field) value() []byte {
	_, v, _ := bytes.Cut(f.raw, []byte{':'})
	return bytes.TrimRight(v, "\r\n")
}

func (f *field) is(name string) bool { return foldEqual(f.name, name) }

// foldEqual compares a and b, ignoring ASCII case.
func foldEqual[T []byte | string](a T, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) {
		if lower(a[i]) != lower(b[i]) {
			return false
		}
	}
	return true
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c | 0x20
	}
	return c
}

// picker selects the fields for the names of an h= tag, the last field of a name first (RFC 6376 section 5.4.2). If a
// name occurs more often than its field, the surplus selects nothing. A signature never covers its own field, own.
type picker struct {
	m     *Message
	own   *field
	names []string
	at    []int
}

func (p *picker) next(name string) *field {
	from := len(p.m.fields)
	for i := len(p.names) - 1; i >= 0; i-- {
		if foldEqual(p.names[i], name) {
			from = p.at[i]
			break
		}
	}
	found := -1
	for i := from - 1; i >= 0 && name != ""; i-- {
		if p.m.fields[i].is(name) && &p.m.fields[i] != p.own {
			found = i
			break
		}
	}
	p.names, p.at = append(p.names, name), append(p.at, max(found, 0))
	if found < 0 {
		return nil
	}
	return &p.m.fields[found]
}
