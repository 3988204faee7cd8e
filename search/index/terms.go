package index

import (
	"cmp"
	"encoding/binary"
	"slices"

	"doublet/search/intern"
)

// terms collects the postings of pieces by their terms, for a segment.
type terms struct {
	numbers intern.Table // the terms
	counts  []int32      // of postings, by number
	came    []listed
}

// posting is an entry of a list: a document, and how it has the term.
type posting struct {
	ord  uint32
	code Code
}

// listed is a posting in the order in which they came, with the number of its term.
type listed struct {
	posting
	term int32
}

// newTerms returns a collection for a number of postings.
func newTerms(postings int) *terms { return &terms{came: make([]listed, 0, postings)} }

// add adds the terms of a piece, which is behind those before it. It returns false if they cannot be read.
func (t *terms) add(ord uint32, p *Piece) bool {
	b := p.Coded
	for range p.Count {
		term, code, rest, ok := cutTerm(b)
		if b = rest; !ok {
			return false
		}
		n, isNew := t.numbers.Number(term)
		if isNew {
			t.counts = append(t.counts, 0)
		}
		t.counts[n]++
		t.came = append(t.came, listed{posting{ord, code}, int32(n)})
	}
	return len(b) == 0
}

// each calls fn for the terms in order, with their postings in order.
func (t *terms) each(fn func(term []byte, list []posting)) {
	// Each list takes a part of one array. To follow links between postings would cost a cache miss for each.
	type part struct {
		prefix     uint64 // the first eight bytes of the term, which decide the order nearly always
		term       []byte
		begin, end int32
	}
	parts := make([]part, len(t.counts))
	at := int32(0)
	for i, n := range t.counts {
		p := &parts[i]
		p.term, p.begin, p.end = t.numbers.Text(i), at, at
		at += n
		var b [8]byte
		copy(b[:], p.term)
		p.prefix = binary.BigEndian.Uint64(b[:])
	}
	all := make([]posting, at)
	for i := range t.came {
		p := &parts[t.came[i].term]
		all[p.end] = t.came[i].posting
		p.end++
	}
	slices.SortFunc(parts, func(a, b part) int {
		if a.prefix != b.prefix {
			return cmp.Compare(a.prefix, b.prefix)
		}
		return compareTerms(a.term, b.term)
	})
	for i := range parts {
		fn(parts[i].term, all[parts[i].begin:parts[i].end])
	}
}
