package store

import (
	"sync"
	"sync/atomic"

	"doublet/store/layout"
)

// earlyMax is the number of changes that may be acknowledged and not flushed at one time. A change beyond it waits for
// its flush like any other.
const earlyMax = 1024

// early holds the commits that were acknowledged before the flush of the log (layout.AckEarly) until they are flushed.
// The flush follows without a request: each batch is in the log with the order to flush it.
type early struct {
	mu   sync.Mutex
	list []commit
	// running is set while a goroutine waits for the flushes.
	running bool
	// count is the number of changes that were acknowledged early.
	count atomic.Uint64
}

// add appends a commit, unless there are too many. start means that nobody waits for the flushes yet.
func (e *early) add(c commit) (taken, start bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.list) >= earlyMax {
		return false, false
	}
	e.list = append(e.list, c)
	start, e.running = !e.running, true
	e.count.Add(1)
	return true, start
}

// first returns the first commit. There is one when the goroutine begins.
func (e *early) first() commit {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.list[0]
}

// next removes the first commit, which is flushed. more is false if no other waits: then the goroutine ends.
func (e *early) next() (more bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.list = e.list[1:]; len(e.list) == 0 {
		e.list, e.running = nil, false
	}
	return e.running
}

// waiting returns the number of changes that are acknowledged and not known to be flushed.
func (e *early) waiting() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.list)
}

// answersEarly reports whether the update returns before its batch is flushed. That needs each database that it names
// to allow it, changed or not: an update may show what it saw in a database, and of one that does not allow it only
// what is durable may be shown.
//
// A change that comes from another replica waits: the replica would take the answer as proof that the change is here.
// So does a change of which a client is told numbers (Tx.Home): after a crash they would be given again, to other
// notes.
func (tx *Tx) answersEarly() bool {
	if tx.unconfirmed {
		return false
	}
	for _, w := range tx.writers {
		if w.told || w.infoChanged || w.st.info.Ack != layout.AckEarly {
			return false
		}
	}
	return true
}

// finishLater has a commit finished in the background. It returns false if the caller has to do it: there are too many,
// or the store closes. Close waits for what was taken.
func (s *Store) finishLater(c commit) bool {
	if s.dbs.enter() != nil {
		return false
	}
	taken, start := s.early.add(c)
	if !taken {
		s.dbs.leave()
	}
	if start {
		s.env.Go("store early", s.finishEarly)
	}
	return taken
}

// finishEarly finishes the commits that were acknowledged early, until there are none.
func (s *Store) finishEarly() {
	for more := true; more; {
		_ = s.finish(s.early.first()) // an error has ended the process: OnFatal was called
		more = s.early.next()
		s.dbs.leave()
	}
}

// finish waits until a commit is flushed, and moves the horizon past it.
func (c *core) finish(done commit) error {
	if err := done.batch.SyncWait(); err != nil {
		return c.die(err)
	}
	c.watch.fire(c.hz.complete(done.span))
	return done.batch.Close()
}
