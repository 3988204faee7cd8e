package store

import "sync"

// maxScratch bounds the size in bytes of a buffer that is kept for the next use.
const maxScratch = 1 << 20

// scratch is a buffer for the content of one object, decoded or to be encoded. Nothing may refer to it after it is
// given back.
type scratch struct{ b []byte }

var scratches = sync.Pool{New: func() any { return new(scratch) }}

func takeScratch() *scratch {
	s := scratches.Get().(*scratch)
	s.b = s.b[:0]
	return s
}

func (s *scratch) give() {
	if cap(s.b) <= maxScratch {
		scratches.Put(s)
	}
}
