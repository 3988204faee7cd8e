package object

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// Check is the extent to which a scan verifies records.
type Check int

const (
	// CheckSums reads everything and verifies all checksums. It is for rebuilding an index.
	CheckSums Check = iota
	// CheckHeaders reads only headers. It is for choosing records to Copy, which verifies the rest.
	CheckHeaders
	// CheckDigests unpacks everything and compares it with the digests. It is the full check.
	CheckDigests
)

// DamagedRange is a part of a segment that holds no readable record.
type DamagedRange struct {
	Segment  uint64
	From, To int64
	// Digest names the record if its header is intact and only the rest is damaged.
	Digest    Digest
	HasDigest bool
	// Tail means that nothing readable follows. After a crash this is normal for the last segment: data that was not
	// durable yet is torn. Only the index shows which of it was acknowledged.
	Tail   bool
	Reason string
}

// ScanOptions are the options of Scan. The zero value verifies checksums and reports no damage.
type ScanOptions struct {
	Check Check
	// Damaged is called for every range without a readable record, in ascending order.
	Damaged func(DamagedRange)
}

// Scan calls fn with every readable record of a segment in the order of the file. If fn returns an error, Scan ends
// with that error. The records are durable. fn may call Read and Copy. A digest may occur more than once.
//
// If the header of a record is intact, its length leads to the next record, even if the rest is damaged. Otherwise Scan
// searches for the next whole record. A blob may itself contain bytes that look like a record. So from then on Scan
// accepts a record only if its content matches its digest.
func (s *Store) Scan(segment uint64, o ScanOptions, fn func(Digest, Location) error) error {
	s.mu.Lock()
	g := s.segments[segment]
	if g == nil {
		s.mu.Unlock()
		return fmt.Errorf("scan segment %d: %w", segment, ErrNotFound)
	}
	end := g.size // read before the flush, so that the flush covers all of it
	s.mu.Unlock()
	h, err := s.acquire(segment)
	if errors.Is(err, errMissing) {
		return s.damage(Location{Segment: segment}, Digest{}, &fault{"segment file is missing", err})
	}
	if err != nil {
		return fmt.Errorf("scan: %w", err)
	}
	defer s.release(h)
	if err := s.settle(g); err != nil {
		return fmt.Errorf("scan: %w", err)
	}
	return scanIn(s, h.f, h.away, segment, end, o, fn)
}

// scanIn is Scan for a segment that is open and has end bytes. away means that it is read from its copy.
func scanIn(s *Store, f Source, away bool, segment uint64, end int64, o ScanOptions,
	fn func(Digest, Location) error) error {
	r := readerPool.Get().(*reader)
	defer readerPool.Put(r)
	src := &steady{Source: f, away: away}
	r.s, r.f = s, src
	c := &scan{s: s, o: o, fn: fn, id: segment, end: end, src: src, r: r, bad: -1, budget: verifyBudget * end}
	err := c.run()
	r.f = nil
	switch {
	case src.err == nil:
		return err
	case errors.Is(src.err, ErrAway):
		return fmt.Errorf("scan segment %d: %w", segment, src.err)
	}
	return s.damage(Location{Segment: segment}, Digest{}, &fault{"copy of the segment cannot be read", src.err})
}

// steady remembers the first failed read of a copy. A scan ends there: it takes for damage only what a disk cannot
// read. Otherwise a rewrite would give up the objects that it cannot reach.
type steady struct {
	Source
	away bool
	err  error
}

// ReadAt implements io.ReaderAt.
func (s *steady) ReadAt(p []byte, off int64) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	n, err := s.Source.ReadAt(p, off)
	if s.away && err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// verifyBudget bounds, as a multiple of a segment's size, the bytes read to verify finds that turn out not to be
// records. So even a segment full of forged headers takes linear time.
const verifyBudget = 8

// scan is one pass over a segment.
type scan struct {
	s      *Store
	o      ScanOptions
	fn     func(Digest, Location) error
	id     uint64
	end    int64
	src    *steady
	r      *reader
	bad    int64 // start of the unreadable range; -1 if there is none
	broken bool  // a record was searched for: lengths are no longer trusted without verification
	budget int64
}

func (c *scan) run() error {
	var b [segmentHeader]byte
	if err := readFull(c.src, b[:], 0); err != nil {
		c.report(DamagedRange{From: 0, To: min(segmentHeader, c.end), Reason: "segment header cannot be read"})
	} else if _, ok := checkSegmentHeader(b[:], c.id); !ok {
		c.report(DamagedRange{From: 0, To: min(segmentHeader, c.end),
			Reason: "segment header does not match its checksum"})
	}
	for pos := int64(segmentHeader); pos < c.end && c.src.err == nil; {
		loc, h, ok := c.header(pos)
		if ok {
			flt := c.check(loc, h)
			if flt == nil {
				c.endBad(pos)
				if err := c.fn(h.digest, loc); err != nil {
					return err
				}
				pos = loc.End()
				continue
			}
			if !c.broken {
				// The header is intact and its position certain, so its length leads to the next record.
				c.report(DamagedRange{From: pos, To: loc.End(), Digest: h.digest, HasDigest: true,
					Tail: loc.End() >= c.end, Reason: flt.reason})
				pos = loc.End()
				continue
			}
			c.budget -= int64(loc.Stored)
		}
		if c.bad < 0 {
			c.bad = pos
		}
		c.broken = true
		if c.budget < 0 {
			break
		}
		pos = c.search(pos + 1)
	}
	c.endBad(c.end)
	return nil
}

// header reads the record header at pos.
func (c *scan) header(pos int64) (Location, header, bool) {
	var b [recordHeader]byte
	if c.end-pos < recordHeader || readFull(c.src, b[:], pos) != nil {
		return Location{}, header{}, false
	}
	h, ok := parseHeader(b[:], c.id)
	if !ok || pos+int64(h.stored) > c.end {
		return Location{}, header{}, false
	}
	return Location{Segment: c.id, Offset: uint32(pos), Stored: h.stored, Size: h.size}, h, true
}

// check verifies the record to the extent requested, and fully after a search.
func (c *scan) check(loc Location, h header) *fault {
	if c.o.Check == CheckHeaders && !c.broken {
		return nil
	}
	if flt := c.r.load(c.s, c.src, loc, &h.digest); flt != nil {
		return flt
	}
	if c.o.Check == CheckDigests || c.broken {
		return c.r.verify()
	}
	return c.r.verifySums()
}

// search returns the position of the next record magic at or after pos, or the end.
func (c *scan) search(pos int64) int64 {
	for pos < c.end && c.src.err == nil {
		buf := c.r.in[:min(int64(len(c.r.in)), c.end-pos)]
		if readFull(c.src, buf, pos) != nil {
			// A part of the device that cannot be read: skip it one sector at a time.
			buf = buf[:min(512, len(buf))]
			if readFull(c.src, buf, pos) != nil {
				pos += int64(len(buf))
				continue
			}
		}
		if i := bytes.Index(buf, recordMagic[:]); i >= 0 {
			return pos + int64(i)
		}
		if pos+int64(len(buf)) >= c.end {
			return c.end
		}
		pos += int64(max(1, len(buf)-len(recordMagic)+1))
	}
	return c.end
}

// endBad reports the unreadable range that ends at pos, if there is one.
func (c *scan) endBad(pos int64) {
	if c.bad < 0 {
		return
	}
	c.report(DamagedRange{From: c.bad, To: pos, Tail: pos >= c.end, Reason: "no whole record"})
	c.bad = -1
}

func (c *scan) report(d DamagedRange) {
	if c.src.err != nil {
		return
	}
	d.Segment = c.id
	c.s.count.damaged.Add(1)
	if c.o.Damaged != nil {
		c.o.Damaged(d)
	}
}
