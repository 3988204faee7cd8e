package reports

import (
	"bytes"
	"context"
	"sync"

	"doublet/env"
)

// Limits of the messages that wait until the reports in them are read.
const (
	maxLetters = 64
	// maxLettersOf is the limit for one sender, so that no sender can keep out the others.
	maxLettersOf     = 16
	maxLetter        = 8 << 20 // bytes of a message: an encoded file of maxFile bytes and what is around it
	maxLettersLength = 32 << 20
)

// letter is a message with a report. from is the authenticated domain of its author, or empty.
type letter struct {
	message []byte
	from    string
}

// letters is a bounded queue of messages. A goroutine reads them one after another, because parsing one needs many
// times its size. The goroutine runs only while messages wait.
type letters struct {
	env  *env.Env
	read func(context.Context, *letter)

	mu      sync.Mutex
	list    []letter // the first one is being read
	length  int      // bytes
	of      map[string]int
	closed  bool
	changed chan struct{} // closed when list becomes empty
}

func newLetters(e *env.Env, read func(context.Context, *letter)) *letters {
	return &letters{env: e, read: read, of: map[string]int{}}
}

// add queues a copy of a message. It returns false if the message has no room.
func (q *letters) add(message []byte, from string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := len(message)
	full := len(q.list) >= maxLetters || q.of[from] >= maxLettersOf || q.length+n > maxLettersLength
	if q.closed || full || n > maxLetter {
		return false
	}
	q.list = append(q.list, letter{bytes.Clone(message), from})
	q.length += n
	q.of[from]++
	if len(q.list) == 1 {
		q.changed = make(chan struct{})
		q.env.Go("read reports", q.run)
	}
	return true
}

// run reads the messages until none waits.
func (q *letters) run() {
	for l := q.first(); l != nil; l = q.next(l) {
		q.read(context.Background(), l)
	}
}

func (q *letters) first() *letter {
	q.mu.Lock()
	defer q.mu.Unlock()
	return &q.list[0]
}

// next removes the message that was read, and returns the one after it, or nil.
func (q *letters) next(l *letter) *letter {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.length -= len(l.message)
	if q.of[l.from]--; q.of[l.from] == 0 {
		delete(q.of, l.from)
	}
	q.list[0] = letter{}
	if q.list = q.list[1:]; len(q.list) > 0 {
		return &q.list[0]
	}
	q.list = nil
	close(q.changed)
	return nil
}

// wait returns when no message waits, or when ctx ends.
func (q *letters) wait(ctx context.Context) error {
	q.mu.Lock()
	busy, changed := len(q.list) > 0, q.changed
	q.mu.Unlock()
	if !busy {
		return nil
	}
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// close refuses further messages and waits for those in the queue.
func (q *letters) close(ctx context.Context) error {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	return q.wait(ctx)
}
