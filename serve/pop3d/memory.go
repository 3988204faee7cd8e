package pop3d

import "sync"

const (
	// bufferSize is what a buffer has at first, keptSize the most that it may have grown to and
	// still go back to the pool.
	bufferSize = 16 << 10
	keptSize   = 512 << 10
	// sendAt is how much output is collected before it is sent in the middle of an answer.
	sendAt = 48 << 10
)

var buffers = sync.Pool{New: func() any {
	b := make([]byte, 0, bufferSize)
	return &b
}}

// buffer is a pooled piece of memory that a session holds while a command runs.
type buffer struct {
	b    []byte
	held *[]byte
}

func (p *buffer) take() {
	if p.held == nil {
		p.held = buffers.Get().(*[]byte)
		p.b = (*p.held)[:0]
	}
}

func (p *buffer) release() {
	if p.held == nil {
		return
	}
	if cap(p.b) <= keptSize {
		*p.held = p.b[:0]
		buffers.Put(p.held)
	}
	p.b, p.held = nil, nil
}

// flush sends the output. What fails is remembered: the session ends.
func (s *session) flush() error {
	if s.failed == nil && len(s.out.b) > 0 {
		_, s.failed = s.c.Write(s.out.b)
	}
	s.out.b = s.out.b[:0]
	return s.failed
}
