package cluster

import (
	"slices"
	"time"

	"doublet/note"
)

// backlog is the databases that wait for a mate, in order. It is a plain data structure without a lock: the
// replicator that has it locks.
type backlog struct {
	waiting map[note.DatabaseID]*task
	line    []*task // the order of arrival
	stat    *queueStats
}

// task is a database that waits.
type task struct {
	db note.DatabaseID
	// first and last are the sequences of the changes that wait; 0: there are none.
	first, last uint64
	// touched says that it waits for another reason than a change, again that this came while it was being sent.
	touched, again bool
	queued, retry  time.Time
	// under is since when it is being sent; zero: it is not.
	under time.Time
	fails int
	queue bool
	// frozen is the sequence up to which a queue database may go once that is cleared, until the MODSEQ that
	// belongs to it.
	frozen uint64
	until  note.ModSeq
}

// add queues a database, if it does not wait already.
func (b *backlog) add(db note.DatabaseID, queue bool, now time.Time) *task {
	t := b.waiting[db]
	if t == nil {
		t = &task{db: db, queued: now, queue: queue}
		b.waiting[db] = t
		b.line = append(b.line, t)
		b.stat.arrived()
	}
	return t
}

// forget drops all that waits.
func (b *backlog) forget() {
	b.stat.left(len(b.waiting))
	b.line = nil
	clear(b.waiting)
}

// front moves a database that did not come to being sent to the front again.
func (b *backlog) front(t *task) {
	if i := slices.Index(b.line, t); i > 0 {
		b.line = slices.Insert(slices.Delete(b.line, i, i+1), 0, t)
	}
}

// failed delays a database whose sending failed.
func (b *backlog) failed(t *task, now time.Time) {
	b.stat.fail()
	t.retry = now.Add(min(maxRetry, firstRetry<<min(t.fails, 10)))
	t.fails++
}

// sent removes a database that was sent up to a sequence, unless more of it waits.
func (b *backlog) sent(t *task, last uint64, now time.Time) {
	b.stat.replicated(now.Sub(t.queued))
	t.fails, t.frozen, t.until, t.touched = 0, 0, 0, t.again
	if t.last > last {
		t.first = max(t.first, last+1)
	} else {
		t.first, t.last = 0, 0
	}
	if t.last > 0 || t.touched {
		t.queued = now
		return
	}
	if b.waiting[t.db] == t {
		delete(b.waiting, t.db)
		b.stat.left(1)
	}
	if i := slices.Index(b.line, t); i >= 0 {
		b.line = slices.Delete(b.line, i, i+1)
	}
}

// floor returns the highest sequence, up to seq, below which nothing waits.
func (b *backlog) floor(seq uint64) uint64 {
	for _, t := range b.line {
		if t.first > 0 && t.first <= seq {
			seq = t.first - 1
		}
	}
	return seq
}

// has reports whether nothing up to a sequence waits.
func (b *backlog) has(seq uint64) bool {
	return !slices.ContainsFunc(b.line, func(t *task) bool { return t.touched || t.first <= seq })
}

// oldest returns since when the database that has waited longest waits; zero: none does.
func (b *backlog) oldest() (since time.Time) {
	for _, t := range b.line {
		if since.IsZero() || t.queued.Before(since) {
			since = t.queued
		}
	}
	return since
}

// longest returns the database that has been under way longest, and since when; zero: none is.
func (b *backlog) longest() (db note.DatabaseID, since time.Time) {
	for _, t := range b.line {
		if !t.under.IsZero() && (since.IsZero() || t.under.Before(since)) {
			db, since = t.db, t.under
		}
	}
	return db, since
}
