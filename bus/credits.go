package bus

import (
	"container/list"
	"context"
	"errors"
	"sync"
)

// Grant limits the requests that a server accepts from one mate at one time.
type Grant struct {
	Requests int
	Bytes    int64 // total size of their bodies
}

// DefaultGrant keeps a fast network full and is small compared with the caches of a store.
var DefaultGrant = Grant{Requests: 64, Bytes: 4 << 20}

// maxWaiting is the maximum number of requests that wait for a credit of one mate.
const maxWaiting = 4096

// errCrowd means that the queue for credits is full.
var errCrowd = errors.New("too many wait for this server already")

// Credits limits the requests in flight to one mate to its Grant. Further requests wait in FIFO order. A body larger
// than Grant.Bytes is admitted when nothing else is in flight.
type Credits struct {
	mu       sync.Mutex
	grant    Grant
	requests int
	bytes    int64
	waiting  list.List // of *waiter
	closed   error
}

type waiter struct {
	bytes int64
	ready chan error
}

// NewCredits makes credits for a grant.
func NewCredits(g Grant) *Credits { return &Credits{grant: g} }

// SetGrant changes the grant. Requests in flight keep their credits.
func (c *Credits) SetGrant(g Grant) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.grant = g
	c.admit()
}

// Take waits for a credit for a request of n bytes. After an error the caller must not call Give.
func (c *Credits) Take(ctx context.Context, n int64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.mu.Lock()
	switch {
	case c.closed != nil:
		c.mu.Unlock()
		return c.closed
	case c.waiting.Len() == 0 && c.fits(n):
		c.take(n)
		c.mu.Unlock()
		return nil
	case c.waiting.Len() >= maxWaiting:
		c.mu.Unlock()
		return errCrowd
	}
	w := &waiter{bytes: n, ready: make(chan error, 1)}
	place := c.waiting.PushBack(w)
	c.mu.Unlock()
	select {
	case err := <-w.ready:
		return err
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case err := <-w.ready: // admitted meanwhile
		if err == nil {
			c.give(n)
		}
	default:
		c.waiting.Remove(place)
		c.admit() // requests behind a large one may fit now
	}
	return ctx.Err()
}

// Give returns a credit of n bytes.
func (c *Credits) Give(n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.give(n)
}

// InFlight returns the number of requests that hold a credit, and the number that wait for one.
func (c *Credits) InFlight() (taken, waiting int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.requests, c.waiting.Len()
}

// Close makes all waiting and later calls of Take fail with err.
func (c *Credits) Close(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = err
	for c.waiting.Len() > 0 {
		c.waiting.Remove(c.waiting.Front()).(*waiter).ready <- err
	}
}

func (c *Credits) fits(n int64) bool {
	return c.requests == 0 || c.requests < c.grant.Requests && c.bytes+n <= c.grant.Bytes
}

func (c *Credits) take(n int64) {
	c.requests++
	c.bytes += n
}

func (c *Credits) give(n int64) {
	c.requests--
	c.bytes -= n
	c.admit()
}

// admit grants credits from the front of the queue for as long as they fit. The caller holds mu.
func (c *Credits) admit() {
	for front := c.waiting.Front(); front != nil; front = c.waiting.Front() {
		w := front.Value.(*waiter)
		if !c.fits(w.bytes) {
			return
		}
		c.waiting.Remove(front)
		c.take(w.bytes)
		w.ready <- nil
	}
}
