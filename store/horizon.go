package store

import (
	"sync"
	"sync/atomic"

	"doublet/store/layout"
)

// ceilingStep is the number of sequences that one durable ceiling covers. A new ceiling is written when half of them
// are used, long before the first sequence above the old one is assigned.
const ceilingStep = 1 << 16

// horizon assigns sequences and tracks up to which of them everything is durable.
//
// Invariant: a commit takes its sequences while it holds the locks of all its databases, and its batch is applied
// before the locks are released. So the order of sequences is the order of commits: within a database, and between an
// update and everything that it could have seen. Flushes end in any order. The horizon passes a commit only when all
// earlier ones are durable too.
type horizon struct {
	mu      sync.Mutex
	next    uint64
	ceiling uint64
	pending []*span // in order of their sequences
	passed  chan struct{}
	err     error
	mark    atomic.Uint64
	newest  newest
}

// span holds the sequences of one commit that is not durable yet, and its entry of the feed.
type span struct {
	first, last uint64
	databases   []uint32
	feed        []layout.FeedItem
	done        bool
}

func newHorizon() *horizon { return &horizon{passed: make(chan struct{})} }

// start sets the first sequence and the ceiling. horizon exists before start because the engine may fail while it
// opens.
func (h *horizon) start(next, ceiling uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.next, h.ceiling = next, ceiling
	h.newest.floor = next - 1
	h.mark.Store(next - 1)
}

// take assigns n sequences. If ceiling is not 0, it must be written in the same batch.
func (h *horizon) take(n int, databases []uint32) (sp *span, ceiling uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	sp = &span{first: h.next, last: h.next + uint64(n) - 1, databases: databases}
	h.next += uint64(n)
	if h.next+ceilingStep/2 > h.ceiling {
		h.ceiling = h.next + ceilingStep
		ceiling = h.ceiling
	}
	h.pending = append(h.pending, sp)
	return sp, ceiling
}

// complete marks a commit durable and returns the commits that the horizon has passed as a result.
func (h *horizon) complete(sp *span) []*span {
	h.mu.Lock()
	defer h.mu.Unlock()
	sp.done = true
	n := 0
	for n < len(h.pending) && h.pending[n].done {
		n++
	}
	if n == 0 {
		return nil
	}
	out := h.pending[:n:n]
	h.pending = h.pending[n:]
	for _, sp := range out {
		h.newest.add(sp.feed)
	}
	h.mark.Store(out[n-1].last)
	close(h.passed)
	h.passed = make(chan struct{})
	return out
}

func (h *horizon) durable() uint64 { return h.mark.Load() }

// since returns the changes after a sequence, and the sequence up to which it knows them. ok is false if some of them
// are not in memory.
func (h *horizon) since(seq uint64) (list []layout.FeedItem, upto uint64, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	list, ok = h.newest.since(seq)
	return list, h.mark.Load(), ok
}

// cut records that the feed was cut up to a sequence.
func (h *horizon) cut(seq uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.newest.floor = max(h.newest.floor, seq)
}

// taken returns the last sequence assigned.
func (h *horizon) taken() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.next - 1
}

// wait returns when the horizon has reached seq, or with the error that prevents this forever.
func (h *horizon) wait(seq uint64) error {
	for h.mark.Load() < seq {
		h.mu.Lock()
		passed, err := h.passed, h.err
		reached := h.mark.Load() >= seq
		h.mu.Unlock()
		if reached {
			return nil
		}
		if err != nil {
			return err
		}
		<-passed
	}
	return nil
}

// moved returns a channel that closes when the horizon moves again.
func (h *horizon) moved() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.passed
}

// fail wakes all goroutines that wait for something that will never be durable.
func (h *horizon) fail(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err == nil {
		h.err = err
		close(h.passed)
		h.passed = make(chan struct{})
	}
}
