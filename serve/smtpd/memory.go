package smtpd

import (
	"sync"

	"doublet/serve/listen"
)

// classes are the sizes that message buffers grow through. Those of the first four are pooled:
// larger ones are rare, and better given back than kept.
var classes = [...]int{8 << 10, 32 << 10, 128 << 10, 512 << 10, 2 << 20, 8 << 20, 24 << 20}

const pooled = 4

var pools [pooled]sync.Pool

// Headroom is how many bytes are kept free before every message, so that a backend can put its
// trace fields there without copying the message.
const Headroom = 1024

// message is one contiguous buffer that grows geometrically. b[:n] is in use; it lies behind the
// headroom in *held.
type message struct {
	b    []byte
	n    int
	held *[]byte // what goes back to the pool
	size int64   // what was taken from the budget
}

// need makes room for at least n more bytes; false if the budget does not give them. limit is the
// largest size that the buffer has use for.
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
		// Past the last class the limit is near: take it whole, with room for what is read
		// beyond it.
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

// head is the headroom, with a capacity that reaches to the message's end.
func (m *message) head() []byte {
	if m.held == nil {
		return nil
	}
	return (*m.held)[: Headroom : Headroom+m.n]
}

// release gives the buffer back.
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
