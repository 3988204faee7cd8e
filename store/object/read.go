package object

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
)

// Read appends the content of the record at loc, which must be the blob d, to dst. It verifies checksums. If one does
// not match, it returns a *DamageError and no content. Apart from the content it uses a fixed amount of memory.
func (s *Store) Read(loc Location, d Digest, dst []byte) ([]byte, error) {
	return s.ReadRange(loc, d, 0, int64(loc.Size), dst)
}

// ReadRange appends n bytes of the content from off; fewer if the content ends before. It reads, verifies and unpacks
// only the blocks of 128 KB that the range touches.
func (s *Store) ReadRange(loc Location, d Digest, off, n int64, dst []byte) ([]byte, error) {
	return readRange(s, loc, off, n, dst, func(fn func(*reader) *fault) error { return s.with(loc, d, fn) })
}

// readRange is ReadRange. with calls its argument with the record at loc.
func readRange(s *Store, loc Location, off, n int64, dst []byte, with func(func(*reader) *fault) error) ([]byte,
	error) {
	if off < 0 || n < 0 {
		return nil, fmt.Errorf("object: read: bad range (%d, %d)", off, n)
	}
	off = min(off, int64(loc.Size))
	n = min(n, int64(loc.Size)-off)
	s.Eviction.use(loc.Segment, n)
	err := with(func(r *reader) *fault {
		s.count.reads.Add(1)
		dst = slices.Grow(dst, int(n))
		for i := int(off / blockSize); i < blocks(loc.Size) && n > 0; i++ {
			at := int(off - int64(i)*blockSize)
			take := int(min(n, int64(blockLen(loc.Size, i)-at)))
			end := len(dst) + take
			if flt := r.block(i, at, dst[len(dst):end:end]); flt != nil {
				return flt
			}
			dst = dst[:end]
			off, n = off+int64(take), n-int64(take)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return dst, nil
}

// Verify reads the whole record at loc and compares its content with the digest.
func (s *Store) Verify(loc Location, d Digest) error {
	return s.with(loc, d, (*reader).verify)
}

// with calls fn with the record at loc and converts its fault to a DamageError.
func (s *Store) with(loc Location, d Digest, fn func(*reader) *fault) error {
	h, err := s.acquire(loc.Segment)
	if errors.Is(err, errMissing) {
		return s.damage(loc, d, &fault{"segment file is missing", err})
	}
	if err != nil {
		return err
	}
	defer s.release(h)
	return withIn(s, h.f, loc, d, fn)
}

// withIn is with for a segment that is open.
func withIn(s *Store, f Source, loc Location, d Digest, fn func(*reader) *fault) error {
	r := readerPool.Get().(*reader)
	defer readerPool.Put(r)
	flt := r.load(s, f, loc, &d)
	if flt == nil {
		flt = fn(r)
	}
	r.f = nil
	switch {
	case flt == nil:
		return nil
	case errors.Is(flt.err, ErrAway):
		return fmt.Errorf("segment %d: %w", loc.Segment, flt.err)
	}
	return s.damage(loc, d, flt)
}

// fault describes what is wrong with a record.
type fault struct {
	reason string
	err    error
}

func (s *Store) damage(loc Location, d Digest, flt *fault) error {
	s.count.damaged.Add(1)
	return &DamageError{Segment: loc.Segment, Offset: int64(loc.Offset), Digest: d, Reason: flt.reason, Err: flt.err}
}

var (
	faultHeader   = &fault{reason: "record header does not match"}
	faultLocation = &fault{reason: "location cannot be one of this record"}
	faultTable    = &fault{reason: "block table does not match its checksum"}
	faultBlock    = &fault{reason: "block does not match its checksum"}
	faultDigest   = &fault{reason: "content does not match its digest"}
)

func faultRead(err error) *fault { return &fault{"read failed", err} }

// readFull reads len(b) bytes at off.
func readFull(f Source, b []byte, off int64) error {
	n, err := f.ReadAt(b, off)
	switch {
	case n == len(b):
		return nil
	case err == nil || errors.Is(err, io.EOF):
		return io.ErrUnexpectedEOF
	}
	return err
}

// reader reads one record. Its buffers are reused for the next record. They have a fixed size, except for the table of
// a very large record.
type reader struct {
	s    *Store
	f    Source
	loc  Location
	h    header
	head []byte // header and table
	// next is a block, and nextAt its position in the file.
	next   int
	nextAt int64
	// ahead means that in holds the whole record.
	ahead bool
	in    [recordHeader + tableEntry + blockSize]byte
	out   [blockSize]byte
}

var readerPool = sync.Pool{New: func() any { return new(reader) }}

// load reads and verifies header and table. If d is nil, it accepts any digest.
func (r *reader) load(s *Store, f Source, loc Location, d *Digest) *fault {
	n := headLen(loc.Size)
	if loc.Size > MaxSize || uint64(loc.Stored) < uint64(n) || uint64(loc.Stored) > uint64(n)+uint64(loc.Size) {
		return faultLocation
	}
	r.s, r.f, r.loc = s, f, loc
	raw := uint64(loc.Stored) == uint64(n)+uint64(loc.Size)
	// One read fetches all of a small record. The body of a large uncompressed one is read directly into its
	// destination.
	r.ahead = int(loc.Stored) <= len(r.in) && (!raw || loc.Size <= joinBelow)
	if err := r.readHead(n); err != nil {
		return faultRead(err)
	}
	h, ok := parseHeader(r.head, loc.Segment)
	if !ok || h.size != loc.Size || h.stored != loc.Stored || (d != nil && h.digest != *d) {
		return faultHeader
	}
	if !checkTable(&h, r.head[recordHeader:]) {
		return faultTable
	}
	r.h = h
	r.next, r.nextAt = 0, int64(loc.Offset)+int64(n)
	return nil
}

// readHead reads header and table, n bytes, and if ahead is set the rest of the record too.
func (r *reader) readHead(n int) error {
	if !r.ahead {
		r.head = slices.Grow(r.head[:0], n)[:n]
		return readFull(r.f, r.head, int64(r.loc.Offset))
	}
	err := readFull(r.f, r.in[:r.loc.Stored], int64(r.loc.Offset))
	r.head = append(r.head[:0], r.in[:n]...)
	return err
}

// seek returns the table row and the position in the file of block i.
func (r *reader) seek(i int) (entry, int64) {
	if i < r.next {
		r.next, r.nextAt = 0, int64(r.loc.Offset)+int64(len(r.head))
	}
	table := r.head[recordHeader:]
	for ; r.next < i; r.next++ {
		r.nextAt += int64(tableRow(table, r.next).stored)
	}
	return tableRow(table, i), r.nextAt
}

// block fills dst with the content of block i from its byte at on.
func (r *reader) block(i, at int, dst []byte) *fault {
	e, pos := r.seek(i)
	whole := len(dst) == blockLen(r.h.size, i)
	var stored []byte
	switch {
	case r.ahead:
		stored = r.in[pos-int64(r.loc.Offset):][:e.stored]
	case e.raw && whole:
		stored = dst
	default:
		stored = r.in[:e.stored]
	}
	if !r.ahead {
		if err := readFull(r.f, stored, pos); err != nil {
			return faultRead(err)
		}
	}
	if sum(stored) != e.sum {
		return faultBlock
	}
	if e.raw {
		if !whole || r.ahead {
			copy(dst, stored[at:])
		}
		return nil
	}
	into := dst
	if !whole {
		into = r.out[:blockLen(r.h.size, i)]
	}
	// The capacity limits the unpacked size of a frame to its block.
	got, err := r.s.dec.DecodeAll(stored, into[:0:len(into)])
	if err != nil {
		return &fault{"block cannot be unpacked", err}
	}
	if len(got) != len(into) {
		return &fault{reason: "block has another length unpacked"}
	}
	if !whole {
		copy(dst, got[at:])
	}
	return nil
}

// verify compares the content with the digest, block by block. The content of a named record has only checksums.
func (r *reader) verify() *fault {
	if r.h.named {
		return r.verifySums()
	}
	hash := sha256.New()
	for i := range blocks(r.h.size) {
		b := r.out[:blockLen(r.h.size, i)]
		if flt := r.block(i, 0, b); flt != nil {
			return flt
		}
		hash.Write(b)
	}
	if Digest(hash.Sum(nil)) != r.h.digest {
		return faultDigest
	}
	return nil
}

// verifySums checks the checksums of the stored blocks without unpacking them.
func (r *reader) verifySums() *fault {
	for i := range blocks(r.h.size) {
		e, pos := r.seek(i)
		if err := readFull(r.f, r.in[:e.stored], pos); err != nil {
			return faultRead(err)
		}
		if sum(r.in[:e.stored]) != e.sum {
			return faultBlock
		}
	}
	return nil
}

// readRecord returns a record as it is stored, with its checksums verified.
func (s *Store) readRecord(loc Location, d Digest) (raw []byte, err error) {
	err = s.with(loc, d, func(r *reader) *fault {
		raw = make([]byte, r.h.stored)
		if err := readFull(r.f, raw, int64(loc.Offset)); err != nil {
			return faultRead(err)
		}
		h, ok := parseHeader(raw, loc.Segment)
		if !ok || h != r.h {
			return faultHeader
		}
		n := headLen(h.size)
		if !checkTable(&h, raw[recordHeader:n]) {
			return faultTable
		}
		at := n
		for i := range blocks(h.size) {
			e := tableRow(raw[recordHeader:], i)
			if sum(raw[at:at+int(e.stored)]) != e.sum {
				return faultBlock
			}
			at += int(e.stored)
		}
		return nil
	})
	return raw, err
}
