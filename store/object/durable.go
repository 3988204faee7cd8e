package object

import (
	"maps"
	"slices"
)

// Durable returns the segments up to their durable lengths, in ascending order of their numbers, for a backup. Bytes
// below that length never change, and every record that an index references is below it. Segments that hold nothing
// durable yet are left out.
func (s *Store) Durable() []SegmentInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]SegmentInfo, 0, len(s.segments))
	for _, id := range slices.Sorted(maps.Keys(s.segments)) {
		g := s.segments[id]
		size := g.size
		switch {
		case id > s.durable.segment:
			continue
		case id == s.durable.segment:
			size = min(size, s.durable.offset)
		}
		if size > segmentHeader {
			out = append(out, SegmentInfo{ID: id, Size: size, Sealed: g.sealed && size == g.size, Away: g.away})
		}
	}
	return out
}
