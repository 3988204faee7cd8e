package assist

import (
	"sync"
	"time"
)

// Bounds of a breaker. After breakAfter failures in a row, requests fail at once for breakFirst, then one tries again;
// each further failure doubles the pause, up to breakMost.
const (
	breakAfter = 3
	breakFirst = 5 * time.Second
	breakMost  = time.Minute
)

// breaker stops requests to a directory that does not answer, so that sign-ins do not wait for it one after another.
type breaker struct {
	mu       sync.Mutex
	failures int
	until    time.Time // of the pause
	trying   bool      // a request tries if the directory is back
	last     error
}

// enter returns the last error if requests have to pause. After nil, the caller must call leave.
func (b *breaker) enter(now time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failures < breakAfter {
		return nil
	}
	if b.trying || now.Before(b.until) {
		return b.last
	}
	b.trying = true
	return nil
}

// leave records the result of a request. counts is false for one that says nothing about the directory, such as one
// that its caller cancelled.
func (b *breaker) leave(now time.Time, err error, counts bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.trying = false
	switch {
	case !counts:
	case err == nil:
		b.failures, b.last = 0, nil
	default:
		b.failures, b.last = b.failures+1, err
		pause := breakFirst << min(max(b.failures-breakAfter, 0), 10)
		b.until = now.Add(min(pause, breakMost))
	}
}

// state returns the error of the last request, nil if it succeeded.
func (b *breaker) state() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.last
}
