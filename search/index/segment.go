package index

import (
	"encoding/binary"
	"fmt"

	"doublet/note"

	"github.com/cockroachdb/pebble/v2"
)

// Sizes of segments and their parts.
const (
	// recordsMax and recordBytesMax are the number and the total bytes of waiting records at which they become a
	// segment.
	recordsMax     = 64
	recordBytesMax = 512 << 10
	// fanout is the number of segments of one size that are merged into one of the next size.
	fanout = 8
	// segmentMax is the number of documents from which a segment is not merged with others of its size.
	segmentMax = 1 << 18
	// blockSize is the approximate size of a dictionary block, and chunkSize the size of a chunk of postings, in bytes.
	blockSize = 4 << 10
	chunkSize = 8 << 10
	// inlineMax is the maximum size in bytes of a list of postings that is stored within the dictionary.
	inlineMax = 12
	// batchSize is the number of bytes written in one batch.
	batchSize = 512 << 10
)

// A dictionary block begins with the trigrams of its terms. The offset of its first list in the segment's postings
// follows, then the terms in order. For each term: the number of bytes shared with the term before, the number of other
// bytes and these bytes, the number of documents, and the length of its list × 2, + 1 if the list follows inline.
//
// A list of postings is a list of ordinals. Each is stored as its distance from the one before × 2, + 1 if a code
// follows. Without one, the posting has the most common code (see usual).

// segmentWriter writes a segment. The caller adds terms in order; for each term, first its postings in order, then the
// term.
type segmentWriter struct {
	x     *Index
	db    note.DatabaseID
	info  Segment
	batch *pebble.Batch
	err   error
	// pause, if not nil, is called after each batch.
	pause func() error

	grams trigrams
	block []byte
	first []byte // the first term of block
	last  []byte // the last term written
	list  []byte // the postings of the current term
	prev  int64
	count uint32

	chunk  []byte
	chunks uint32
	offset uint64
}

func (x *Index) newSegment(db note.DatabaseID, id uint32, pause func() error) *segmentWriter {
	return &segmentWriter{x: x, db: db, info: Segment{ID: id}, batch: x.eng.NewBatch(), pause: pause, prev: -1}
}

// docs writes the documents of the segment.
func (w *segmentWriter) docs(d *Docs) {
	w.info.Docs = uint32(len(d.Notes))
	for lo := 0; lo < len(d.Notes); lo += docsBlock {
		key := binary.BigEndian.AppendUint32(partKey(spaceDocs, w.db, w.info.ID), uint32(lo))
		w.put(key, appendDocs(nil, d, lo, min(lo+docsBlock, len(d.Notes))))
	}
}

// posting adds a document to the list of the current term.
func (w *segmentWriter) posting(ord uint32, c Code) {
	v := uint64(int64(ord)-w.prev) << 1
	if c == usual {
		w.list = binary.AppendUvarint(w.list, v)
	} else {
		w.list = binary.AppendUvarint(binary.AppendUvarint(w.list, v|1), uint64(c))
	}
	w.prev = int64(ord)
	w.count++
}

// term ends the current list and writes it with its term.
func (w *segmentWriter) term(t []byte) {
	if w.count == 0 {
		return
	}
	if len(w.block) >= blockSize {
		w.endBlock()
	}
	shared := 0
	if len(w.block) == 0 {
		w.block = binary.AppendUvarint(w.block, w.offset)
		w.first = append(w.first[:0], t...)
	} else {
		for shared < len(t) && shared < len(w.last) && t[shared] == w.last[shared] {
			shared++
		}
	}
	w.last = append(w.last[:0], t...)
	w.grams.add(t, shared)
	w.block = append(w.block, byte(shared), byte(len(t)-shared))
	w.block = append(w.block, t[shared:]...)
	w.block = binary.AppendUvarint(w.block, uint64(w.count))
	if len(w.list) <= inlineMax {
		w.block = append(binary.AppendUvarint(w.block, uint64(len(w.list))<<1|1), w.list...)
	} else {
		w.block = binary.AppendUvarint(w.block, uint64(len(w.list))<<1)
		w.postings(w.list)
	}
	w.info.Terms++
	w.list, w.prev, w.count = w.list[:0], -1, 0
}

func (w *segmentWriter) postings(b []byte) {
	w.offset += uint64(len(b))
	for len(b) > 0 {
		n := min(len(b), chunkSize-len(w.chunk))
		w.chunk = append(w.chunk, b[:n]...)
		b = b[n:]
		if len(w.chunk) == chunkSize {
			w.endChunk()
		}
	}
}

func (w *segmentWriter) endChunk() {
	if len(w.chunk) > 0 {
		w.put(binary.BigEndian.AppendUint32(partKey(spacePosts, w.db, w.info.ID), w.chunks), w.chunk)
		w.chunk = w.chunk[:0]
		w.chunks++
	}
}

func (w *segmentWriter) endBlock() {
	if len(w.block) > 0 {
		w.put(append(partKey(spaceTerms, w.db, w.info.ID), w.first...),
			append(w.grams[:len(w.grams):len(w.grams)], w.block...))
		w.block, w.grams = w.block[:0], trigrams{}
	}
}

func (w *segmentWriter) put(k, v []byte) {
	w.info.Bytes += uint64(len(k) + len(v))
	if w.err == nil {
		w.err = w.batch.Set(k, v, nil)
	}
	// A merge, whose segment the state names from the beginning, is written in several batches. Any other segment is in
	// the batch of the state that names it, so that a crash leaves all of it or nothing.
	if w.pause != nil && w.batch.Len() >= batchSize {
		w.flush()
	}
}

func (w *segmentWriter) flush() {
	if w.err == nil {
		w.err = w.batch.Commit(pebble.NoSync)
	}
	_ = w.batch.Close()
	w.batch = w.x.eng.NewBatch()
	if w.err == nil && w.pause != nil {
		w.err = w.pause()
	}
}

// finish adds the remaining rows to b and returns the description of the segment.
func (w *segmentWriter) finish(b *pebble.Batch) (Segment, error) {
	w.endBlock()
	w.endChunk()
	if w.err == nil {
		w.err = b.Apply(w.batch, nil)
	}
	_ = w.batch.Close()
	if w.err != nil {
		return w.info, fmt.Errorf("index: write a segment: %w", w.err)
	}
	return w.info, nil
}

// dropSegment removes a segment.
func dropSegment(b *pebble.Batch, db note.DatabaseID, seg uint32) {
	for _, space := range []byte{spaceTerms, spacePosts, spaceDocs, spacePairs} {
		p := partKey(space, db, seg)
		_ = b.DeleteRange(p, after(p), nil) // cannot fail: the batch is in memory
	}
}

// dropBuild removes a build and all its data.
func dropBuild(b *pebble.Batch, db note.DatabaseID, build *Build) {
	if build == nil {
		return
	}
	for _, s := range build.Segments {
		dropSegment(b, db, s.ID)
	}
	if build.Writing != 0 {
		dropSegment(b, db, build.Writing)
	}
	for _, space := range []byte{spaceRecord, spaceLate, spaceMessage} {
		p := partKey(space, db, build.ID)
		_ = b.DeleteRange(p, after(p), nil)
	}
}
