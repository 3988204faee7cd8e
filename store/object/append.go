package object

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"doublet/env"
)

// Append writes content, whose digest the caller has computed, and returns without waiting for the device. The blob can
// be read at once, and is durable when Sync of its Location returns. Append does not keep content. A failed append (a
// full disk) leaves nothing that could be taken for a record, and later appends work.
func (s *Store) Append(d Digest, content []byte) (Location, error) {
	return add(s, d, false, content)
}

// AppendNamed is Store.Append for content with a name that is not its digest, because the content is encrypted. Only
// its checksums can be verified.
func AppendNamed(s *Store, name Digest, content []byte) (Location, error) {
	return add(s, name, true, content)
}

func add(s *Store, d Digest, named bool, content []byte) (Location, error) {
	if len(content) > MaxSize {
		return Location{}, fmt.Errorf("append %d bytes: %w", len(content), ErrTooLarge)
	}
	p := s.pack(d, named, content)
	loc, err := s.write(p)
	p.release()
	if err != nil {
		return Location{}, err
	}
	s.count.appends.Add(1)
	s.count.rawBytes.Add(uint64(len(content)))
	return loc, nil
}

// Copy appends the stored record at loc again after verifying its checksums. It is for rewriting segments: Scan, Copy
// the live records, Sync, commit the new Locations, Remove.
func (s *Store) Copy(loc Location, d Digest) (Location, error) {
	raw, err := s.readRecord(loc, d)
	if err != nil {
		return Location{}, fmt.Errorf("copy: %w", err)
	}
	h, _ := parseHeader(raw, loc.Segment)
	moved, err := s.write(&packed{h: h, head: raw})
	if err == nil {
		s.count.copies.Add(1)
	}
	return moved, err
}

// packed is a record ready to be written. head holds header and table, and also the body if copying it there was cheap;
// otherwise body follows.
type packed struct {
	h    header
	head []byte
	body []byte
	buf  []byte // reused by the next append
}

// maxPooled bounds the size in bytes of buffers that are reused.
const maxPooled = 1 << 20

var packPool = sync.Pool{New: func() any { return new(packed) }}

func (p *packed) release() {
	p.head, p.body = nil, nil
	if cap(p.buf) <= maxPooled {
		packPool.Put(p)
	}
}

const (
	// joinBelow is the content size up to which it is cheaper to copy the content after its header than to write twice.
	joinBelow = 16 << 10
	// compressFrom is the content size from which compression is tried.
	compressFrom = 128
)

// pack builds the record of content: compression and checksums, everything except the segment's number. Named content
// is encrypted, so that compression would save nothing.
func (s *Store) pack(d Digest, named bool, content []byte) *packed {
	size := uint32(len(content))
	p := packPool.Get().(*packed)
	p.h = header{size: size, digest: d, named: named}
	head := headLen(size)
	p.buf = slices.Grow(p.buf[:0], head+min(len(content), maxPooled/2))[:head]
	if named || !s.worthwhile(p, content) || !s.packBlocks(p, content) {
		p.packRaw(content)
	}
	p.h.table = sum(p.buf[recordHeader:head])
	p.head = p.buf
	p.h.stored = uint32(len(p.head) + len(p.body))
	return p
}

func (p *packed) packRaw(content []byte) {
	p.buf = p.buf[:headLen(p.h.size)]
	for i := range blocks(p.h.size) {
		b := content[i*blockSize:][:blockLen(p.h.size, i)]
		putEntry(p.buf[recordHeader+i*tableEntry:], entry{stored: uint32(len(b)), raw: true, sum: sum(b)})
	}
	if len(content) <= joinBelow {
		p.buf = append(p.buf, content...)
	} else {
		p.body = content
	}
}

// packBlocks appends the compressed blocks to p.buf, which begins with room for header and table. If less than a tenth
// is saved, it returns false.
func (s *Store) packBlocks(p *packed, content []byte) bool {
	buf, head := p.buf, len(p.buf)
	defer func() { p.buf = buf }()
	for i := range blocks(p.h.size) {
		b := content[i*blockSize:][:blockLen(p.h.size, i)]
		at := len(buf)
		buf = s.enc.EncodeAll(b, buf)
		raw := len(buf)-at >= len(b)
		if raw {
			buf = append(buf[:at], b...)
		}
		putEntry(buf[recordHeader+i*tableEntry:], entry{stored: uint32(len(buf) - at), raw: raw, sum: sum(buf[at:])})
		if i == 15 && len(buf)-head > 16*blockSize/10*9 {
			return false // 2 MB without a gain: the samples were not typical
		}
	}
	return len(buf)-head <= len(content)/10*9
}

const sample = 4 << 10

// worthwhile compresses three samples of content, so that incompressible content costs little.
func (s *Store) worthwhile(p *packed, content []byte) bool {
	if s.o.NoCompression || len(content) < compressFrom {
		return false
	}
	if len(content) <= 8*sample {
		return true
	}
	head, n := len(p.buf), 0
	for _, at := range [3]int{len(content) / 16, len(content) / 2, len(content) / 8 * 7} {
		p.buf = s.enc.EncodeAll(content[at:][:sample], p.buf[:head])
		n += len(p.buf) - head
	}
	p.buf = p.buf[:head]
	return n <= 3*sample/100*95
}

// write writes p at the end of the active segment.
func (s *Store) write(p *packed) (Location, error) {
	s.appendMu.Lock()
	defer s.appendMu.Unlock()
	if err := s.room(int64(p.h.stored)); err != nil {
		return Location{}, err
	}
	g := s.active
	// Only the holder of appendMu changes the size of the active segment.
	at := g.size
	p.h.put(p.head, g.id)
	n, err := g.w.WriteAt(p.head, at)
	if err == nil && len(p.body) > 0 {
		_, err = g.w.WriteAt(p.body, at+int64(len(p.head)))
	}
	if err != nil {
		// A part of an encrypted file must not be written twice with different content (store/crypt). The torn record
		// is the end of its segment, as after a crash.
		if n > 0 {
			s.sealActive()
		}
		return Location{}, fmt.Errorf("object: append to segment %d: %w", g.id, err)
	}
	s.mu.Lock()
	g.size = at + int64(p.h.stored)
	s.tail = position{g.id, g.size}
	s.mu.Unlock()
	s.count.storedBytes.Add(uint64(p.h.stored))
	return Location{Segment: g.id, Offset: uint32(at), Stored: p.h.stored, Size: p.h.size}, nil
}

// room ensures that the active segment has room for n more bytes. The caller holds appendMu.
func (s *Store) room(n int64) error {
	s.mu.Lock()
	failed, closed := s.failed, s.closed
	s.mu.Unlock()
	switch {
	case closed:
		return ErrClosed
	case failed != nil:
		return failed
	}
	if g := s.active; g != nil && g.size > segmentHeader && g.size+n > s.o.SegmentSize {
		s.sealActive()
	}
	if s.active != nil {
		return nil
	}
	return s.begin()
}

// begin creates the next segment. The caller holds appendMu.
func (s *Store) begin() error {
	if s.next > maxSegment {
		return fmt.Errorf("object: create segment: numbers are used up")
	}
	g := &segment{id: s.next, size: segmentHeader, flushed: true}
	s.next++ // a number whose creation failed is not used again
	w, f, err := s.create(g.id)
	if err != nil {
		// If this fails, the file that is left has no records and is removed by the next Open.
		_ = s.env.FS.Remove(s.path(g.id))
		return fmt.Errorf("object: create segment: %w", err)
	}
	g.w, g.f = w, f
	s.active = g
	s.mu.Lock()
	defer s.mu.Unlock()
	s.segments[g.id] = g
	s.dirty = append(s.dirty, g)
	s.newNames = true
	s.tail = position{g.id, g.size}
	return nil
}

// create creates a segment file with its header. It returns one handle for writing and one for flushing, because a
// handle allows only one such operation at a time.
func (s *Store) create(id uint64) (w, f env.File, err error) {
	if w, err = s.env.FS.OpenReadWrite(s.path(id), category); err != nil {
		return nil, nil, err
	}
	var b [segmentHeader]byte
	var nonce [16]byte
	s.env.Fill(nonce[:])
	putSegmentHeader(b[:], id, nonce)
	if _, err = w.WriteAt(b[:], 0); err == nil {
		if f, err = s.env.FS.OpenReadWrite(s.path(id), category); err == nil {
			return w, f, nil
		}
	}
	return nil, nil, errors.Join(err, w.Close())
}

// category names these writes in the file system's statistics.
const category = "objects"
