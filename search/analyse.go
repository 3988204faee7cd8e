package search

import (
	"slices"

	"doublet/note"
	"doublet/search/index"
	"doublet/search/intern"
	"doublet/search/text"
	"doublet/search/words"
	"doublet/store"
)

// analysed holds the words of a text, and all else that the index stores of it. It depends on the text only.
type analysed struct {
	coded   []byte // the terms, encoded by index.AppendTerm
	count   int
	pairs   []index.Pair
	length  uint32
	flags   index.Flags
	bytes   uint64
	skipped text.Skipped
	later   bool
}

// piece returns the piece that the index stores for a note.
func (a *analysed) piece() *index.Piece {
	return &index.Piece{Flags: a.flags, Length: a.length, Coded: a.coded, Count: a.count, Pairs: a.pairs}
}

// size returns the memory of the words, in bytes.
func (a *analysed) size() int { return len(a.coded) + 4*len(a.pairs) }

// analyser collects the words of documents. It reuses its memory, and is used by one goroutine.
type analyser struct {
	terms intern.Table
	list  []gathered // by number
	pairs []index.Pair
	scan  words.Scanner
	// begin and sorted are the work space of sortPairs.
	begin  [1 << pairBits]uint32
	sorted []index.Pair
}

// pairBits is the number of upper bits by which sortPairs distributes the pairs.
const pairBits = 10

// gathered holds the occurrences of a word in the current document.
type gathered struct {
	hash   uint64 // index.HashTerm, 0 if the word is in no pair
	fields uint16
	sure   bool
	count  int32
}

// wordsMax is the number of words of a document from which an analyser keeps no memory for the next one.
const wordsMax = 1 << 17

func newAnalyser() *analyser { return &analyser{} }

// document returns the words of a document.
func (a *analyser) document(d *text.Document) *analysed {
	a.reset()
	out := &analysed{skipped: d.Skipped, later: d.Later > 0, flags: index.Paired}
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
		last := uint64(0) // the hash of the word before
		for a.scan.Next() {
			out.length++
			if a.scan.Cut {
				out.flags |= index.Cut
			}
			hash := a.add(a.scan.Term, uint16(s.Field), a.scan.Sure)
			if a.scan.Pos > 0 && last != 0 && hash != 0 {
				a.pairs = append(a.pairs, index.MakePair(last, hash))
			}
			last = hash
		}
	}
	out.coded, out.count = make([]byte, 0, a.terms.Bytes()+3*len(a.list)), len(a.list)
	for i := range a.list {
		g := &a.list[i]
		out.coded = index.AppendTerm(out.coded, a.terms.Text(i), index.MakeCode(g.fields, g.sure, int(g.count)))
	}
	out.pairs = a.sortPairs()
	return out
}

// note returns the words of the text that fn makes of a note.
func (a *analyser) note(s *Service, r *store.Reader, id note.ID, fn func() *text.Document) (*analysed, error) {
	out, err := try(s, r, id, func() *analysed { return a.document(fn()) })
	if err != nil {
		*a = analyser{} // it may hold half of the text
	}
	return out, err
}

// fewPairs is the number of pairs up to which comparing them is as fast as distributing them.
const fewPairs = 64

// sortPairs returns the pairs in ascending order, each once. The pairs are hashes, so few have the same upper bits: it
// distributes them by these, and then sorts the few.
func (a *analyser) sortPairs() []index.Pair {
	list := a.pairs
	if len(list) <= fewPairs {
		slices.Sort(list)
		return slices.Clone(slices.Compact(list))
	}
	const shift = 32 - pairBits
	begin := &a.begin
	clear(begin[:])
	for _, p := range list {
		begin[p>>shift]++
	}
	at := uint32(0)
	for i, n := range begin {
		begin[i] = at
		at += n
	}
	sorted := slices.Grow(a.sorted[:0], len(list))[:len(list)]
	a.sorted = sorted
	for _, p := range list {
		sorted[begin[p>>shift]] = p
		begin[p>>shift]++
	}
	from := uint32(0)
	for _, end := range begin { // begin is now the end of each
		if end-from > 1 {
			slices.Sort(sorted[from:end])
		}
		from = end
	}
	return slices.Clone(slices.Compact(sorted))
}

func (a *analyser) reset() {
	a.terms.Reset()
	if cap(a.pairs) > wordsMax || cap(a.list) > wordsMax {
		a.list, a.pairs, a.sorted = nil, nil, nil
	}
	a.list, a.pairs = a.list[:0], a.pairs[:0]
}

// add adds an occurrence of a term and returns the term's hash.
func (a *analyser) add(term []byte, field uint16, sure bool) uint64 {
	n, isNew := a.terms.Number(term)
	if isNew {
		hash := index.HashTerm(term)
		a.list = append(a.list, gathered{hash, field, sure, 1})
		return hash
	}
	g := &a.list[n]
	g.fields |= field
	g.sure = g.sure && sure
	g.count++
	return g.hash
}
