package listen

import "sync"

const (
	// bufferSize is the initial size of a buffer. keptSize is the maximum size of a buffer that is returned to the
	// pool.
	bufferSize = 16 << 10
	keptSize   = 512 << 10
)

var buffers = sync.Pool{New: func() any {
	b := make([]byte, 0, bufferSize)
	return &b
}}

// Buffer is pooled memory that a session holds while a command runs. Between commands it holds none.
type Buffer struct {
	B    []byte
	held *[]byte
}

// Take gets the memory from the pool, unless the session already has it.
func (p *Buffer) Take() {
	if p.held == nil {
		p.held = buffers.Get().(*[]byte)
		p.B = (*p.held)[:0]
	}
}

// Release returns the memory to the pool.
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
