package inflate

import "math/bits"

// A table is indexed by the next root bits. An entry describes the code that these bits start with, or refers to a
// second table for longer codes. Its fields, from the lowest bit:
//
//	4 bits  total length of the code, 0 if there is no such code
//	4 bits  number of extra bits or, with kindLong, number of index bits of the second table
//	3 bits  kind
//	16 bits value, from bit 16: a symbol, the base of a length or distance, or the position of the second table
const (
	entryLength = 15
	entryExtra  = 4
	entryKind   = 7 << 8
	entryValue  = 16

	kindValue = 1 << 8
	kindBase  = 2 << 8
	kindEnd   = 3 << 8
	kindLong  = 4 << 8
)

const (
	litRoot  = 10
	offRoot  = 8
	codeRoot = 7
	maxCode  = 15
	maxMatch = 258

	// The maximum table sizes for a complete code of so many symbols with these roots. They were computed with zlib's
	// program enough: enough 288 10 15, enough 32 8 15.
	maxLits = 1334
	maxOffs = 402
)

func find(table []uint32, root uint, b uint64) uint32 {
	e := table[b&(1<<root-1)]
	if e&entryKind == kindLong {
		e = table[uint64(e>>entryValue)+b>>root&(1<<(e>>entryExtra&15)-1)]
	}
	return e
}

// secondWidth returns the bits of a second table for codes of n to longest bits. count holds how many codes of each
// length have no entry yet.
func secondWidth(count *[maxCode + 1]int, root, n, longest uint) uint {
	width := n - root
	for room := 1 << width; root+width < longest; width++ {
		if room -= count[root+width]; room <= 0 {
			break
		}
		room <<= 1
	}
	return width
}

// build makes the table of a canonical code (RFC 1951 section 3.2.2) in room, from the lengths of its codes and the
// entry of each symbol. It rejects over-subscribed codes. It rejects incomplete codes except an empty one and a single
// code of one bit, which section 3.2.7 allows for distances.
func build(room []uint32, root uint, lens []uint8, entry func(symbol int) uint32) ([]uint32, bool) {
	var count, at [maxCode + 1]int
	for _, n := range lens {
		count[n]++
	}
	longest, left, total := uint(0), 1, 0
	for n := 1; n <= maxCode; n++ {
		if left = left<<1 - count[n]; left < 0 {
			return nil, false
		}
		if count[n] > 0 {
			longest = uint(n)
		}
		at[n] = total
		total += count[n]
	}
	if left > 0 {
		if longest > 1 {
			return nil, false
		}
		clear(room[:1<<root])
	}
	var sorted [maxSymbols]uint16 // by length, then by symbol: in the order of their codes
	for symbol, n := range lens {
		if n > 0 {
			sorted[at[n]] = uint16(symbol)
			at[n]++
		}
	}
	size := 1 << root
	prefix, further, width := ^uint(0), 0, uint(0) // state of the current second table
	code, last := uint(0), uint(0)
	for _, symbol := range sorted[:total] {
		n := uint(lens[symbol])
		code <<= n - last
		last = n
		turned := uint(bits.Reverse16(uint16(code)) >> (16 - n))
		e := entry(int(symbol)) | uint32(n)
		if n <= root {
			fill(room[:1<<root], turned, n, e)
		} else {
			if turned&(1<<root-1) != prefix {
				prefix, further, width = turned&(1<<root-1), size, secondWidth(&count, root, n, longest)
				if size += 1 << width; size > len(room) {
					return nil, false
				}
				room[prefix] = uint32(further)<<entryValue | kindLong | uint32(width)<<entryExtra
			}
			fill(room[further:size], turned>>root, n-root, e)
		}
		count[n]--
		code++
	}
	return room[:size], true
}

// fill sets all entries whose lowest n bits are code to e.
func fill(table []uint32, code, n uint, e uint32) {
	for i := code; i < uint(len(table)); i += 1 << n {
		table[i] = e
	}
}

const maxSymbols = 288

// literal returns the entry for a symbol of the literal/length code (RFC 1951 section 3.2.5).
func literal(symbol int) uint32 {
	switch {
	case symbol < 256:
		return kindValue | uint32(symbol)<<entryValue
	case symbol == 256:
		return kindEnd
	case symbol < 265:
		return kindBase | uint32(symbol-254)<<entryValue
	case symbol < 285:
		extra := uint32(symbol-261) / 4
		return kindBase | extra<<entryExtra | (3+uint32(4+(symbol-261)%4)<<extra)<<entryValue
	case symbol == 285:
		return kindBase | maxMatch<<entryValue
	}
	return 0
}

// distance returns the entry for a symbol of the distance code.
func distance(symbol int) uint32 {
	switch {
	case symbol < 4:
		return kindBase | uint32(symbol+1)<<entryValue
	case symbol < 30:
		extra := uint32(symbol-2) / 2
		return kindBase | extra<<entryExtra | (1+uint32(2+symbol%2)<<extra)<<entryValue
	}
	return 0
}

// plain returns the entry for a symbol with its own value.
func plain(symbol int) uint32 { return kindValue | uint32(symbol)<<entryValue }

var fixedLits, fixedOffs = fixed()

// fixed makes the tables of RFC 1951 section 3.2.6.
func fixed() (lits, offs []uint32) {
	var lens [maxSymbols]uint8
	for i := range lens {
		switch {
		case i < 144:
			lens[i] = 8
		case i < 256:
			lens[i] = 9
		case i < 280:
			lens[i] = 7
		default:
			lens[i] = 8
		}
	}
	lits, _ = build(make([]uint32, 1<<litRoot), litRoot, lens[:], literal)
	for i := range 32 {
		lens[i] = 5
	}
	offs, _ = build(make([]uint32, 1<<offRoot), offRoot, lens[:32], distance)
	return lits, offs
}

// lengths holds the code lengths of a dynamic block read so far (RFC 1951 section 3.2.7).
type lengths struct {
	lits, offs, codes int // number of each
	have              int
	described         bool // the code of the lengths is known
	of                [286 + 30]uint8
	room              [1 << codeRoot]uint32
}

var codeOrder = [19]uint8{16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15}

// describe reads the code of the code lengths of a dynamic block.
func (d *Decoder) describe(src *[]byte) bool {
	l := &d.r.dyn
	for ; l.have < l.codes; l.have++ {
		if !d.need(src, 3) {
			return false
		}
		l.of[codeOrder[l.have]] = uint8(d.take(3))
	}
	if _, ok := build(l.room[:], codeRoot, l.of[:len(codeOrder)], plain); !ok {
		return d.fail()
	}
	l.have, l.described = 0, true
	return true
}

// lengths reads the code lengths of a dynamic block and makes its tables.
func (d *Decoder) lengths(src *[]byte) bool {
	l := &d.r.dyn
	if !l.described && !d.describe(src) {
		return false
	}
	all := l.lits + l.offs
	for l.have < all {
		e, ok := d.peek(src, l.room[:], codeRoot, 0)
		if !ok {
			return false
		}
		if e&entryKind != kindValue {
			return d.fail()
		}
		symbol, n := e>>entryValue, uint(e&entryLength)
		if symbol < 16 {
			d.take(n)
			l.of[l.have] = uint8(symbol)
			l.have++
			continue
		}
		r := repeats[symbol-16]
		if !d.need(src, n+r.extra) {
			return false
		}
		d.take(n)
		times := r.base + d.take(r.extra)
		if times > all-l.have || symbol == 16 && l.have == 0 {
			return d.fail()
		}
		var value uint8
		if symbol == 16 {
			value = l.of[l.have-1]
		}
		for range times {
			l.of[l.have] = value
			l.have++
		}
	}
	return d.tables()
}

// repeats describes the symbols 16 to 18, which repeat the last length or a zero.
var repeats = [3]struct {
	base  int
	extra uint
}{{3, 2}, {3, 3}, {11, 7}}

func (d *Decoder) tables() bool {
	r := d.r
	var ok bool
	if r.lits, ok = build(r.litRoom[:], litRoot, r.dyn.of[:r.dyn.lits], literal); !ok || r.dyn.of[256] == 0 {
		return d.fail() // the block would never end
	}
	if r.offs, ok = build(r.offRoom[:], offRoot, r.dyn.of[r.dyn.lits:r.dyn.lits+r.dyn.offs], distance); !ok {
		return d.fail()
	}
	d.step = inCodes
	return true
}
