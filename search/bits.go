package search

import (
	"math/bits"

	"doublet/note"
)

// IDs is a set of note ids, as a bit map. The ids of a database ascend from 1, so the map is dense.
type IDs struct{ words []uint64 }

// Add adds an id.
func (s *IDs) Add(id note.ID) {
	w := int(id / 64)
	if w >= len(s.words) {
		s.words = append(s.words, make([]uint64, w+1-len(s.words)+len(s.words)/4)...)
	}
	s.words[w] |= 1 << (id % 64)
}

// Has reports whether an id is in the set.
func (s *IDs) Has(id note.ID) bool {
	w := int(id / 64)
	return w < len(s.words) && s.words[w]&(1<<(id%64)) != 0
}

// Remove removes an id.
func (s *IDs) Remove(id note.ID) {
	if w := int(id / 64); w < len(s.words) {
		s.words[w] &^= 1 << (id % 64)
	}
}

// Len returns the number of ids.
func (s *IDs) Len() int {
	n := 0
	for _, w := range s.words {
		n += bits.OnesCount64(w)
	}
	return n
}

// Each calls fn for each id, in ascending order, until fn returns false.
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

// and removes the ids that are not in o.
func (s *IDs) and(o *IDs) {
	n := min(len(s.words), len(o.words))
	s.words = s.words[:n]
	for i := range s.words {
		s.words[i] &= o.words[i]
	}
}

// or adds the ids in o.
func (s *IDs) or(o *IDs) {
	if len(o.words) > len(s.words) {
		s.words = append(s.words, make([]uint64, len(o.words)-len(s.words))...)
	}
	for i, w := range o.words {
		s.words[i] |= w
	}
}

// without removes the ids in o.
func (s *IDs) without(o *IDs) {
	for i := range min(len(s.words), len(o.words)) {
		s.words[i] &^= o.words[i]
	}
}
