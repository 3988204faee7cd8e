// Package inflate unpacks DEFLATE (RFC 1951) as it arrives: whatever can be decoded from what came so
// far is given out at once, at any bit of the stream. So it serves conversations, in which a peer may
// flush without ending a block, as Z_PARTIAL_FLUSH of zlib does.
package inflate

import (
	"encoding/binary"
	"errors"
	"io"
	"sync"
)

// Window is how far back a stream may refer, in bytes.
const Window = 32 << 10

// ErrCorrupt says that the input is no DEFLATE stream. It stays.
var ErrCorrupt = errors.New("inflate: corrupt stream")

// Decoder unpacks one stream. The zero value is one at its beginning. It is a conversation's: Decode
// gives out, Rest lets go of what a pause does not need, Close of everything.
//
// Implements: RFC 1951 §3.2 DEFLATE streams, given out as they arrive
type Decoder struct {
	bits  uint64 // came and is not used, the next bit lowest
	nbits uint

	step   step
	final  bool // the block that is read is the last
	length int  // what is left of a stored block or of a match
	dist   int
	dry    bool // all that came is given out
	err    error

	past []byte // at rest: what came last, at most a window
	r    *room  // nil at rest
}

// step is what comes next in the stream.
type step uint8

const (
	atHeader  step = iota
	inStored       // length bytes
	inLengths      // the code lengths of a dynamic block
	inCodes        // symbols
	inMatch        // length bytes from dist back, then symbols
)

// room is what unpacking takes and a pause between blocks does not.
type room struct {
	out  [2 * Window]byte
	w    int // out[:w] has been given out, or will be at the end of this call
	lits []uint32
	offs []uint32

	litRoom [maxLits]uint32
	offRoom [maxOffs]uint32
	dyn     lengths
}

var rooms = sync.Pool{New: func() any { return new(room) }}

// Decode unpacks the next piece of the stream. out is what came of it, valid until the next call of any
// method; used is how much of src it took. Call again with the rest until out is empty: then all is
// given out and all of src used. err is io.EOF behind the final block, and
// ErrCorrupt; with either, out is what came before.
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

// open takes a room and puts the past into it.
func (d *Decoder) open() *room {
	if d.r == nil {
		d.r = rooms.Get().(*room)
		d.r.w = copy(d.r.out[:], d.past)
		d.past = d.past[:0]
	}
	return d.r
}

// Rest gives back the room where the stream stands between blocks, and keeps what the peer may refer
// back to: what it has sent, at most a Window. Inside a block it keeps everything. What Decode gave is no
// longer valid.
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

// Resting says whether the decoder holds no room.
func (d *Decoder) Resting() bool { return d.r == nil }

// Close lets go of everything. The decoder gives nothing any more.
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

// need has n bits ready, n at most 56, or says that they have not come.
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

// advance does one step. It says no where input is missing, or the stream is at its end or broken.
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

// endBlock goes on behind a block.
func (d *Decoder) endBlock() bool {
	d.step = atHeader
	if d.final {
		d.err = io.EOF
	}
	return !d.final
}

// header reads the head of a block (RFC 1951 section 3.2.3), and with a stored one its length.
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

// stored copies what is stored. The bits that are ready are whole bytes here.
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

// match copies what was before. The source may reach into what is being written.
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

// codes reads symbols until the block ends, or input or room runs out.
func (d *Decoder) codes(src *[]byte) bool {
	if d.quick(src); d.err != nil {
		return false
	}
	if d.step != inCodes || d.r.w == len(d.r.out) {
		return true
	}
	// The last symbols of a piece, each whole or not at all.
	for d.step == inCodes && d.r.w < len(d.r.out) {
		if !d.symbol(src) {
			return false
		}
	}
	return true
}

// peek finds the code that begins at bit at of what is ready, and takes nothing. ok is false where it
// has not come whole.
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

// symbol reads a literal, a length with its distance, or the end of the block. It says no where that
// has not come whole, and then has taken nothing, or where it is none.
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

// quick reads symbols while there is so much input and room that nothing has to be asked for: eight
// bytes hold the longest length and distance, and one match fits.
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
	// Above nbits stand bits that will be read again.
	d.bits, d.nbits, r.w, *src = bits&(1<<nbits-1), nbits, w, in
}
