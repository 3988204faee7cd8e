package search

import (
	"math/bits"

	"doublet/note"
)

// IDs is a set of note ids. Ids of a database ascend from 1, so that a bit each is little.
type IDs struct{ words []uint64 }

// Add adds an id.
func (s *IDs) Add(id note.ID) {
	w := int(id / 64)
	if w >= len(s.words) {
		s.words = append(s.words, make([]uint64, w+1-len(s.words)+len(s.words)/4)...)
	}
	s.words[w] |= 1 << (id % 64)
}

// Has says whether an id is in the set.
func (s *IDs) Has(id note.ID) bool {
	w := int(id / 64)
	return w < len(s.words) && s.words[w]&(1<<(id%64)) != 0
}

// Remove takes an id out.
func (s *IDs) Remove(id note.ID) {
	if w := int(id / 64); w < len(s.words) {
		s.words[w] &^= 1 << (id % 64)
	}
}

// Len counts them.
func (s *IDs) Len() int {
	n := 0
	for _, w := range s.words {
		n += bits.OnesCount64(w)
	}
	return n
}

// Each calls fn for each id, ascending, until it returns false.
func (s *IDs) Each(fn func(note.ID) bool) {
	for i, w := range s.words {
		for ; w != 0; w &= w - 1 {
			if !fn(note.ID(i*64 + bits.TrailingZeros64(w))) {
				return
			}
		}
	}
}

func (s *IDs) clone() IDs { return IDs{append([]uint64(nil), s.words...)} }

// and keeps what is in o too.
func (s *IDs) and(o *IDs) {
	n := min(len(s.words), len(o.words))
	s.words = s.words[:n]
	for i := range s.words {
		s.words[i] &= o.words[i]
	}
}

// or takes in what is in o.
func (s *IDs) or(o *IDs) {
	if len(o.words) > len(s.words) {
		s.words = append(s.words, make([]uint64, len(o.words)-len(s.words))...)
	}
	for i, w := range o.words {
		s.words[i] |= w
	}
}

// without takes out what is in o.
func (s *IDs) without(o *IDs) {
	for i := range min(len(s.words), len(o.words)) {
		s.words[i] &^= o.words[i]
	}
}
