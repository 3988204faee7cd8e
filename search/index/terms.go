package index

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"hash/maphash"
	"slices"
)

// terms collects the postings of pieces by their terms, for a segment.
type terms struct {
	table []int32 // index in lists + 1, by hash
	lists []termList
	// came holds the postings in the order in which they came, with their lists.
	came []listed
}

// termList is a term, the number of its postings, and their end in the array that sorted returns. The term aliases a
// piece.
type termList struct {
	hash uint64
	term []byte
	n    int32
	end  int32
}

// posting is an entry of a list: a document, and how it has the term.
type posting struct {
	ord  uint32
	code Code
}

type listed struct {
	posting
	list int32
}

var termSeed = maphash.MakeSeed()

// newTerms returns a collection for a number of postings.
func newTerms(postings int) *terms {
	size := 1 << 10
	for size < postings/2 {
		size *= 2
	}
	return &terms{table: make([]int32, size), came: make([]listed, 0, postings)}
}

// add adds the terms of a piece, which is behind those before it. It returns false if they cannot be read.
func (t *terms) add(ord uint32, p *Piece) bool {
	b := p.Coded
	for range p.Count {
		term, code, rest, ok := cutTerm(b)
		if b = rest; !ok {
			return false
		}
		n := t.list(term)
		t.lists[n].n++
		t.came = append(t.came, listed{posting{ord, code}, n})
	}
	return len(b) == 0
}

// list returns the number of a term's list.
func (t *terms) list(term []byte) int32 {
	h := maphash.Bytes(termSeed, term)
	mask := uint64(len(t.table) - 1)
	for slot := h & mask; ; slot = (slot + 1) & mask {
		n := t.table[slot]
		if n == 0 {
			t.lists = append(t.lists, termList{hash: h, term: term})
			t.table[slot] = int32(len(t.lists))
			if 2*len(t.lists) > len(t.table) {
				t.grow()
			}
			return int32(len(t.lists) - 1)
		}
		if l := &t.lists[n-1]; l.hash == h && bytes.Equal(l.term, term) {
			return n - 1
		}
	}
}

func (t *terms) grow() {
	t.table = make([]int32, 2*len(t.table))
	mask := uint64(len(t.table) - 1)
	for i := range t.lists {
		slot := t.lists[i].hash & mask
		for t.table[slot] != 0 {
			slot = (slot + 1) & mask
		}
		t.table[slot] = int32(i + 1)
	}
}

// each calls fn for the terms in order, with their postings in order. No term may be added afterwards.
func (t *terms) each(fn func(term []byte, list []posting)) {
	// Each list takes a part of one array. To follow links between postings would cost a cache miss for each.
	end := int32(0)
	for i := range t.lists {
		t.lists[i].end = end
		end += t.lists[i].n
	}
	all := make([]posting, end)
	for i := range t.came {
		l := &t.lists[t.came[i].list]
		all[l.end] = t.came[i].posting
		l.end++
	}
	// The first eight bytes decide nearly always, so they take the place of the hash.
	for i := range t.lists {
		var b [8]byte
		copy(b[:], t.lists[i].term)
		t.lists[i].hash = binary.BigEndian.Uint64(b[:])
	}
	slices.SortFunc(t.lists, func(a, b termList) int {
		if a.hash != b.hash {
			return cmp.Compare(a.hash, b.hash)
		}
		return compareTerms(a.term, b.term)
	})
	for i := range t.lists {
		l := &t.lists[i]
		fn(l.term, all[l.end-l.n:l.end])
	}
}
