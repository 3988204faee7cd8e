package listen

import "sync"

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

// Buffer is a pooled piece of memory that a session holds while a command runs: between two commands
// it has none.
type Buffer struct {
	B    []byte
	held *[]byte
}

// Take gets the memory, where the session has none yet.
func (p *Buffer) Take() {
	if p.held == nil {
		p.held = buffers.Get().(*[]byte)
		p.B = (*p.held)[:0]
	}
}

// Release gives it back.
func (p *Buffer) Release() {
	if p.held == nil {
		return
	}
	if cap(p.B) <= keptSize {
		*p.held = p.B[:0]
		buffers.Put(p.held)
	}
	p.B, p.held = nil, nil
}
