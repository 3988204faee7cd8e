package smtpd

import (
	"sync"

	"doublet/serve/listen"
)

// classes are the sizes through which message buffers grow. Buffers of the first four classes are pooled. Larger ones
// are rare, so they are freed.
var classes = [...]int{8 << 10, 32 << 10, 128 << 10, 512 << 10, 2 << 20, 8 << 20, 24 << 20}

const pooled = 4

var pools [pooled]sync.Pool

// Headroom is the number of bytes reserved before every message. A backend can put its trace fields there without
// copying the message.
const Headroom = 1024

// message is a contiguous buffer that grows geometrically. b[:n] is in use. It starts after the headroom in *held.
type message struct {
	b    []byte
	n    int
	held *[]byte // the buffer to return to the pool
	size int64   // bytes taken from the budget
}

// need makes room for at least n more bytes. It returns false if the budget is exhausted. limit is the maximum message
// size.
func (m *message) need(n int, limit int64, budget listen.Share) bool {
	if len(m.b)-m.n >= n {
		return true
	}
	want := Headroom + m.n + n
	class, size := 0, 0
	for class < len(classes) && classes[class] < want {
		class++
	}
	if class < len(classes) {
		size = classes[class]
	} else {
		// Beyond the last class, allocate the limit at once, with room for what a read may add beyond it.
		size = max(Headroom+int(limit)+64<<10, want)
	}
	if !budget.Take(int64(size)) {
		return false
	}
	var held *[]byte
	if class < pooled {
		held, _ = pools[class].Get().(*[]byte)
	}
	if held == nil {
		b := make([]byte, size)
		held = &b
	}
	next := message{b: (*held)[Headroom:], n: m.n, held: held, size: int64(size)}
	copy(next.b, m.b[:m.n])
	m.release(budget)
	*m = next
	return true
}

// head returns the headroom, with a capacity that extends to the end of the message.
func (m *message) head() []byte {
	if m.held == nil {
		return nil
	}
	return (*m.held)[: Headroom : Headroom+m.n]
}

// release frees the buffer.
func (m *message) release(budget listen.Share) {
	if m.held == nil {
		return
	}
	budget.Give(m.size)
	for class := range pooled {
		if len(*m.held) == classes[class] {
			pools[class].Put(m.held)
		}
	}
	*m = message{}
}
