package search

import (
	"bytes"
	"hash/maphash"

	"doublet/search/index"
	"doublet/search/text"
	"doublet/search/words"
)

// analysed holds the words of a text, and all else that the index stores of it. It depends on the text only.
type analysed struct {
	coded   []byte // the terms, encoded by index.AppendTerm
	count   int
	length  uint32
	flags   index.Flags
	bytes   uint64
	skipped text.Skipped
	later   bool
}

// piece returns the piece that the index stores for a note.
func (a *analysed) piece() *index.Piece {
	return &index.Piece{Flags: a.flags, Length: a.length, Coded: a.coded, Count: a.count}
}

// analyser collects the words of documents. It reuses its memory, and is used by one goroutine.
type analyser struct {
	seed  maphash.Seed
	table []int32 // index in list + 1, by hash
	list  []gathered
	arena []byte
	scan  words.Scanner
}

// gathered is a word of the current document.
type gathered struct {
	hash   uint64
	at     int32 // offset in the arena
	n      int32
	fields uint16
	sure   bool
	count  int32
}

// Limits on the memory that an analyser keeps between documents.
const (
	tableMin = 1 << 10
	tableMax = 1 << 16
	arenaMax = 1 << 20
)

func newAnalyser() *analyser { return &analyser{seed: maphash.MakeSeed()} }

// document returns the words of a document.
func (a *analyser) document(d *text.Document) *analysed {
	a.reset()
	out := &analysed{skipped: d.Skipped, later: d.Later > 0}
	if d.HasAttachment {
		out.flags |= index.HasAttachment
	}
	if d.Clipped {
		out.flags |= index.Cut
	}
	for i := range d.Stretches {
		s := &d.Stretches[i]
		out.bytes += uint64(len(s.Text))
		a.scan.Reset(s.Text)
		for a.scan.Next() {
			out.length++
			if a.scan.Cut {
				out.flags |= index.Cut
			}
			a.add(a.scan.Term, uint16(s.Field), a.scan.Sure)
		}
	}
	size := 0
	for i := range a.list {
		size += int(a.list[i].n) + 3
	}
	out.coded, out.count = make([]byte, 0, size), len(a.list)
	for i := range a.list {
		g := &a.list[i]
		out.coded = index.AppendTerm(out.coded, a.arena[g.at:g.at+g.n], index.MakeCode(g.fields, g.sure, int(g.count)))
	}
	return out
}

func (a *analyser) reset() {
	if len(a.table) == 0 || len(a.table) > tableMax {
		a.table = make([]int32, tableMin)
	} else {
		clear(a.table)
	}
	if cap(a.arena) > arenaMax {
		a.arena, a.list = nil, nil
	}
	a.arena, a.list = a.arena[:0], a.list[:0]
}

func (a *analyser) add(term []byte, field uint16, sure bool) {
	h := maphash.Bytes(a.seed, term)
	mask := uint64(len(a.table) - 1)
	for slot := h & mask; ; slot = (slot + 1) & mask {
		n := a.table[slot]
		if n == 0 {
			at := int32(len(a.arena))
			a.arena = append(a.arena, term...)
			a.list = append(a.list, gathered{h, at, int32(len(term)), field, sure, 1})
			a.table[slot] = int32(len(a.list))
			if len(a.list)*2 > len(a.table) {
				a.grow()
			}
			return
		}
		g := &a.list[n-1]
		if g.hash == h && bytes.Equal(a.arena[g.at:g.at+g.n], term) {
			g.fields |= field
			g.sure = g.sure && sure
			g.count++
			return
		}
	}
}

func (a *analyser) grow() {
	a.table = make([]int32, 2*len(a.table))
	mask := uint64(len(a.table) - 1)
	for i := range a.list {
		slot := a.list[i].hash & mask
		for a.table[slot] != 0 {
			slot = (slot + 1) & mask
		}
		a.table[slot] = int32(i + 1)
	}
}
