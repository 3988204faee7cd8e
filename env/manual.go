package env

import (
	"container/heap"
	"sync"
	"time"
)

// Manual is a clock for tests. It stands still until Advance moves it. It may be used from any goroutine.
type Manual struct {
	mu     sync.Mutex
	change *sync.Cond // signals that timers, sleeps or the end of a function changed
	now    time.Time
	timers timerHeap
	serial uint64
	sleeps uint64 // the number of calls of Sleep so far
}

// NewManual returns a clock that shows start.
func NewManual(start time.Time) *Manual {
	m := &Manual{now: start}
	m.change = sync.NewCond(&m.mu)
	return m
}

type timer struct {
	at     time.Time
	serial uint64 // timers of the same moment fire in the order in which they were set
	fire   func(now time.Time)
	f      func() // the function of AfterFunc, instead of fire
	index  int    // index in the heap, -1 when removed
}

// Now returns the time of the clock.
func (m *Manual) Now() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

// After implements Clock.
func (m *Manual) After(d time.Duration) <-chan time.Time {
	c := make(chan time.Time, 1)
	m.set(d, &timer{fire: func(now time.Time) { c <- now }})
	return c
}

// AfterFunc implements Clock.
func (m *Manual) AfterFunc(d time.Duration, f func()) (stop func() bool) {
	t := &timer{f: f}
	m.set(d, t)
	return func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		if t.index < 0 {
			return false
		}
		heap.Remove(&m.timers, t.index)
		m.change.Broadcast()
		return true
	}
}

// Sleep implements Clock. It returns when Advance has moved the clock far enough.
func (m *Manual) Sleep(d time.Duration) {
	if d <= 0 {
		return
	}
	done := make(chan struct{})
	m.mu.Lock()
	m.sleeps++
	m.mu.Unlock()
	m.set(d, &timer{fire: func(time.Time) { close(done) }})
	<-done
}

func (m *Manual) set(d time.Duration, t *timer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.serial++
	t.at, t.serial = m.now.Add(d), m.serial
	if d <= 0 && t.fire != nil {
		t.index = -1
		t.fire(m.now)
		return
	}
	if d <= 0 {
		t.index = -1
		go t.f()
		return
	}
	heap.Push(&m.timers, t)
	m.change.Broadcast()
}

// Advance moves the clock by d. Timers that become due fire in the order of their times, with the clock at that time. A
// function of AfterFunc runs in its own goroutine, and Advance continues when the function has returned or sleeps on
// this clock. So a function that sets itself again each minute runs sixty times in an hour. Such a function must not
// wait for a lock that the caller of Advance holds. Advance does not wait for goroutines that a Sleep or After wakes.
func (m *Manual) Advance(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	end := m.now.Add(d)
	for len(m.timers) > 0 && !m.timers[0].at.After(end) {
		t := heap.Pop(&m.timers).(*timer)
		m.now = t.at
		m.change.Broadcast()
		if t.fire != nil {
			t.fire(m.now)
			continue
		}
		m.run(t.f)
	}
	// Another goroutine may have advanced the clock further while a function ran.
	if end.After(m.now) {
		m.now = end
	}
}

// run runs f outside the lock. It returns when f has returned or a goroutine has called Sleep.
func (m *Manual) run(f func()) {
	done := false
	sleeps := m.sleeps
	go func() {
		f()
		m.mu.Lock()
		done = true
		m.change.Broadcast()
		m.mu.Unlock()
	}()
	for !done && m.sleeps == sleeps {
		m.change.Wait()
	}
}

// Pending returns the number of sleepers and timers that wait for the clock.
func (m *Manual) Pending() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.timers)
}

// AwaitPending returns when at least n sleepers and timers wait for the clock. With it a test knows that a goroutine
// has reached its Sleep, without sleeping itself.
func (m *Manual) AwaitPending(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for len(m.timers) < n {
		m.change.Wait()
	}
}

type timerHeap []*timer

func (h timerHeap) Len() int { return len(h) }
func (h timerHeap) Less(i, j int) bool {
	if h[i].at.Equal(h[j].at) {
		return h[i].serial < h[j].serial
	}
	return h[i].at.Before(h[j].at)
}
func (h timerHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}
func (h *timerHeap) Push(x any) {
	t := x.(*timer)
	t.index = len(*h)
	*h = append(*h, t)
}
func (h *timerHeap) Pop() any {
	last := len(*h) - 1
	t := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	t.index = -1
	return t
}
