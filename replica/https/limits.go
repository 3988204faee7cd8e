package https

import (
	"sync"

	"doublet/note"
)

// slots limits concurrent requests: max is the limit for all, each the limit for one person or server.
type slots struct {
	max, each int

	mu  sync.Mutex
	all int
	by  map[note.UNID]int
}

// enter occupies a slot, or returns false if there is none. The caller must call leave after true.
func (s *slots) enter(person note.UNID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all >= s.max || s.by[person] >= s.each {
		return false
	}
	if s.by == nil {
		s.by = make(map[note.UNID]int)
	}
	s.all++
	s.by[person]++
	return true
}

// leave returns a slot.
func (s *slots) leave(person note.UNID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all--
	if s.by[person]--; s.by[person] <= 0 {
		delete(s.by, person)
	}
}

// count returns the number of slots taken.
func (s *slots) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all
}

// memory limits the bytes reserved for the bodies of requests: max is the limit for all. One person or server may use
// half of it.
type memory struct {
	max int64

	mu   sync.Mutex
	used int64
	by   map[note.UNID]int64
}

// take reserves n bytes, or returns false if there is no room for them.
func (m *memory) take(person note.UNID, n int64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.used+n > m.max || m.by[person]+n > m.max/2 {
		return false
	}
	if m.by == nil {
		m.by = make(map[note.UNID]int64)
	}
	m.used += n
	m.by[person] += n
	return true
}

// give releases n bytes.
func (m *memory) give(person note.UNID, n int64) {
	if n == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.used -= n
	if m.by[person] -= n; m.by[person] <= 0 {
		delete(m.by, person)
	}
}
