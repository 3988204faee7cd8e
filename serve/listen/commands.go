package listen

import (
	"sync"
	"sync/atomic"
)

// gate bounds how many sessions work at one time. A session works from the first byte of a command to its
// answer, but not while it waits for its client: a slow one takes nobody's turn.
type gate struct {
	max     int64 // 0: no bound
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
	// Who leaves after this has been seen wakes somebody; who left before is seen by try.
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

// work begins a command, or goes on with it after a wait for the client.
func (c *Conn) work() {
	if !c.working {
		c.workedSince = c.Now()
		c.server.gate.enter()
		c.working = true
	}
}

// rest ends it, or interrupts it for such a wait, and says whether there was one.
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
