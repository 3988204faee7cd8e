package index

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"unsafe"

	"doublet/note"

	"github.com/cockroachdb/pebble/v2"
)

func compareTerms(a, b []byte) int { return bytes.Compare(a, b) }

// View is a snapshot of the build that answers queries for a database. It is used by one goroutine.
type View struct {
	x    *Index
	db   note.DatabaseID
	snap *pebble.Snapshot
	// Build is the state of the build. Cursor is the position of the index in the feed.
	Build  *Build
	Cursor Cursor

	// terms and posts iterate over the dictionaries and the postings of all segments.
	terms, posts *pebble.Iterator
	parts        []Part
	late         []note.ID
	scratch      []byte
}

// Part is a segment, or the records that are in no segment.
type Part struct {
	Docs    *Docs
	seg     uint32
	records []*Piece
}

// Open opens a view of a database, or returns nil if it has no build. The caller must close the view.
func (x *Index) Open(db note.DatabaseID) (*View, error) {
	if err := x.enter(); err != nil {
		return nil, err
	}
	v := &View{x: x, db: db, snap: x.eng.NewSnapshot()}
	ok, err := v.open()
	if err != nil || !ok {
		return nil, errors.Join(err, v.Close())
	}
	return v, nil
}

func (v *View) open() (bool, error) {
	s, err := stateOf(v.snap, v.db)
	if err != nil || s.Active == nil {
		return false, err
	}
	v.Build = s.Active
	if v.Cursor, err = readCursor(v.snap); err != nil {
		return false, err
	}
	for i := range v.Build.Segments {
		d, err := v.docs(v.Build.Segments[i].ID)
		if err != nil {
			return false, err
		}
		v.parts = append(v.parts, Part{Docs: d, seg: v.Build.Segments[i].ID})
	}
	if v.Build.Records > 0 {
		if err := v.records(); err != nil {
			return false, err
		}
	}
	return true, scan(v.snap, partKey(spaceLate, v.db, v.Build.ID), func(k, _ []byte) (bool, error) {
		if len(k) != 21 {
			return false, fmt.Errorf("%w: late note %x", ErrDamaged, k)
		}
		v.late = append(v.late, note.ID(binary.BigEndian.Uint64(k[13:])))
		return true, nil
	})
}

// Close closes the view.
func (v *View) Close() error {
	err := errors.Join(v.closeIterators(), v.snap.Close())
	v.x.leave()
	return engineError(err)
}

func (v *View) closeIterators() error {
	var errs []error
	for _, it := range []*pebble.Iterator{v.terms, v.posts} {
		if it != nil {
			errs = append(errs, it.Close())
		}
	}
	return errors.Join(errs...)
}

// Beside calls fn with a view of the same, for another goroutine. v must not be closed before.
func (v *View) Beside(fn func(*View) error) (err error) {
	b := &View{x: v.x, db: v.db, snap: v.snap, Build: v.Build, Cursor: v.Cursor, parts: v.parts, late: v.late}
	defer func() { err = errors.Join(err, engineError(b.closeIterators())) }()
	return fn(b)
}

// iterate opens an iterator over the rows with a prefix.
func (v *View) iterate(prefix []byte) (*pebble.Iterator, error) {
	it, err := v.snap.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: after(prefix)})
	return it, engineError(err)
}

// Parts returns the parts of the view. Callers must not modify them.
func (v *View) Parts() []Part { return v.parts }

// Late returns the notes whose attachments are not read yet.
func (v *View) Late() []note.ID { return v.late }

// docs returns the documents of a segment.
func (v *View) docs(seg uint32) (*Docs, error) {
	key := docsKey{v.db, seg}
	if d := v.x.docs.get(key); d != nil {
		return d, nil
	}
	d := new(Docs)
	err := scan(v.snap, partKey(spaceDocs, v.db, seg), func(k, b []byte) (bool, error) {
		if !readDocs(d, b) {
			return false, fmt.Errorf("%w: documents %x", ErrDamaged, k)
		}
		return true, nil
	})
	if err == nil {
		v.x.docs.put(key, d)
	}
	return d, err
}

func (v *View) records() error {
	d := new(Docs)
	var list []*Piece
	err := scan(v.snap, partKey(spaceRecord, v.db, v.Build.ID), func(k, b []byte) (bool, error) {
		id, ok := recordNote(k)
		p, whole := readRecord(id, slices.Clone(b))
		if !ok || !whole {
			return false, fmt.Errorf("%w: record %x", ErrDamaged, k)
		}
		d.addPiece(p)
		list = append(list, p)
		return true, nil
	})
	v.parts = append(v.parts, Part{Docs: d, records: list})
	return err
}

// How is the way in which a Pattern matches a term.
type How uint8

// The ways to match.
const (
	Exact How = iota
	Prefix
	Suffix
	Infix
)

// Pattern matches terms.
type Pattern struct {
	How  How
	Text string
}

// Fits reports whether a term matches.
func (p *Pattern) Fits(term []byte) bool {
	switch n := len(p.Text); p.How {
	case Exact:
		return string(term) == p.Text
	case Prefix:
		return len(term) >= n && string(term[:n]) == p.Text
	case Suffix:
		return len(term) >= n && string(term[len(term)-n:]) == p.Text
	}
	return bytes.Contains(term, unsafeBytes(p.Text))
}

// Postings iterates over the documents of a part that contain a term, by ordinal.
type Postings struct {
	// Term is the term. Docs is the number of documents in the part that contain it, as stored in the dictionary.
	Term []byte
	Docs int

	Ord  uint32
	Code Code

	b    []byte
	prev int64
	docs int64 // number of documents in the segment
	one  bool
	bad  bool
}

// Next moves to the next document and reports whether there is one.
func (p *Postings) Next() bool {
	if p.one {
		p.one = false
		return true
	}
	b := p.b
	if len(b) == 0 {
		return false
	}
	var d uint64
	if b[0] < 0x80 {
		d, b = uint64(b[0]), b[1:]
	} else {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			p.bad, p.b = true, nil
			return false
		}
		d, b = v, b[n:]
	}
	p.Code = usual
	if d&1 != 0 {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			p.bad, p.b = true, nil
			return false
		}
		p.Code, b = Code(v), b[n:]
	}
	p.prev += int64(d >> 1)
	if p.prev >= p.docs || p.prev < 0 {
		p.bad, p.b = true, nil
		return false
	}
	p.b, p.Ord = b, uint32(p.prev)
	return true
}

// Mark adds the documents that contain the term in one of the fields: to sure those whose code is Sure, to others the
// rest. Both have a bit for every document of the part. It takes the place of Next.
func (p *Postings) Mark(fields uint16, sure, others []uint64) {
	if p.one {
		p.one = false
		mark(p.Code, fields, int64(p.Ord), sure, others)
		return
	}
	b, at := p.b, p.prev
	p.b = nil
	some := usual.Fields()&fields != 0
	for len(b) > 0 {
		d := uint64(b[0])
		if d < 0x80 {
			b = b[1:]
		} else {
			v, n := binary.Uvarint(b)
			if n <= 0 {
				p.bad = true
				return
			}
			d, b = v, b[n:]
		}
		if at += int64(d >> 1); uint64(at) >= uint64(p.docs) {
			p.bad = true
			return
		}
		switch {
		case d&1 != 0:
			v, n := binary.Uvarint(b)
			if n <= 0 {
				p.bad = true
				return
			}
			b = b[n:]
			mark(Code(v), fields, at, sure, others)
		case some:
			sure[at>>6] |= 1 << (at & 63)
		}
	}
}

func mark(c Code, fields uint16, at int64, sure, others []uint64) {
	switch {
	case c.Fields()&fields == 0:
	case c.Sure():
		sure[at>>6] |= 1 << (at & 63)
	default:
		others[at>>6] |= 1 << (at & 63)
	}
}

// Search calls fn for each matching term of each part, until fn returns false. The arguments of fn are valid only
// during the call.
func (v *View) Search(p Pattern, fn func(part int, list *Postings) (more bool, err error)) error {
	for i := range v.parts {
		more, err := v.searchPart(i, &p, fn)
		if err != nil || !more {
			return err
		}
	}
	return nil
}

// SearchPart is Search in one part.
func (v *View) SearchPart(part int, p Pattern, fn func(part int, list *Postings) (more bool, err error)) error {
	_, err := v.searchPart(part, &p, fn)
	return err
}

func (v *View) searchPart(part int, p *Pattern, fn func(int, *Postings) (bool, error)) (bool, error) {
	at := &v.parts[part]
	if at.seg == 0 {
		for ord, r := range at.records {
			for b := r.Coded; len(b) > 0; {
				term, code, rest, ok := cutTerm(b)
				if b = rest; !ok {
					return false, fmt.Errorf("%w: words of note %d", ErrDamaged, r.Note)
				}
				if p.Fits(term) {
					more, err := fn(part, &Postings{Term: term, Docs: 1, Ord: uint32(ord), Code: code, one: true})
					if err != nil || !more {
						return more, err
					}
				}
			}
		}
		return true, nil
	}
	return v.searchSegment(part, at, p, fn)
}

// searchSegment reads the dictionary blocks that may contain matching terms.
func (v *View) searchSegment(part int, at *Part, p *Pattern, fn func(int, *Postings) (bool, error)) (bool, error) {
	if v.terms == nil {
		var err error
		if v.terms, err = v.iterate(dbKey(spaceTerms, v.db)); err != nil {
			return false, err
		}
	}
	prefix := partKey(spaceTerms, v.db, at.seg)
	b := blockReader{v: v, seg: at.seg, docs: uint32(len(at.Docs.Notes))}
	if p.How != Exact {
		if v.posts == nil {
			var err error
			if v.posts, err = v.iterate(dbKey(spacePosts, v.db)); err != nil {
				return false, err
			}
		}
		b.inOrder = newChunkReader(v.posts, v.db, at.seg)
	}
	for ok := v.seekTerms(prefix, p); ok && bytes.HasPrefix(v.terms.Key(), prefix); ok = v.terms.Next() {
		row, err := v.terms.ValueAndErr()
		if err != nil {
			return false, engineError(err)
		}
		if p.Scans() && !mayHold(row, p.Text) {
			continue
		}
		b.begin(row)
		more, ended, err := b.search(part, p, fn)
		if err != nil || ended {
			return more, err
		}
		if b.bad {
			return false, fmt.Errorf("%w: dictionary of segment %d", ErrDamaged, at.seg)
		}
	}
	return true, engineError(v.terms.Error())
}

// Scans reports whether terms anywhere in a dictionary can fit the pattern, so that all of it is searched.
func (p *Pattern) Scans() bool { return p.How == Infix || p.How == Suffix }

// seekTerms moves to the first dictionary block that may contain matching terms.
func (v *View) seekTerms(prefix []byte, p *Pattern) bool {
	if !p.Scans() {
		// Start at the last block whose first term is not after the text.
		v.scratch = append(append(append(v.scratch[:0], prefix...), p.Text...), 0)
		if v.terms.SeekLT(v.scratch) && bytes.HasPrefix(v.terms.Key(), prefix) {
			return true
		}
	}
	return v.terms.SeekGE(prefix)
}

// search calls fn for each term of the block that fits the pattern. ended is set if no term of a later block can fit,
// or fn wants no more.
func (b *blockReader) search(part int, p *Pattern,
	fn func(int, *Postings) (bool, error)) (more, ended bool, err error) {
	for b.next() {
		if !b.fits(p) {
			if !p.Scans() && string(b.term) > p.Text {
				return true, true, nil
			}
			continue
		}
		list, err := b.postings()
		if err != nil {
			return false, true, err
		}
		more, err := fn(part, list)
		if err == nil && list.bad {
			err = fmt.Errorf("%w: postings of segment %d", ErrDamaged, b.seg)
		}
		if err != nil || !more || p.How == Exact {
			return more, true, err
		}
	}
	return true, false, nil
}

// fits reports whether the current term fits the pattern.
func (b *blockReader) fits(p *Pattern) bool {
	if p.How == Infix {
		return b.contains(p.Text)
	}
	return p.Fits(b.term)
}

// blockReader iterates over the terms of a block.
type blockReader struct {
	v    *View
	seg  uint32
	docs uint32 // number of documents in the segment

	row    []byte // the rest of the block
	offset uint64 // offset of the next list of postings
	term   []byte
	shared int    // number of bytes of term shared with the term before
	found  int    // end of the first match of an Infix in term, 0 if there is none
	count  uint64 // number of documents that contain the term
	inline []byte
	at     uint64
	size   uint64
	bad    bool
	buf    []byte
	list   Postings
	// inOrder, if not nil, reads the chunks of postings for a caller that asks for many lists in their order.
	inOrder *chunkReader
}

func (b *blockReader) begin(row []byte) {
	b.row, b.term, b.found = row, b.term[:0], 0
	if len(row) < len(trigrams{}) {
		b.bad = true
		return
	}
	b.row = row[len(trigrams{}):]
	b.offset = b.uvarint()
}

// uvarint reads a number. Infix searches read every term of a dictionary, so one-byte numbers have a fast path.
func (b *blockReader) uvarint() uint64 {
	if len(b.row) > 0 && b.row[0] < 0x80 {
		v := b.row[0]
		b.row = b.row[1:]
		return uint64(v)
	}
	v, n := binary.Uvarint(b.row)
	if n <= 0 {
		b.bad, b.row = true, nil
		return 0
	}
	b.row = b.row[n:]
	return v
}

func (b *blockReader) next() bool {
	if len(b.row) == 0 || b.bad {
		return false
	}
	if len(b.row) < 2 || int(b.row[0]) > len(b.term) || int(b.row[1]) > len(b.row)-2 {
		b.bad = true
		return false
	}
	end := 2 + int(b.row[1])
	b.shared = int(b.row[0])
	b.term = append(b.term[:b.shared], b.row[2:end]...)
	b.row = b.row[end:]
	b.count = b.uvarint()
	size := b.uvarint()
	b.size, b.inline = size>>1, nil
	if size&1 != 0 {
		if b.size > uint64(len(b.row)) {
			b.bad = true
			return false
		}
		b.inline, b.row = b.row[:b.size], b.row[b.size:]
	} else {
		b.at = b.offset
		b.offset += b.size
	}
	return !b.bad
}

// contains reports whether text occurs in the term. It does not search again the bytes shared with the term before.
func (b *blockReader) contains(text string) bool {
	if text == "" || b.found > 0 && b.found <= b.shared {
		return true
	}
	from := max(0, b.shared-len(text)+1)
	b.found = 0
	if i := bytes.Index(b.term[from:], unsafeBytes(text)); i >= 0 {
		b.found = from + i + len(text)
	}
	return b.found > 0
}

// postings returns the list of the current term.
func (b *blockReader) postings() (*Postings, error) {
	raw := b.inline
	if raw == nil {
		var err error
		if raw, err = b.read(); err != nil {
			return nil, err
		}
	}
	b.list = Postings{Term: b.term, Docs: int(min(b.count, uint64(b.docs))), b: raw, prev: -1, docs: int64(b.docs)}
	return &b.list, nil
}

// read reads a list from the chunks that contain it. The list is valid until the next call.
func (b *blockReader) read() ([]byte, error) {
	b.buf = b.buf[:0]
	for at, end := b.at, b.at+b.size; at < end; {
		row, closer, err := b.chunk(uint32(at / chunkSize))
		if err != nil {
			if errors.Is(err, pebble.ErrNotFound) {
				err = fmt.Errorf("%w: a chunk of segment %d is missing", ErrDamaged, b.seg)
			}
			return nil, engineError(err)
		}
		lo := at % chunkSize
		hi := min(uint64(len(row)), lo+end-at)
		if lo >= hi {
			err := fmt.Errorf("%w: a chunk of segment %d is short", ErrDamaged, b.seg)
			return nil, errors.Join(err, closer.Close())
		}
		if b.inOrder != nil && hi-lo == b.size { // the chunk stays until the next call
			return row[lo:hi], nil
		}
		b.buf = append(b.buf, row[lo:hi]...)
		at += hi - lo
		if err := closer.Close(); err != nil {
			return nil, engineError(err)
		}
	}
	return b.buf, nil
}

// chunk reads a chunk of postings. It is valid until closer is closed.
func (b *blockReader) chunk(n uint32) (row []byte, closer io.Closer, err error) {
	if b.inOrder != nil {
		row, err = b.inOrder.read(n)
		return row, b.inOrder, err
	}
	return b.v.snap.Get(binary.BigEndian.AppendUint32(partKey(spacePosts, b.v.db, b.seg), n))
}

// unsafeBytes returns the bytes of s without a copy. They must not be modified.
func unsafeBytes(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }
