package view

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"

	"doublet/note"
	"doublet/store/layout"
)

// Number returns a view's number in keys: the note id of its design note with the top bit set. So it never equals the
// number of a built-in index (1–255).
func Number(viewNote note.ID) uint64 { return 1<<63 | uint64(viewNote) }

// keys builds the keys of a view. Every row is under a generation, so that a new generation can be built while the old
// one is read:
//
//	KindView      view number (8), generation (1), sort key, note id (8)[, revision (24)] → entry
//	KindViewNote  view number (8), generation (1), note id (8) → the ends of its entries' keys
//	KindViewMeta  view number (8) → meta
//	KindViewMeta  view number (8), generation (1), sort key of a category → its totals
type keys struct {
	db     uint32
	number uint64
}

func (k keys) of(kind layout.Kind, generation byte) []byte {
	return append(layout.IDKey(k.db, kind, k.number), generation)
}

func (k keys) meta() []byte { return layout.IDKey(k.db, layout.KindViewMeta, k.number) }

func (k keys) note(generation byte, id note.ID) []byte {
	return binary.BigEndian.AppendUint64(k.of(layout.KindViewNote, generation), uint64(id))
}

// suffix returns the end of an entry's key. The revision of a conflict sorts it after its document.
func suffix(sortKey []byte, id note.ID, rev note.Revision) []byte {
	s := binary.BigEndian.AppendUint64(append([]byte(nil), sortKey...), uint64(id))
	if rev.IsZero() {
		return s
	}
	return append(binary.BigEndian.AppendUint64(s, rev.Generation), rev.Hash[:]...)
}

const revisionLen = 24

// entryValue holds what an entry shows, so that showing it reads no note.
type entryValue struct {
	conflict bool
	// ends holds the offset in the key at which each category ends.
	ends   []int
	values []note.Value
}

func appendEntry(dst []byte, e *entryValue) []byte {
	var f byte
	if e.conflict {
		f = 1
	}
	dst = binary.AppendUvarint(append(dst, f), uint64(len(e.ends)))
	for _, n := range e.ends {
		dst = binary.AppendUvarint(dst, uint64(n))
	}
	return appendValues(dst, e.values)
}

func readEntry(b []byte) (*entryValue, error) {
	if len(b) == 0 {
		return nil, note.ErrCorrupt
	}
	e := &entryValue{conflict: b[0] == 1}
	n, b, err := count(b[1:], maxColumns)
	if err != nil {
		return nil, err
	}
	for range n {
		var end int
		if end, b, err = count(b, math.MaxInt32); err != nil {
			return nil, err
		}
		e.ends = append(e.ends, end)
	}
	e.values, b, err = readValues(b)
	if err != nil || len(b) != 0 {
		return nil, note.ErrCorrupt
	}
	return e, nil
}

func appendValues(dst []byte, list []note.Value) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(list)))
	for _, v := range list {
		dst = append(binary.AppendUvarint(dst, uint64(len(v))), v...)
	}
	return dst
}

func readValues(b []byte) ([]note.Value, []byte, error) {
	n, b, err := count(b, maxColumns)
	if err != nil {
		return nil, nil, err
	}
	out := make([]note.Value, n)
	for i := range out {
		var k int
		if k, b, err = count(b, len(b)); err != nil || k > len(b) {
			return nil, nil, note.ErrCorrupt
		}
		out[i], b = append(note.Value(nil), b[:k]...), b[k:]
	}
	return out, b, nil
}

func count(b []byte, most int) (int, []byte, error) {
	v, k := binary.Uvarint(b)
	if k <= 0 || v > uint64(most) {
		return 0, nil, note.ErrCorrupt
	}
	return int(v), b[k:], nil
}

func appendSuffixes(dst []byte, list [][]byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(list)))
	for _, s := range list {
		dst = append(binary.AppendUvarint(dst, uint64(len(s))), s...)
	}
	return dst
}

func readSuffixes(b []byte) ([][]byte, error) {
	n, b, err := count(b, 1<<20)
	if err != nil {
		return nil, err
	}
	var out [][]byte
	for range n {
		var k int
		if k, b, err = count(b, len(b)); err != nil || k > len(b) {
			return nil, note.ErrCorrupt
		}
		out, b = append(out, b[:k]), b[k:]
	}
	return out, nil
}

// categoryValue holds the count and totals of a category, so that its entries need not be read.
type categoryValue struct {
	count  uint64
	totals []float64
	values []note.Value // those of the categories down to this one
}

func appendCategory(dst []byte, c *categoryValue) []byte {
	dst = binary.AppendUvarint(dst, c.count)
	dst = binary.AppendUvarint(dst, uint64(len(c.totals)))
	for _, f := range c.totals {
		dst = binary.BigEndian.AppendUint64(dst, math.Float64bits(f))
	}
	return appendValues(dst, c.values)
}

func readCategory(b []byte) (*categoryValue, error) {
	c := &categoryValue{}
	var k int
	if c.count, k = binary.Uvarint(b); k <= 0 {
		return nil, note.ErrCorrupt
	}
	n, b, err := count(b[k:], maxColumns)
	if err != nil || len(b) < 8*n {
		return nil, note.ErrCorrupt
	}
	for range n {
		c.totals, b = append(c.totals, math.Float64frombits(binary.BigEndian.Uint64(b))), b[8:]
	}
	c.values, b, err = readValues(b)
	if err != nil || len(b) != 0 {
		return nil, note.ErrCorrupt
	}
	return c, nil
}

// meta names the generation that is read and the one that is being built.
type meta struct {
	Active   *branch `json:"active,omitempty"`
	Building *branch `json:"building,omitempty"`
	// row is the row as it was read or written last, nil for none.
	row []byte
}

// branch is one generation: the definition that it was built from, and how far it has read.
type branch struct {
	Generation  byte   `json:"generation"`
	Definition  string `json:"definition"`
	Incarnation uint64 `json:"incarnation"`
	// Seq is the cursor in the database's by-sequence rows. Notes that were deleted for good have no such row; the
	// expunges after Mod name them.
	Seq     uint64      `json:"seq"`
	Mod     note.ModSeq `json:"mod"`
	Entries uint64      `json:"entries"`
	Totals  []float64   `json:"totals"`
}

func readMeta(v []byte) (*meta, error) {
	m := &meta{row: v}
	if v == nil {
		return m, nil
	}
	if err := json.Unmarshal(v, m); err != nil {
		return nil, fmt.Errorf("view: meta: %w: %w", note.ErrCorrupt, err)
	}
	return m, nil
}
