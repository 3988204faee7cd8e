package cluster

import (
	"math"
	"sync"
	"time"

	"doublet/env"
)

// Times are averaged over the last five windows of 15 s each, as in Domino.
const (
	loadWindow  = 15 * time.Second
	loadWindows = 5
	// loadSample is the minimum number of operations of one type in a window whose mean may become the best mean.
	loadSample = 20
	// maxOps is the maximum number of operation types. Further types are counted as one.
	maxOps = 64
)

// Load measures how busy this server is: for each operation type, the current mean time relative to the best mean so
// far. Network time is not included, only the server's own work. Its methods are safe for concurrent use.
type Load struct {
	clock env.Clock
	// scale is log2 of the expansion factor at which the index is 0 (Domino: Server_Transinfo_Range, 6).
	scale float64

	mu  sync.Mutex
	ops map[string]*opLoad
}

type opLoad struct {
	best    time.Duration // 0: unknown
	windows [loadWindows]opWindow
}

type opWindow struct {
	number int64 // Unix time divided by 15 s
	count  int64
	sum    time.Duration
	closed bool
}

// NewLoad returns a Load. A scale of 0 means Domino's 6: the index is 0 at 64 times the best time.
func NewLoad(clock env.Clock, scale float64) *Load {
	if scale <= 0 {
		scale = 6
	}
	return &Load{clock: clock, scale: scale, ops: make(map[string]*opLoad)}
}

// Observe records one operation and its duration.
func (l *Load) Observe(op string, took time.Duration) {
	number := l.clock.Now().UnixNano() / int64(loadWindow)
	l.mu.Lock()
	defer l.mu.Unlock()
	o := l.ops[op]
	if o == nil {
		if len(l.ops) >= maxOps {
			op = "other"
		}
		if o = l.ops[op]; o == nil {
			o = &opLoad{}
			l.ops[op] = o
		}
	}
	w := &o.windows[uint64(number)%loadWindows]
	if w.number != number {
		for i := range o.windows {
			o.windows[i].close(o)
		}
		*w = opWindow{number: number}
	}
	w.count++
	w.sum += max(took, time.Microsecond)
}

// close makes the mean of a past window the best one if it is lower. It ignores a window with few operations.
func (w *opWindow) close(o *opLoad) {
	if w.count < loadSample || w.closed {
		return
	}
	w.closed = true
	if mean := w.sum / time.Duration(w.count); o.best == 0 || mean < o.best {
		o.best = mean
	}
}

// Expansion returns the expansion factor: the mean time of the last 75 s divided by the best mean so far, averaged over
// the operation types and weighted by their number of operations. It is 1 if nothing is known.
func (l *Load) Expansion() float64 {
	oldest := l.clock.Now().UnixNano()/int64(loadWindow) - loadWindows
	l.mu.Lock()
	defer l.mu.Unlock()
	var weight, sum float64
	for _, o := range l.ops {
		var count int64
		var took time.Duration
		for i := range o.windows {
			if w := &o.windows[i]; w.number > oldest {
				count += w.count
				took += w.sum
			}
		}
		if count == 0 || o.best == 0 {
			continue
		}
		weight += float64(count)
		sum += float64(took) / float64(o.best) // mean divided by best, times count
	}
	if weight == 0 {
		return 1
	}
	return max(1, sum/weight)
}

// Index returns the availability index from 0 to 100. It is 100 at an expansion factor of 1.
func (l *Load) Index() int { return indexOf(l.Expansion(), l.scale) }

func indexOf(expansion, scale float64) int {
	return int(math.Round(100 * min(1, max(0, 1-math.Log2(expansion)/scale))))
}

// Best returns the best means to save over a restart, for SetBest.
func (l *Load) Best() map[string]time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make(map[string]time.Duration, len(l.ops))
	for op, o := range l.ops {
		if o.best > 0 {
			out[op] = o.best
		}
	}
	return out
}

// SetBest sets the best means of an earlier run where they are better than those of this run.
func (l *Load) SetBest(best map[string]time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for op, d := range best {
		if d <= 0 || len(l.ops) >= maxOps {
			continue
		}
		o := l.ops[op]
		if o == nil {
			o = &opLoad{}
			l.ops[op] = o
		}
		if o.best == 0 || d < o.best {
			o.best = d
		}
	}
}
