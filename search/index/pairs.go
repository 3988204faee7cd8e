package index

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"

	"doublet/note"

	"github.com/cockroachdb/pebble/v2"
)

// The index keeps no positions of words. For phrases, each segment has a filter instead: a set that contains every pair
// of adjacent words of its documents, unless one has a digit, and a few more. So a phrase that does not occur is
// decided without reading the text of most documents that contain its words.
//
// A document takes a number of slots by its length. A pair's hash selects one of pairBuckets buckets and one of the
// document's slots. The filter is the sorted list of bucket × slots of the segment + slot. It is stored as differences
// in Rice code: the difference's upper bits as that many ones and a zero, then its lower bits. The first byte of a row
// is the number of lower bits. A row contains whole buckets, counted from the one in its key. Its last byte is filled
// with ones.
const (
	pairBucketBits = 10
	pairBuckets    = 1 << pairBucketBits
	pairSlotBits   = 32 - pairBucketBits
	// slotWords is the number of words for which a document gets a slot. It is chosen for size: about an eighth of the
	// pairs that do not occur are in the filter by chance, and a pair that does takes about 4.5 bits.
	slotWords = 160
	// pairLowMax is the maximum number of lower bits of a difference.
	pairLowMax = 32
)

// Pair is the hash of two adjacent words. Its upper bits are a bucket.
type Pair uint32

// HashTerm returns the hash of a term, for MakePair (FNV-1a). It returns 0 for a term with a digit, which is in no
// pair: few documents have it, so its pairs would take room (an eighth of all) and save little.
func HashTerm(term []byte) uint64 {
	h := uint64(14695981039346656037)
	for _, c := range term {
		if '0' <= c && c <= '9' {
			return 0
		}
		h = (h ^ uint64(c)) * 1099511628211
	}
	return h
}

// MakePair returns the pair of a term and the next one, by their hashes. The result is stored, so it never changes.
func MakePair(first, second uint64) Pair {
	x := first ^ bits.RotateLeft64(second, 25)
	x = (x ^ x>>33) * 0xff51afd7ed558ccd
	x = (x ^ x>>33) * 0xc4ceb9fe1a85ec53
	return Pair(x >> 32)
}

func (p Pair) bucket() uint64 { return uint64(p >> pairSlotBits) }

// slot returns the pair's slot in a document with n slots. It ascends with the pairs of a bucket.
func (p Pair) slot(n uint64) uint64 { return uint64(p&(1<<pairSlotBits-1)) * n >> pairSlotBits }

// slots returns the number of slots of a document in the filter, 0 if its pairs are not known.
func (d *Docs) slots(ord int) uint64 {
	if d.Flags[ord]&Paired == 0 {
		return 0
	}
	return uint64(d.Lengths[ord])/slotWords + 1
}

// allSlots returns the number of slots of all documents.
func (d *Docs) allSlots() (n uint64) {
	for ord := range d.Flags {
		n += d.slots(ord)
	}
	return n
}

// pairWriter writes the filter of a segment.
type pairWriter struct {
	w     *segmentWriter
	slots uint64
	low   uint
	first uint64 // the first bucket of the row
	next  uint64 // the least position that the next one in the row can have
	row   []byte
	// rest holds the last used bits of the row, which are less than a byte.
	rest uint64
	used uint
}

// newPairs begins the filter of a segment with these documents.
func (w *segmentWriter) newPairs(d *Docs) *pairWriter {
	p := &pairWriter{w: w, slots: d.allSlots()}
	words := uint64(1)
	for ord, n := range d.Lengths {
		if d.Flags[ord]&Paired != 0 {
			words += uint64(n)
		}
	}
	// About three of four words begin a pair that the document has not had. The best number of lower bits is the
	// logarithm of 0.7 times the mean difference.
	p.low = min(uint(max(bits.Len64(p.slots*pairBuckets*14/15/words), 1)-1), pairLowMax)
	return p
}

// add adds a position. Buckets ascend, and the slots of a bucket too. A position may be added several times in a row.
func (p *pairWriter) add(bucket, slot uint64) {
	if len(p.row) >= chunkSize && bucket != p.first+(p.next-1)/p.slots {
		p.end()
	}
	if len(p.row) == 0 {
		p.first, p.next, p.row = bucket, 0, append(p.row, byte(p.low))
	}
	at := (bucket-p.first)*p.slots + slot
	if at+1 == p.next {
		return
	}
	d := at - p.next
	p.next = at + 1
	ones := d >> p.low
	for ; ones > 16; ones -= 16 {
		p.bits(1<<16-1, 16)
	}
	p.bits(1<<ones-1|d&(1<<p.low-1)<<(ones+1), uint(ones)+1+p.low)
}

// bits appends the lowest n bits of v, at most 56. The others are 0.
func (p *pairWriter) bits(v uint64, n uint) {
	p.rest |= v << p.used
	for p.used += n; p.used >= 8; p.used -= 8 {
		p.row = append(p.row, byte(p.rest))
		p.rest >>= 8
	}
}

// fill appends the bits that are left, with ones behind them up to a whole byte.
func (p *pairWriter) fill() {
	if p.used > 0 {
		p.row = append(p.row, byte(p.rest|0xff<<p.used))
		p.rest, p.used = 0, 0
	}
}

// end ends the row.
func (p *pairWriter) end() {
	if len(p.row) == 0 {
		return
	}
	p.fill()
	p.w.put(binary.BigEndian.AppendUint32(partKey(spacePairs, p.w.db, p.w.info.ID), uint32(p.first)), p.row)
	p.row = p.row[:0]
}

// invertPairs writes the filter of pieces, whose documents are d.
func invertPairs(w *segmentWriter, d *Docs, pieces []*Piece) {
	var ends [pairBuckets + 1]int
	for _, p := range pieces {
		for _, x := range p.Pairs {
			ends[x.bucket()+1]++
		}
	}
	for i := range pairBuckets {
		ends[i+1] += ends[i]
	}
	slots := make([]uint64, ends[pairBuckets])
	from := ends // where the next slot of each bucket is written
	base := uint64(0)
	for ord, p := range pieces {
		n := d.slots(ord)
		for _, x := range p.Pairs {
			slots[from[x.bucket()]] = base + x.slot(n)
			from[x.bucket()]++
		}
		base += n
	}
	out := w.newPairs(d)
	for i := range pairBuckets {
		for _, s := range slots[ends[i]:ends[i+1]] {
			out.add(uint64(i), s)
		}
	}
	out.end()
}

// pairRow reads the positions of a row.
type pairRow struct {
	b    []byte // with eight bytes of ones behind it
	size uint   // in bits, without them
	at   uint   // in bits
	low  uint
	next uint64 // see pairWriter
	max  uint64 // positions are below
	bad  bool
}

func (r *pairRow) begin(row []byte, limit uint64) {
	ones := [8]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	*r = pairRow{b: append(append(r.b[:0], row...), ones[:]...), size: uint(len(row)) * 8, at: 8, max: limit}
	if len(row) == 0 || row[0] > pairLowMax {
		r.bad = true
		return
	}
	r.low = uint(row[0])
}

// read returns the next position. It returns false at the end of the row, or if it is damaged.
func (r *pairRow) read() (uint64, bool) {
	if r.bad || r.at >= r.size {
		return 0, false
	}
	begun, d := r.at, uint64(0)
	for {
		n := uint(bits.TrailingZeros64(^(binary.LittleEndian.Uint64(r.b[r.at/8:]) >> (r.at % 8))))
		n = min(n, 56)
		d += uint64(n)
		r.at += n
		if r.at >= r.size {
			r.bad = r.size-begun > 7 // more than the rest of a byte
			return 0, false
		}
		if n < 56 {
			break
		}
	}
	r.at++
	if r.at+r.low > r.size {
		r.bad = true
		return 0, false
	}
	v := binary.LittleEndian.Uint64(r.b[r.at/8:]) >> (r.at % 8) & (1<<r.low - 1)
	r.at += r.low
	at := r.next + (d<<r.low | v)
	if at >= r.max {
		r.bad = true
		return 0, false
	}
	r.next = at + 1
	return at, true
}

// pairReader reads the filter of a segment.
type pairReader struct {
	it    *pebble.Iterator
	seg   uint32
	slots uint64
	row   pairRow

	// bucket and slot are the position read last. base is the position of the bucket's first slot in the row.
	bucket, slot, base uint64
}

func (v *View) readPairs(seg uint32, slots uint64) (*pairReader, error) {
	it, err := v.iterate(partKey(spacePairs, v.db, seg))
	return &pairReader{it: it, seg: seg, slots: slots}, err
}

// begin begins the row of the iterator. It returns false if there is none.
func (r *pairReader) begin(valid bool) (bool, error) {
	if !valid {
		return false, engineError(r.it.Error())
	}
	k := r.it.Key()
	row, err := r.it.ValueAndErr()
	if err != nil {
		return false, engineError(err)
	}
	if len(k) != 1+8+4+4 {
		return false, r.damaged()
	}
	r.bucket, r.base = uint64(binary.BigEndian.Uint32(k[len(k)-4:])), 0
	r.row.begin(row, (pairBuckets-min(r.bucket, pairBuckets))*r.slots)
	return true, nil
}

func (r *pairReader) damaged() error {
	return fmt.Errorf("%w: pairs of segment %d", ErrDamaged, r.seg)
}

// next reads the next position of the row.
func (r *pairReader) next() (bool, error) {
	at, ok := r.row.read()
	if !ok {
		if r.row.bad {
			return false, r.damaged()
		}
		return false, nil
	}
	for at-r.base >= r.slots { // cheaper than a division, as most positions are in the same bucket as the one before
		r.base += r.slots
		r.bucket++
	}
	r.slot = at - r.base
	return true, nil
}

// step reads the next position of the filter.
func (r *pairReader) step() (bool, error) {
	for {
		if ok, err := r.next(); ok || err != nil {
			return ok, err
		}
		if ok, err := r.begin(r.it.Next()); !ok {
			return false, err
		}
	}
}

// Adjacent calls fn with each note that may contain one of the pairs: those in the filter, and those whose pairs are
// not known. It may name a note several times.
func (v *View) Adjacent(pairs []Pair, fn func(note.ID)) error {
	for i := range v.parts {
		p := &v.parts[i]
		slots := uint64(0)
		for ord, id := range p.Docs.Notes {
			if n := p.Docs.slots(ord); p.seg == 0 || n == 0 { // records have no filter
				fn(id)
			} else {
				slots += n
			}
		}
		if slots == 0 {
			continue
		}
		r, err := v.readPairs(p.seg, slots)
		if err != nil {
			return err
		}
		for _, x := range pairs {
			err = errors.Join(err, v.find(r, p.Docs, x, fn))
		}
		if err = errors.Join(err, engineError(r.it.Close())); err != nil {
			return err
		}
	}
	return nil
}

// find calls fn with the notes whose documents have a pair in the filter.
func (v *View) find(r *pairReader, d *Docs, x Pair, fn func(note.ID)) error {
	bucket := x.bucket()
	key := binary.BigEndian.AppendUint32(partKey(spacePairs, v.db, r.seg), uint32(bucket)+1)
	some, err := r.begin(r.it.SeekLT(key))
	ord, base := -1, uint64(0) // the document, and the slot behind its own
	for some && err == nil {
		if some, err = r.next(); !some || err != nil || r.bucket > bucket {
			break
		}
		if r.bucket < bucket {
			continue
		}
		for base <= r.slot {
			ord++
			base += d.slots(ord)
		}
		if n := d.slots(ord); base-n+x.slot(n) == r.slot {
			fn(d.Notes[ord])
		}
	}
	return err
}
