package imapd

import (
	"sync"

	"doublet/serve/listen"
)

const (
	// bufferSize is what a buffer has at first, keptSize the most that it may have grown to and
	// still go back to the pool.
	bufferSize = 16 << 10
	keptSize   = 512 << 10
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

// memory is what the session's client may have of the memory for messages.
func (s *session) memory() listen.Share { return s.c.Share(s.srv.cfg.Memory) }
