package listen

import (
	"sync"
	"sync/atomic"
)

// gate limits the number of sessions that work at the same time. A session works from the first byte of a command to
// its reply, but not while it waits for its client: a slow client does not occupy a slot.
type gate struct {
	max     int64 // 0: no limit
	running atomic.Int64
	peak    atomic.Int64
	waits   atomic.Uint64

	waiting atomic.Int64
	mu      sync.Mutex
	turn    sync.Cond // on mu
}

func newGate(max int) *gate {
	g := &gate{max: int64(max)}
	g.turn.L = &g.mu
	return g
}

func (g *gate) enter() {
	if g.max == 0 {
		g.top(g.running.Add(1))
		return
	}
	if g.try() {
		return
	}
	g.waits.Add(1)
	g.mu.Lock()
	defer g.mu.Unlock()
	// A session that leaves after this line wakes a waiting one. A session that left before frees a slot that try sees.
	g.waiting.Add(1)
	defer g.waiting.Add(-1)
	for !g.try() {
		g.turn.Wait()
	}
}

func (g *gate) try() bool {
	for {
		n := g.running.Load()
		if n >= g.max {
			return false
		}
		if g.running.CompareAndSwap(n, n+1) {
			g.top(n + 1)
			return true
		}
	}
}

func (g *gate) top(n int64) {
	for {
		p := g.peak.Load()
		if n <= p || g.peak.CompareAndSwap(p, n) {
			return
		}
	}
}

func (g *gate) leave() {
	g.running.Add(-1)
	if g.waiting.Load() > 0 {
		g.mu.Lock()
		g.turn.Signal()
		g.mu.Unlock()
	}
}

// work begins a command, or resumes it after a wait for the client.
func (c *Conn) work() {
	if !c.working {
		c.workedSince = c.Now()
		c.server.gate.enter()
		c.working = true
	}
}

// rest ends a command, or suspends it to wait for the client. It reports whether a command was running.
func (c *Conn) rest() bool {
	if !c.working {
		return false
	}
	c.working = false
	c.server.gate.leave()
	if fn := c.server.opts.Load().Observe; fn != nil {
		fn(c.door.Name, c.Now().Sub(c.workedSince))
	}
	return true
}
