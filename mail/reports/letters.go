package reports

import (
	"bytes"
	"context"
	"sync"

	"doublet/env"
	"doublet/mail/verify"
)

// Limits of the messages that wait until the reports in them are read.
const (
	maxLetters       = 64
	maxLettersLength = 32 << 20 // bytes
	maxLetter        = 8 << 20  // bytes of a message: an encoded file of maxFile bytes and what is around it
	// maxLettersOf and maxLettersLengthOf are the limits for one organization, so that none can keep out the others,
	// however many subdomains it sends from.
	maxLettersOf       = 16
	maxLettersLengthOf = maxLetter
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
	of      map[string]share
	closed  bool
	changed chan struct{} // closed when list becomes empty
}

// share is the part of the queue that an organization takes: its messages, and their length in bytes.
type share struct{ messages, length int }

// plus returns the share with n more messages of together length bytes.
func (s share) plus(n, length int) share { return share{s.messages + n, s.length + length} }

func newLetters(e *env.Env, read func(context.Context, *letter)) *letters {
	return &letters{env: e, read: read, of: map[string]share{}}
}

// add queues a copy of a message. It returns false if the message has no room.
func (q *letters) add(message []byte, from string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	n := len(message)
	sender := verify.Organization(from)
	of := q.of[sender].plus(1, n)
	full := len(q.list) >= maxLetters || q.length+n > maxLettersLength ||
		of.messages > maxLettersOf || of.length > maxLettersLengthOf
	if q.closed || full || n > maxLetter {
		return false
	}
	q.list = append(q.list, letter{bytes.Clone(message), from})
	q.length += n
	q.of[sender] = of
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
	sender := verify.Organization(l.from)
	if q.of[sender] = q.of[sender].plus(-1, -len(l.message)); q.of[sender].messages == 0 {
		delete(q.of, sender)
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
