package ldap

import (
	"errors"
	"fmt"
)

// ErrSyntax reports a message that violates the grammar of RFC 4511. The server ends the session.
var ErrSyntax = errors.New("ldap: malformed message")

// ErrTooLarge reports a message over the limit of its length.
var ErrTooLarge = errors.New("ldap: message too large")

// Tags of the universal class that LDAP uses.
const (
	tagBoolean    = 0x01
	tagInteger    = 0x02
	tagOctets     = 0x04
	tagEnumerated = 0x0a
	tagSequence   = 0x30
	tagSet        = 0x31
)

func malformed(what string) error { return fmt.Errorf("%w: %s", ErrSyntax, what) }

// header parses the tag and the length of the element at the beginning of b. need reports that b is too short. LDAP
// has no tags of several bytes and no indefinite lengths. Lengths with leading zeros are allowed, because Windows
// clients send them.
//
// Implements: RFC 4511 §5.1 Protocol encoding
func header(b []byte) (tag byte, size, length int, need bool, err error) {
	if len(b) < 2 {
		return 0, 0, 0, true, nil
	}
	tag, length, size = b[0], int(b[1]), 2
	if tag&0x1f == 0x1f {
		return 0, 0, 0, false, malformed("tag of several bytes")
	}
	if length < 0x80 {
		return tag, size, length, false, nil
	}
	n := length & 0x7f
	if n == 0 || n > 4 {
		return 0, 0, 0, false, malformed("length is indefinite or has more than 4 bytes")
	}
	if len(b) < 2+n {
		return 0, 0, 0, true, nil
	}
	length = 0
	for _, c := range b[2 : 2+n] {
		length = length<<8 | int(c)
	}
	if length > 1<<31-1-8 {
		return 0, 0, 0, false, malformed("length is too large")
	}
	return tag, 2 + n, length, false, nil
}

// Frame returns the size in bytes of the message at the beginning of b, or 0 if b is too short to tell. It returns
// ErrTooLarge for a message of more than limit bytes, before the caller has read it.
func Frame(b []byte, limit int) (int, error) {
	if len(b) > 0 && b[0] != tagSequence {
		return 0, malformed("not a message")
	}
	_, size, length, need, err := header(b)
	switch {
	case err != nil || need:
		return 0, err
	case size+length > limit:
		return 0, fmt.Errorf("%w: %d bytes, at most %d are allowed", ErrTooLarge, size+length, limit)
	}
	return size + length, nil
}

// reader reads elements from the content of a constructed element. An error is stored, and all later reads are empty.
type reader struct {
	b   []byte
	err error
}

// more reports whether there is another element.
func (r *reader) more() bool { return r.err == nil && len(r.b) > 0 }

// peek returns the tag of the next element, 0 if there is none.
func (r *reader) peek() byte {
	if !r.more() {
		return 0
	}
	return r.b[0]
}

// any reads an element. Its content shares the memory of the message.
func (r *reader) any() (tag byte, content []byte) {
	if r.err != nil {
		return 0, nil
	}
	tag, size, length, need, err := header(r.b)
	if err == nil && (need || len(r.b)-size < length) {
		err = malformed("element is longer than the one that contains it")
	}
	if err != nil {
		r.err = err
		return 0, nil
	}
	content = r.b[size : size+length : size+length]
	r.b = r.b[size+length:]
	return tag, content
}

// get reads an element that must have a tag.
func (r *reader) get(want byte) []byte {
	tag, content := r.any()
	if r.err == nil && tag != want {
		r.err = malformed(fmt.Sprintf("tag %#x in the place of %#x", tag, want))
		return nil
	}
	return content
}

func (r *reader) text() string { return string(r.get(tagOctets)) }

func (r *reader) sequence() reader { return reader{b: r.get(tagSequence), err: r.err} }

func (r *reader) bool() bool {
	c := r.get(tagBoolean)
	if r.err == nil && len(c) != 1 {
		r.err = malformed("BOOLEAN must have one byte")
		return false
	}
	return r.err == nil && c[0] != 0
}

// number reads an INTEGER or ENUMERATED from 0 to 2^31-1.
func (r *reader) number(tag byte) int {
	c := r.get(tag)
	if r.err != nil {
		return 0
	}
	n, ok := parseNumber(c)
	if !ok {
		r.err = malformed("number is not from 0 to 2^31-1")
	}
	return n
}

func parseNumber(c []byte) (int, bool) {
	for len(c) > 1 && c[0] == 0 {
		c = c[1:]
	}
	if len(c) == 0 || len(c) > 4 || len(c) == 4 && c[0] >= 0x80 {
		return 0, false
	}
	n := 0
	for _, b := range c {
		n = n<<8 | int(b)
	}
	return n, true
}

// end returns the first error, or an error if elements are left.
func (r *reader) end() error {
	if r.err == nil && len(r.b) > 0 {
		return malformed("unexpected element")
	}
	return r.err
}

// open appends a tag and room for a length, and returns the position for shut.
func open(dst []byte, tag byte) ([]byte, int) { return append(dst, tag, 0), len(dst) + 2 }

// shut writes the length of the element whose content begins at start.
func shut(dst []byte, start int) []byte {
	n := len(dst) - start
	if n < 0x80 {
		dst[start-1] = byte(n)
		return dst
	}
	size := 1
	for x := n >> 8; x > 0; x >>= 8 {
		size++
	}
	for range size {
		dst = append(dst, 0)
	}
	copy(dst[start+size:], dst[start:start+n])
	dst[start-1] = 0x80 | byte(size)
	for i := range size {
		dst[start+i] = byte(n >> (8 * (size - 1 - i)))
	}
	return dst
}

func appendText(dst []byte, tag byte, s string) []byte {
	if len(s) < 0x80 {
		return append(append(dst, tag, byte(len(s))), s...)
	}
	dst, at := open(dst, tag)
	return shut(append(dst, s...), at)
}

func appendNumber(dst []byte, tag byte, n int) []byte {
	dst, at := open(dst, tag)
	shift := 24
	for shift > 0 && n>>(shift-1) == 0 {
		shift -= 8
	}
	for ; shift >= 0; shift -= 8 {
		dst = append(dst, byte(n>>shift))
	}
	return shut(dst, at)
}
