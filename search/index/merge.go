package index

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"doublet/note"

	"github.com/cockroachdb/pebble/v2"
)

// mergeable returns the segments of a build to merge: enough of one size, or all of them if too many of their notes no
// longer exist. It returns nil if there is nothing to do.
func (b *Build) mergeable() []Segment {
	if b.Writing != 0 {
		return nil
	}
	if b.Gone > 2*recordsMax && b.Gone > b.Notes/3 {
		return b.Segments
	}
	var tiers [16][]Segment
	for _, s := range b.Segments {
		if s.Docs < segmentMax {
			t := min(s.tier(), len(tiers)-1)
			tiers[t] = append(tiers[t], s)
		}
	}
	for _, t := range tiers {
		if len(t) >= fanout {
			return t
		}
	}
	return nil
}

// Mergeable reports whether Merge has something to do.
func (b *Build) Mergeable() bool { return b != nil && b.mergeable() != nil }

// Merge merges several segments of a build, if there are enough. alive reports which notes still exist. Merge calls
// pause after each batch; pause may wait, or end the merge with an error. Other goroutines may write during the merge.
func (x *Index) Merge(db note.DatabaseID, next bool, alive func([]note.ID) ([]bool, error),
	pause func() error) (merged bool, err error) {
	var id uint32
	var list []Segment
	err = x.Update(func(w *Writer) error {
		s, err := w.State(db)
		b := s.build(next)
		if err != nil || b == nil {
			return err
		}
		if list = b.mergeable(); list == nil {
			return nil
		}
		b.Writing = s.number()
		id = b.Writing
		return nil
	})
	if err != nil || list == nil {
		return false, err
	}
	info, gone, err := x.join(db, id, list, alive, pause)
	e := x.Update(func(w *Writer) error {
		s, e := w.State(db)
		if e != nil {
			return e
		}
		b := s.holding(id)
		if b == nil || err != nil { // dropped meanwhile, or the merge failed
			if b != nil {
				b.Writing = 0
			}
			dropSegment(w.b, db, id)
			return nil
		}
		b.Writing = 0
		whole := len(b.Segments)
		b.Segments = slices.DeleteFunc(b.Segments, func(s Segment) bool {
			return slices.ContainsFunc(list, func(o Segment) bool { return o.ID == s.ID })
		})
		if info.Docs > 0 {
			b.Segments = append(b.Segments, info)
		} else {
			dropSegment(w.b, db, id)
		}
		b.Gone -= min(b.Gone, gone)
		b.Notes -= min(b.Notes, gone)
		if len(list) == whole { // only notes in records may still be gone
			b.Gone = min(b.Gone, uint64(b.Records))
		}
		for _, s := range list {
			dropSegment(w.b, db, s.ID)
		}
		merged = true
		return nil
	})
	return merged, errors.Join(err, e)
}

func (s *State) build(next bool) *Build {
	if next {
		return s.Next
	}
	return s.Active
}

// holding returns the build that is writing a segment, or nil.
func (s *State) holding(id uint32) *Build {
	for _, b := range []*Build{s.Active, s.Next} {
		if b != nil && b.Writing == id {
			return b
		}
	}
	return nil
}

// source is an input segment of a merge.
type source struct {
	docs *Docs
	// to maps each document to its new ordinal, or -1 if it is dropped.
	to  []int32
	it  *pebble.Iterator
	b   blockReader
	has bool
	// pairs is the filter, which has a next position if more is set. slots maps each of its slots to the new one, or to
	// -1.
	pairs *pairReader
	more  bool
	slots []int64
}

// open opens the iterators of a source and moves to its first term. The caller closes the source in any case.
func (s *source) open(v *View) (err error) {
	if s.it, err = v.iterate(partKey(spaceTerms, v.db, s.b.seg)); err != nil {
		return err
	}
	chunks, err := v.iterate(partKey(spacePosts, v.db, s.b.seg))
	if err != nil {
		return err
	}
	s.b.inOrder = newChunkReader(chunks, v.db, s.b.seg)
	return s.step(s.it.First())
}

func (s *source) close() error {
	var errs []error
	if s.it != nil {
		errs = append(errs, s.it.Close())
	}
	if s.b.inOrder != nil {
		errs = append(errs, s.b.inOrder.it.Close())
	}
	return engineError(errors.Join(errs...))
}

// chunkReader reads the chunks of a segment's postings. Merges and searches for parts of words ask for the lists in the
// order in which they were written, so that the next chunk is the one read last or a little behind it, and costs no
// look-up from the beginning.
type chunkReader struct {
	it  *pebble.Iterator
	key []byte // of the segment's postings
	// next is the number behind the chunk read last, 0 if there is none.
	next uint32
}

func newChunkReader(it *pebble.Iterator, db note.DatabaseID, seg uint32) *chunkReader {
	return &chunkReader{it: it, key: partKey(spacePosts, db, seg)}
}

// read returns chunk n. It is valid until the next call.
func (c *chunkReader) read(n uint32) ([]byte, error) {
	size := len(c.key)
	switch {
	case c.next == n+1:
	case c.next == n && n > 0:
		c.it.Next()
	default:
		c.it.SeekGE(binary.BigEndian.AppendUint32(c.key, n))
	}
	c.next = n + 1
	if !c.it.Valid() {
		return nil, cmp.Or(c.it.Error(), pebble.ErrNotFound)
	}
	if k := c.it.Key(); len(k) != size+4 || !bytes.Equal(k[:size], c.key) || binary.BigEndian.Uint32(k[size:]) != n {
		c.next = 0
		return nil, pebble.ErrNotFound
	}
	return c.it.ValueAndErr()
}

// Close does nothing: the chunk stays valid until another one is read.
func (c *chunkReader) Close() error { return nil }

// leastTerm appends the first of the sources' next terms to dst. It returns false after the last term.
func leastTerm(dst []byte, sources []*source) (term []byte, some bool) {
	for _, s := range sources {
		if s.has && (!some || bytes.Compare(s.b.term, dst) < 0) {
			dst, some = append(dst[:0], s.b.term...), true
		}
	}
	return dst, some
}

// join merges segments into one. gone is the number of notes dropped.
func (x *Index) join(db note.DatabaseID, id uint32, list []Segment, alive func([]note.ID) ([]bool, error),
	pause func() error) (info Segment, gone uint64, err error) {
	if err := x.enter(); err != nil {
		return info, 0, err
	}
	defer x.leave()
	v := &View{x: x, db: db, snap: x.eng.NewSnapshot()}
	defer func() { err = errors.Join(err, engineError(v.snap.Close())) }()
	sources := make([]*source, len(list))
	for i, s := range list {
		d, err := v.docs(s.ID)
		if err != nil {
			return info, 0, err
		}
		sources[i] = &source{docs: d, to: make([]int32, len(d.Notes)),
			b: blockReader{v: v, seg: s.ID, docs: uint32(len(d.Notes))}}
	}
	docs, gone, err := place(sources, alive)
	if err != nil {
		return info, 0, err
	}
	w := x.newSegment(db, id, pause)
	w.docs(docs)
	for _, s := range sources {
		defer func() { err = errors.Join(err, s.close()) }()
		if err := s.open(v); err != nil {
			return info, 0, errors.Join(err, w.batch.Close())
		}
	}
	var term []byte
	for some := false; w.err == nil; {
		if term, some = leastTerm(term[:0], sources); !some {
			break
		}
		for _, s := range sources {
			if s.has && bytes.Equal(s.b.term, term) {
				if err := s.move(w); err != nil {
					return info, 0, errors.Join(err, w.batch.Close())
				}
			}
		}
		w.term(term)
	}
	if err := v.joinPairs(w, docs, sources); err != nil {
		return info, 0, errors.Join(err, w.batch.Close())
	}
	b := x.eng.NewBatch()
	defer b.Close()
	if info, err = w.finish(b); err == nil {
		err = engineError(b.Commit(pebble.NoSync))
	}
	return info, gone, err
}

// joinPairs writes the filter of the new segment, whose documents are docs.
func (v *View) joinPairs(w *segmentWriter, docs *Docs, sources []*source) (err error) {
	at := make([]uint64, len(docs.Notes)) // the first slot of each document
	next := uint64(0)
	for ord := range docs.Notes {
		at[ord] = next
		next += docs.slots(ord)
	}
	for _, s := range sources {
		defer func() { err = errors.Join(err, s.closePairs()) }()
		if err := s.openPairs(v, at); err != nil {
			return err
		}
	}
	out := w.newPairs(docs)
	for bucket := range uint64(pairBuckets) {
		for _, s := range sources {
			for s.more && s.pairs.bucket == bucket && w.err == nil {
				if to := s.slots[s.pairs.slot]; to >= 0 {
					out.add(bucket, uint64(to))
				}
				if s.more, err = s.pairs.step(); err != nil {
					return err
				}
			}
		}
	}
	out.end()
	return nil
}

// openPairs opens the filter of a source and moves to its first position. at is the first slot of each document of the
// new segment. The caller closes the filter in any case.
func (s *source) openPairs(v *View, at []uint64) (err error) {
	s.slots = make([]int64, 0, s.docs.allSlots())
	for ord, to := range s.to {
		for i := range s.docs.slots(ord) {
			if to < 0 {
				s.slots = append(s.slots, -1)
			} else {
				s.slots = append(s.slots, int64(at[to]+i))
			}
		}
	}
	if s.pairs, err = v.readPairs(s.b.seg, uint64(len(s.slots))); err != nil {
		return err
	}
	if s.more, err = s.pairs.begin(s.pairs.it.First()); s.more {
		s.more, err = s.pairs.step()
	}
	return err
}

func (s *source) closePairs() error {
	if s.pairs == nil || s.pairs.it == nil {
		return nil
	}
	return engineError(s.pairs.it.Close())
}

// place assigns ordinals in the new segment to the documents of the sources.
func place(sources []*source, alive func([]note.ID) ([]bool, error)) (*Docs, uint64, error) {
	docs, gone := new(Docs), uint64(0)
	// Keep only the latest piece of a note whose words can change.
	type piece struct {
		id   note.ID
		kind Kind
	}
	latest := make(map[piece][2]int)
	for i, s := range sources {
		for ord, f := range s.docs.Flags {
			if f&Mutable != 0 {
				latest[piece{s.docs.Notes[ord], s.docs.Kind(uint32(ord))}] = [2]int{i, ord}
			}
		}
	}
	for i, s := range sources {
		there, err := alive(s.docs.Notes)
		if err != nil {
			return nil, 0, err
		}
		for ord, id := range s.docs.Notes {
			last, mutable := latest[piece{id, s.docs.Kind(uint32(ord))}]
			switch {
			case !there[ord]:
				if s.docs.Kind(uint32(ord)) == Main {
					gone++
				}
				s.to[ord] = -1
			case mutable && last != [2]int{i, ord}:
				s.to[ord] = -1
			default:
				s.to[ord] = int32(len(docs.Notes))
				docs.add(id, s.docs.Dates[ord], s.docs.Lengths[ord], s.docs.Flags[ord])
			}
		}
	}
	return docs, gone, nil
}

// step moves to the next term. begin is set if the iterator is at a block that was not begun.
func (s *source) step(begin bool) error {
	if !begin && s.b.next() {
		s.has = true
		return nil
	}
	s.has = false
	for {
		if s.b.bad {
			return fmt.Errorf("%w: dictionary of segment %d", ErrDamaged, s.b.seg)
		}
		if !begin && !s.it.Next() || !s.it.Valid() {
			return engineError(s.it.Error())
		}
		begin = false
		row, err := s.it.ValueAndErr()
		if err != nil {
			return engineError(err)
		}
		s.b.begin(row)
		if s.b.next() {
			s.has = true
			return nil
		}
	}
}

// move writes the postings of the current term and moves to the next term.
func (s *source) move(w *segmentWriter) error {
	list, err := s.b.postings()
	if err != nil {
		return err
	}
	for list.Next() {
		if to := s.to[list.Ord]; to >= 0 {
			w.posting(uint32(to), list.Code)
		}
	}
	if list.bad {
		return fmt.Errorf("%w: postings of segment %d", ErrDamaged, s.b.seg)
	}
	return s.step(false)
}

// Clean removes incomplete segments, which a crash during a merge leaves behind.
func (x *Index) Clean() error {
	var list []note.DatabaseID
	err := x.States(func(db note.DatabaseID, s *State) bool {
		if s.Active != nil && s.Active.Writing != 0 || s.Next != nil && s.Next.Writing != 0 {
			list = append(list, db)
		}
		return true
	})
	for _, db := range list {
		err = errors.Join(err, x.Update(func(w *Writer) error {
			s, err := w.State(db)
			if err != nil {
				return err
			}
			for _, b := range []*Build{s.Active, s.Next} {
				if b != nil && b.Writing != 0 {
					dropSegment(w.b, db, b.Writing)
					b.Writing = 0
				}
			}
			return nil
		}))
	}
	return err
}
