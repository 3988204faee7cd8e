package imapd

import (
	"sync"
	"sync/atomic"
)

// Budget bounds the bytes of messages in flight over all sessions that share it.
type Budget struct {
	max  int64
	used atomic.Int64
}

// NewBudget makes a budget of so many bytes.
func NewBudget(max int64) *Budget { return &Budget{max: max} }

// Used is the number of bytes in use.
func (b *Budget) Used() int64 { return b.used.Load() }

func (b *Budget) take(n int64) bool {
	if b.used.Add(n) > b.max {
		b.used.Add(-n)
		return false
	}
	return true
}

// has says whether n bytes would be given now.
func (b *Budget) has(n int64) bool { return b.used.Load()+n <= b.max }

func (b *Budget) give(n int64) { b.used.Add(-n) }

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
