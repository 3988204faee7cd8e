// Package pack decodes the elements of rows, histories and messages between servers: sequences of numbers, texts and
// lists, in the formats that encoding/binary appends.
package pack

import (
	"encoding/binary"
	"math"
)

// Reader reads values from the start of B. If B was too short or malformed at any point, Bad is set, every further
// value is zero, and B is empty. So the caller can read a whole row and check only once at its end.
type Reader struct {
	B   []byte
	Bad bool
}

// Spoil marks the input as malformed.
func (r *Reader) Spoil() { r.Bad, r.B = true, nil }

// Done reports whether everything was read without an error.
func (r *Reader) Done() bool { return !r.Bad && len(r.B) == 0 }

// Uvarint reads a number written by binary.AppendUvarint.
func (r *Reader) Uvarint() uint64 {
	v, k := binary.Uvarint(r.B)
	if k <= 0 {
		r.Spoil()
		return 0
	}
	r.B = r.B[k:]
	return v
}

// Uvarint32 is Uvarint for a number of at most 32 bits.
func (r *Reader) Uvarint32() uint32 {
	v := r.Uvarint()
	if v > math.MaxUint32 {
		r.Spoil()
		return 0
	}
	return uint32(v)
}

// Varint reads a number written by binary.AppendVarint.
func (r *Reader) Varint() int64 {
	v, k := binary.Varint(r.B)
	if k <= 0 {
		r.Spoil()
		return 0
	}
	r.B = r.B[k:]
	return v
}

// Fixed fills dst.
func (r *Reader) Fixed(dst []byte) {
	if len(r.B) < len(dst) {
		r.Spoil()
		return
	}
	copy(dst, r.B)
	r.B = r.B[len(dst):]
}

// Byte reads one byte.
func (r *Reader) Byte() byte {
	if len(r.B) == 0 {
		r.Spoil()
		return 0
	}
	c := r.B[0]
	r.B = r.B[1:]
	return c
}

// Bool reads a byte that must be 0 or 1.
func (r *Reader) Bool() bool {
	b := r.Byte()
	if b > 1 {
		r.Spoil()
	}
	return b == 1
}

// Uint32 reads four bytes, big-endian.
func (r *Reader) Uint32() uint32 {
	var b [4]byte
	r.Fixed(b[:])
	return binary.BigEndian.Uint32(b[:])
}

// Uint64 reads eight bytes, big-endian.
func (r *Reader) Uint64() uint64 {
	var b [8]byte
	r.Fixed(b[:])
	return binary.BigEndian.Uint64(b[:])
}

// UNID reads 16 bytes: a note.UNID. The type is not named, so that this package needs no other.
func (r *Reader) UNID() (u [16]byte) {
	r.Fixed(u[:])
	return u
}

// Count reads the number of entries that follow, each of at least size bytes. A false number cannot cause a larger
// allocation than the rest of B justifies.
func (r *Reader) Count(size int) int {
	n := r.Uvarint()
	if n > uint64(len(r.B)/size) {
		r.Spoil()
		return 0
	}
	return int(n)
}

// AtMost is Count with an upper bound on the number of entries.
func (r *Reader) AtMost(most, size int) int {
	n := r.Count(size)
	if n > most {
		r.Spoil()
		return 0
	}
	return n
}

// Take reads n bytes. The result aliases B.
func (r *Reader) Take(n int) []byte {
	if n < 0 || n > len(r.B) {
		r.Spoil()
		return nil
	}
	b := r.B[:n:n]
	r.B = r.B[n:]
	return b
}

// Bytes reads a length and that number of bytes. The result aliases B.
func (r *Reader) Bytes() []byte { return r.Take(r.Count(1)) }

// String returns a copy of Bytes.
func (r *Reader) String() string { return string(r.Bytes()) }

// Word reads a string whose length is at most most bytes.
func (r *Reader) Word(most int) string { return string(r.Take(r.AtMost(most, 1))) }
