// Package pack takes apart what rows, histories and the messages between servers are made of: numbers, texts and
// lists one behind another, in the forms that encoding/binary appends.
package pack

import (
	"encoding/binary"
	"math"

	"doublet/note"
)

// Reader reads values off the start of B. It remembers in Bad whether it ever ran short or met what cannot be:
// then every value is zero and nothing is left, so that a whole row is read in one go and judged at its end.
type Reader struct {
	B   []byte
	Bad bool
}

// Spoil says that what was read cannot be.
func (r *Reader) Spoil() { r.Bad, r.B = true, nil }

// Done says that all was read, and all of it was good.
func (r *Reader) Done() bool { return !r.Bad && len(r.B) == 0 }

// Uvarint reads what binary.AppendUvarint appends.
func (r *Reader) Uvarint() uint64 {
	v, k := binary.Uvarint(r.B)
	if k <= 0 {
		r.Spoil()
		return 0
	}
	r.B = r.B[k:]
	return v
}

// Uvarint32 is Uvarint of a number of at most 32 bits.
func (r *Reader) Uvarint32() uint32 {
	v := r.Uvarint()
	if v > math.MaxUint32 {
		r.Spoil()
		return 0
	}
	return uint32(v)
}

// Varint reads what binary.AppendVarint appends.
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

// Byte reads one.
func (r *Reader) Byte() byte {
	if len(r.B) == 0 {
		r.Spoil()
		return 0
	}
	c := r.B[0]
	r.B = r.B[1:]
	return c
}

// Bool reads 0 or 1.
func (r *Reader) Bool() bool {
	b := r.Byte()
	if b > 1 {
		r.Spoil()
	}
	return b == 1
}

// Uint32 reads four bytes, the highest first.
func (r *Reader) Uint32() uint32 {
	var b [4]byte
	r.Fixed(b[:])
	return binary.BigEndian.Uint32(b[:])
}

// Uint64 reads eight bytes, the highest first.
func (r *Reader) Uint64() uint64 {
	var b [8]byte
	r.Fixed(b[:])
	return binary.BigEndian.Uint64(b[:])
}

// UNID reads 16 bytes.
func (r *Reader) UNID() (u note.UNID) {
	r.Fixed(u[:])
	return u
}

// Count reads how many entries of at least size bytes each follow: a lie cannot ask for more memory than the bytes
// behind it justify.
func (r *Reader) Count(size int) int {
	n := r.Uvarint()
	if n > uint64(len(r.B)/size) {
		r.Spoil()
		return 0
	}
	return int(n)
}

// AtMost is Count for lists that have a bound of their own.
func (r *Reader) AtMost(most, size int) int {
	n := r.Count(size)
	if n > most {
		r.Spoil()
		return 0
	}
	return n
}

// Take reads n bytes, which alias B.
func (r *Reader) Take(n int) []byte {
	if n < 0 || n > len(r.B) {
		r.Spoil()
		return nil
	}
	b := r.B[:n:n]
	r.B = r.B[n:]
	return b
}

// Bytes reads a length and as many bytes, which alias B.
func (r *Reader) Bytes() []byte { return r.Take(r.Count(1)) }

// String is a copy of Bytes.
func (r *Reader) String() string { return string(r.Bytes()) }

// Word is String of at most so many bytes.
func (r *Reader) Word(most int) string { return string(r.Take(r.AtMost(most, 1))) }
