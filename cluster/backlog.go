package cluster

import (
	"slices"
	"time"

	"doublet/note"
)

// backlog is the queue of databases to be sent to a mate. It has no lock of its own: the lock of its replicator
// protects it.
type backlog struct {
	waiting map[note.DatabaseID]*task
	line    []*task // in order of arrival
	stat    *queueStats
}

// task is one database in a backlog.
type task struct {
	db note.DatabaseID
	// first and last are the sequence numbers of the first and last change to send; 0: none.
	first, last uint64
	// touched means that the database must be sent for another reason than a change. again means that this was
	// requested while it was being sent.
	touched, again bool
	queued, retry  time.Time
	// under is the time at which sending began; zero: it is not being sent.
	under time.Time
	fails int
	queue bool
	// frozen is the sequence number up to which a database that is a queue may be sent once it is cleared. until is the
	// corresponding MODSEQ.
	frozen uint64
	until  note.ModSeq
}

// add adds a database unless it is already in the backlog.
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

// forget empties the backlog.
func (b *backlog) forget() {
	b.stat.left(len(b.waiting))
	b.line = nil
	clear(b.waiting)
}

// front moves a database to the front because its turn was skipped.
func (b *backlog) front(t *task) {
	if i := slices.Index(b.line, t); i > 0 {
		b.line = slices.Insert(slices.Delete(b.line, i, i+1), 0, t)
	}
}

// failed delays the retry after an error. The delay doubles with each failure.
func (b *backlog) failed(t *task, now time.Time) {
	b.stat.fail()
	t.retry = now.Add(min(maxRetry, firstRetry<<min(t.fails, 10)))
	t.fails++
}

// sent records that a database was sent up to sequence number last, and removes it unless more must be sent.
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

// floor returns the highest sequence number, at most seq, up to which no change is waiting.
func (b *backlog) floor(seq uint64) uint64 {
	for _, t := range b.line {
		if t.first > 0 && t.first <= seq {
			seq = t.first - 1
		}
	}
	return seq
}

// has reports whether the mate has everything up to seq: no database waits with an earlier change or for another
// reason.
func (b *backlog) has(seq uint64) bool {
	return !slices.ContainsFunc(b.line, func(t *task) bool { return t.touched || t.first <= seq })
}

// oldest returns the time since which the oldest task has waited; zero: there is none.
func (b *backlog) oldest() (since time.Time) {
	for _, t := range b.line {
		if since.IsZero() || t.queued.Before(since) {
			since = t.queued
		}
	}
	return since
}

// longest returns the database that has been in transfer longest, and the start time; zero: none is.
func (b *backlog) longest() (db note.DatabaseID, since time.Time) {
	for _, t := range b.line {
		if !t.under.IsZero() && (since.IsZero() || t.under.Before(since)) {
			db, since = t.db, t.under
		}
	}
	return db, since
}
