package run

import (
	"iter"
	"sync"
	"time"

	"doublet/bench/workload"
)

// want is one action that a user wants.
type want struct {
	// n is its number in the schedule, -1 for the sign-in before it.
	n      int
	action string
	at     time.Time // the intended time
	// missed is the time from which on it cannot begin, hold the time that it takes by intention.
	missed time.Time
	hold   time.Duration
}

// wants holds what a user wants now. A measurement may end at any moment; each action that is wanted by then is counted
// once: with its answer, or by close.
type wants struct {
	mu     sync.Mutex
	now    want
	open   bool // now has no answer yet
	closed bool // the measurement has ended
}

func (w *wants) next(x want) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now, w.open = x, true
}

// settle counts the answer, unless close has counted the action.
func (w *wants) settle(count func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		count()
	}
	w.open = false
}

// close ends the counting of answers. It returns what the user wants now, if that has no answer.
func (w *wants) close() (x want, open bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	return w.now, w.open
}

func (p *person) want(n int, planned *workload.Planned) want {
	return want{n: n, action: string(planned.Do), at: p.begin.Add(planned.At), missed: p.begin.Add(planned.Next),
		hold: time.Duration(float64(planned.Hold) / p.s.Speed)}
}

// settle counts, at the end of a measurement, the action without an answer, and those of the schedule that the user
// wanted behind it until now. Without this a stall that reaches the end would not appear. The action before them may
// have its answer: a user whose signing out hangs wants nothing yet, but his schedule goes on.
func (p *person) settle(now time.Time) {
	first, open := p.wants.close()
	if first.at.After(now) {
		return
	}
	if open {
		p.pending(first, now)
	}
	n := 0
	for planned := range p.schedule() {
		x := p.want(n, &planned)
		n++
		switch {
		case x.at.After(now):
			return
		case x.n <= first.n:
		case now.After(x.missed):
			p.s.rec.Missed(x.action)
		default:
			p.pending(x, now)
		}
	}
}

func (p *person) pending(x want, now time.Time) {
	if late := now.Sub(x.at) - x.hold; late > 0 {
		p.s.rec.Pending(x.action, late)
	}
}

// offers counts the actions that the schedule of a user holds, in the order of time. It is used by one goroutine.
type offers struct {
	next func() (workload.Planned, bool)
	stop func()
	at   time.Time // of the action that is not counted yet
}

// until returns the number of actions that the user wants from the last call on, before now.
func (o *offers) until(p *person, now time.Time) (n int) {
	if o.next == nil {
		o.next, o.stop = iter.Pull(p.schedule())
		o.at = o.following(p)
	}
	for ; o.at.Before(now); o.at = o.following(p) {
		n++
	}
	return n
}

func (o *offers) following(p *person) time.Time {
	planned, ok := o.next()
	if !ok {
		return p.begin.Add(1 << 62) // a schedule has no end
	}
	return p.begin.Add(planned.At)
}

// end frees the schedule.
func (o *offers) end() {
	if o.stop != nil {
		o.stop()
	}
}
