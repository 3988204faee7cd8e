package index

import (
	"container/list"
	"encoding/binary"
	"sync"

	"doublet/note"
	"doublet/note/pack"
)

// Docs holds the pieces of a segment, by ordinal. Callers must not modify it.
type Docs struct {
	Notes   []note.ID
	Dates   []int64
	Lengths []uint32
	Flags   []Flags // with flagAttachments
	// Words is the sum of Lengths.
	Words uint64
}

// Kind returns the kind of a piece.
func (d *Docs) Kind(ord uint32) Kind {
	if d.Flags[ord]&flagAttachments != 0 {
		return Attachments
	}
	return Main
}

func (d *Docs) add(id note.ID, date int64, length uint32, f Flags) {
	d.Notes, d.Dates = append(d.Notes, id), append(d.Dates, date)
	d.Lengths, d.Flags = append(d.Lengths, length), append(d.Flags, f)
	d.Words += uint64(length)
}

func (d *Docs) addPiece(p *Piece) {
	f := p.Flags
	if p.Kind == Attachments {
		f |= flagAttachments
	}
	d.add(p.Note, p.Date, p.Length, f)
}

func (d *Docs) size() int64 { return int64(len(d.Notes))*21 + 128 }

// docsBlock is the number of documents in one row.
const docsBlock = 512

// appendDocs appends the encoding of the documents from lo to hi.
func appendDocs(dst []byte, d *Docs, lo, hi int) []byte {
	dst = binary.AppendUvarint(dst, uint64(hi-lo))
	var id, date int64
	for i := lo; i < hi; i++ {
		dst = binary.AppendVarint(dst, int64(d.Notes[i])-id)
		dst = binary.AppendVarint(dst, d.Dates[i]-date)
		dst = binary.AppendUvarint(dst, uint64(d.Lengths[i]))
		dst = append(dst, byte(d.Flags[i]))
		id, date = int64(d.Notes[i]), d.Dates[i]
	}
	return dst
}

// readDocs adds the documents of a row. It returns false if the row is damaged.
func readDocs(d *Docs, b []byte) bool {
	r := pack.Reader{B: b}
	var id, date int64
	for range r.Count(4) {
		id += r.Varint()
		date += r.Varint()
		d.add(note.ID(id), date, uint32(r.Uvarint()), Flags(r.Byte()))
	}
	return r.Done()
}

// docsCache caches the documents of segments, up to max bytes. When it is full, it drops the documents that were not
// used for the longest time. Segments do not change and their numbers are not reused, so an entry never becomes stale.
type docsCache struct {
	mu    sync.Mutex
	max   int64
	used  int64
	table map[docsKey]*list.Element
	lru   list.List // of docsEntry, the most recently used first
}

type docsKey struct {
	db  note.DatabaseID
	seg uint32
}

type docsEntry struct {
	key  docsKey
	docs *Docs
}

func (c *docsCache) get(k docsKey) *Docs {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.table[k]
	if e == nil {
		return nil
	}
	c.lru.MoveToFront(e)
	return e.Value.(docsEntry).docs
}

func (c *docsCache) put(k docsKey, d *Docs) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.table[k] != nil || d.size() > c.max/2 {
		return
	}
	for c.used+d.size() > c.max {
		old := c.lru.Remove(c.lru.Back()).(docsEntry)
		delete(c.table, old.key)
		c.used -= old.docs.size()
	}
	if c.table == nil {
		c.table = make(map[docsKey]*list.Element)
	}
	c.table[k] = c.lru.PushFront(docsEntry{k, d})
	c.used += d.size()
}
