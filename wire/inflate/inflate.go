// Package inflate decompresses DEFLATE streams (RFC 1951) as they arrive. It outputs everything that the input so far
// determines, at any bit of the stream. So it suits interactive protocols, in which a peer may flush without ending a
// block, as with zlib's Z_PARTIAL_FLUSH.
package inflate

import (
	"encoding/binary"
	"errors"
	"io"
	"sync"
)

// Window is the maximum distance of a match, in bytes.
const Window = 32 << 10

// ErrCorrupt means that the input is not a valid DEFLATE stream. All later calls return it too.
var ErrCorrupt = errors.New("inflate: corrupt stream")

// Decoder decompresses one stream. The zero value is ready to use. Decode decompresses, Rest frees the memory that is
// not needed during a pause, Close frees all memory.
//
// Implements: RFC 1951 §3.2 DEFLATE streams, given out as they arrive
type Decoder struct {
	bits  uint64 // input read but not used; the next bit is the lowest
	nbits uint

	step   step
	final  bool // the current block is the last
	length int  // remaining bytes of a stored block or a match
	dist   int
	dry    bool // all output that the input determines has been returned
	err    error

	past []byte // at rest: the last output, at most a Window
	r    *room  // nil at rest
}

// step is the next element of the stream.
type step uint8

const (
	atHeader  step = iota
	inStored       // length bytes
	inLengths      // the code lengths of a dynamic block
	inCodes        // symbols
	inMatch        // length bytes at distance dist, then symbols
)

// room is the memory that decompression needs, but a pause between blocks does not.
type room struct {
	out  [2 * Window]byte
	w    int // out[:w] has been output, or will be at the end of this call
	lits []uint32
	offs []uint32

	litRoom [maxLits]uint32
	offRoom [maxOffs]uint32
	dyn     lengths
}

var rooms = sync.Pool{New: func() any { return new(room) }}

// Decode decompresses the next piece of the stream. out is the output, valid until the next call of any method. used is
// the number of bytes of src consumed. Call Decode again with the rest until out is empty: then all output has been
// returned and all of src consumed. err is io.EOF after the final block, or ErrCorrupt; in both cases out is the output
// before it.
func (d *Decoder) Decode(src []byte) (out []byte, used int, err error) {
	if d.err != nil {
		return nil, 0, d.err
	}
	r := d.open()
	if len(r.out)-r.w < 1<<10 {
		r.w = copy(r.out[:], r.out[r.w-Window:r.w])
	}
	from, rest := r.w, src
	d.dry = false
	for d.err == nil && r.w < len(r.out) && !d.dry {
		d.dry = !d.advance(&rest)
	}
	return r.out[from:r.w], len(src) - len(rest), d.err
}

// open gets a room and copies the past output into it.
func (d *Decoder) open() *room {
	if d.r == nil {
		d.r = rooms.Get().(*room)
		d.r.w = copy(d.r.out[:], d.past)
		d.past = d.past[:0]
	}
	return d.r
}

// Rest frees the room if the stream is between blocks. It keeps the output that matches may refer to, at most a Window.
// Inside a block it keeps everything. The output of Decode is no longer valid.
func (d *Decoder) Rest() {
	r := d.r
	if r == nil || d.step != atHeader || !d.dry {
		return
	}
	past := r.out[max(0, r.w-Window):r.w]
	if cap(d.past) < len(past) {
		d.past = make([]byte, 0, len(past))
	}
	d.past = append(d.past[:0], past...)
	d.drop()
}

// Resting reports whether the decoder holds no room.
func (d *Decoder) Resting() bool { return d.r == nil }

// Close frees all memory. Decode returns no more output.
func (d *Decoder) Close() {
	d.drop()
	d.past = nil
	if d.err == nil {
		d.err = io.EOF
	}
}

func (d *Decoder) drop() {
	if d.r != nil {
		rooms.Put(d.r)
		d.r = nil
	}
}

// need reads input until n bits (at most 56) are available. It returns false if the input ends first.
func (d *Decoder) need(src *[]byte, n uint) bool {
	for d.nbits < n {
		if len(*src) == 0 {
			return false
		}
		d.bits |= uint64((*src)[0]) << d.nbits
		d.nbits += 8
		*src = (*src)[1:]
	}
	return true
}

func (d *Decoder) take(n uint) int {
	v := d.bits & (1<<n - 1)
	d.bits >>= n
	d.nbits -= n
	return int(v)
}

// advance processes one element. It returns false if input is missing, or the stream has ended or is corrupt.
func (d *Decoder) advance(src *[]byte) bool {
	switch d.step {
	case atHeader:
		return d.header(src)
	case inStored:
		return d.stored(src)
	case inLengths:
		return d.lengths(src)
	case inMatch:
		d.match()
		return true
	}
	return d.codes(src)
}

func (d *Decoder) fail() bool {
	d.err = ErrCorrupt
	return false
}

// endBlock moves to the next block. It returns false after the last.
func (d *Decoder) endBlock() bool {
	d.step = atHeader
	if d.final {
		d.err = io.EOF
	}
	return !d.final
}

// header parses the header of a block (RFC 1951 section 3.2.3), with the length of a stored block.
func (d *Decoder) header(src *[]byte) bool {
	if !d.need(src, 3) {
		return false
	}
	switch d.bits >> 1 & 3 {
	case 0:
		pad := (d.nbits - 3) & 7
		if !d.need(src, 3+pad+32) {
			return false
		}
		d.final = d.take(3)&1 != 0
		d.take(pad)
		n, inverse := d.take(16), d.take(16)
		if n != ^inverse&0xffff {
			return d.fail()
		}
		d.step, d.length = inStored, n
	case 1:
		d.final = d.take(3)&1 != 0
		d.r.lits, d.r.offs = fixedLits, fixedOffs
		d.step = inCodes
	case 2:
		if !d.need(src, 17) {
			return false
		}
		d.final = d.take(3)&1 != 0
		d.r.dyn = lengths{lits: d.take(5) + 257, offs: d.take(5) + 1, codes: d.take(4) + 4}
		if d.r.dyn.lits > 286 || d.r.dyn.offs > 30 {
			return d.fail()
		}
		d.step = inLengths
	default:
		return d.fail()
	}
	return true
}

// stored copies the data of a stored block. The available bits are whole bytes here.
func (d *Decoder) stored(src *[]byte) bool {
	r := d.r
	for d.length > 0 && d.nbits > 0 && r.w < len(r.out) {
		r.out[r.w] = byte(d.take(8))
		r.w++
		d.length--
	}
	if d.nbits == 0 {
		n := min(d.length, len(r.out)-r.w)
		n = copy(r.out[r.w:r.w+n], *src)
		*src = (*src)[n:]
		r.w += n
		d.length -= n
	}
	if d.length == 0 {
		return d.endBlock()
	}
	return len(*src) > 0
}

// match copies earlier output. Source and destination may overlap.
func (d *Decoder) match() {
	r := d.r
	n := min(d.length, len(r.out)-r.w)
	d.length -= n
	for n > 0 {
		k := copy(r.out[r.w:r.w+n], r.out[r.w-d.dist:r.w])
		r.w += k
		n -= k
	}
	if d.length == 0 {
		d.step = inCodes
	}
}

// codes decodes symbols until the block ends, or input or space runs out.
func (d *Decoder) codes(src *[]byte) bool {
	if d.quick(src); d.err != nil {
		return false
	}
	if d.step != inCodes || d.r.w == len(d.r.out) {
		return true
	}
	// The last symbols of a piece are decoded one by one, each only when complete.
	for d.step == inCodes && d.r.w < len(d.r.out) {
		if !d.symbol(src) {
			return false
		}
	}
	return true
}

// peek looks up the code that starts at bit at of the available bits and consumes nothing. ok is false if the code is
// not complete.
func (d *Decoder) peek(src *[]byte, table []uint32, root, at uint) (e uint32, ok bool) {
	for {
		e = find(table, root, d.bits>>at)
		if at+uint(e&entryLength) <= d.nbits {
			return e, true
		}
		if !d.need(src, d.nbits+1) {
			return 0, false
		}
	}
}

// symbol decodes a literal, a length with its distance, or the end of the block. It returns false if the symbol is not
// complete, without consuming input, or is invalid.
func (d *Decoder) symbol(src *[]byte) bool {
	e, ok := d.peek(src, d.r.lits, litRoot, 0)
	if !ok {
		return false
	}
	at := uint(e & entryLength)
	switch e & entryKind {
	case kindValue:
		d.r.out[d.r.w] = byte(e >> entryValue)
		d.r.w++
		d.take(at)
		return true
	case kindEnd:
		d.take(at)
		return d.endBlock()
	case kindBase:
	default:
		return d.fail()
	}
	extra := uint(e >> entryExtra & 15)
	if !d.need(src, at+extra) {
		return false
	}
	length := int(e>>entryValue) + int(d.bits>>at&(1<<extra-1))
	at += extra
	o, ok := d.peek(src, d.r.offs, offRoot, at)
	if !ok {
		return false
	}
	if o&entryKind != kindBase {
		return d.fail()
	}
	at += uint(o & entryLength)
	extra = uint(o >> entryExtra & 15)
	if !d.need(src, at+extra) {
		return false
	}
	dist := int(o>>entryValue) + int(d.bits>>at&(1<<extra-1))
	if dist > d.r.w {
		return d.fail()
	}
	d.take(at + extra)
	d.step, d.length, d.dist = inMatch, length, dist
	return true
}

// quick decodes symbols without checks while enough input and space is left: eight bytes hold the longest length and
// distance, and one match fits.
func (d *Decoder) quick(src *[]byte) {
	r, in := d.r, *src
	bits, nbits, w := d.bits, d.nbits, r.w
	lits, offs, out := r.lits, r.offs, r.out[:]
loop:
	for len(in) >= 8 && w <= len(out)-maxMatch {
		if nbits < 48 {
			bits |= binary.LittleEndian.Uint64(in) << nbits
			in = in[(63-nbits)>>3:]
			nbits |= 56
		}
		e := find(lits, litRoot, bits)
		n := uint(e & entryLength)
		bits, nbits = bits>>n, nbits-n
		if e&entryKind == kindValue {
			out[w] = byte(e >> entryValue)
			w++
			continue
		}
		switch e & entryKind {
		case kindEnd:
			d.endBlock()
			break loop
		case kindBase:
		default:
			d.fail()
			break loop
		}
		n = uint(e >> entryExtra & 15)
		length := int(e>>entryValue) + int(bits&(1<<n-1))
		bits, nbits = bits>>n, nbits-n
		e = find(offs, offRoot, bits)
		n = uint(e & entryLength)
		bits, nbits = bits>>n, nbits-n
		n = uint(e >> entryExtra & 15)
		dist := int(e>>entryValue) + int(bits&(1<<n-1))
		bits, nbits = bits>>n, nbits-n
		if e&entryKind != kindBase || dist > w {
			d.fail()
			break
		}
		for end := w + length; w < end; {
			w += copy(out[w:end], out[end-length-dist:w])
		}
	}
	// Clear the bits above nbits, because their bytes will be read again.
	d.bits, d.nbits, r.w, *src = bits&(1<<nbits-1), nbits, w, in
}
