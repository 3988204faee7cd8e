package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"doublet/env"
	"doublet/note"
	"doublet/store"
)

// Bounds of a Cluster Replicator.
const (
	// maxTake is how many feed entries one step reads, maxSend how many databases it begins to send.
	maxTake = 1000
	maxSend = 64
	// maxLanes is how many databases one Cluster Replicator has under way at a time at most: their changes travel together, and
	// share the flushes of the mate's disk.
	maxLanes = 32
	// cursorEvery is how often the cursor is saved while there is work: after a restart all is compared anyway.
	cursorEvery = time.Second
	// maxWaiting bounds the databases that wait; beyond it the feed keeps them.
	maxWaiting = 20_000
	// The pause before a database that failed is sent again, doubled each time.
	firstRetry = time.Second
	maxRetry   = 5 * time.Minute
)

// feed is the part of the store that a replicator reads.
type feed interface {
	Feed(c store.Cursor, fn func(store.Change) bool) (store.Cursor, error)
	Now() store.Cursor
	FeedMoved(c store.Cursor) <-chan struct{}
	SaveCursor(consumer string, c store.Cursor) error
	LoadCursor(consumer string) (store.Cursor, error)
}

// job is what a replicator does with a database; the node gives it. It is asked outside every lock of the
// replicator.
type job interface {
	// wants says whether the mate is to get a database's changes from here, and whether that is a queue.
	wants(mate note.UNID, db note.DatabaseID) (yes, queue bool)
	// send brings the mate's replica up to ours. until, where it is not 0, is the MODSEQ to stop at. afresh says that what is
	// remembered of the mate's replica may be wrong. It is called for many databases at a time, for each once.
	send(ctx context.Context, mate note.UNID, db note.DatabaseID, until note.ModSeq, afresh bool) error
	// reached says that a database has been brought up to ours.
	reached(mate note.UNID, db note.DatabaseID)
	// stands is where the ledger of a database stands.
	stands(db note.DatabaseID) note.ModSeq
	// cleared says whether what the removals of queues up to a sequence stand for is safe elsewhere.
	cleared(seq uint64) bool
	// compare exchanges positions of databases from one on, of the worker's share, and says where to go
	// on; 0: done.
	compare(ctx context.Context, r *replicator, from note.DatabaseID) (next note.DatabaseID, err error)
}

// errMate marks an error that is the mate's, not the database's: nothing else can go there either.
var errMate = errors.New("the mate does not answer")

// replicator is one Cluster Replicator: it brings the changes of its share of the databases to one mate.
// The store's feed is its queue, read at a cursor of its own; in memory it holds which databases wait. Several
// databases are under way at a time, each of them once: within a database order is kept.
//
// Invariant: every change up to read of a database that the mate holds has reached it, or its database
// waits, or lies in the part that a sweep has not come to yet. The saved cursor lies below every change
// that waits, so that a restart loses nothing.
type replicator struct {
	mate            note.UNID
	worker, workers int
	lanes           int
	feed            feed
	clock           env.Clock
	job             job
	queue           *queueStats
	// wake fires when a database is under way no more, or was put in line though it has not changed, and when all are to be compared.
	wake signal

	mu     sync.Mutex
	busy   bool // a step is under way
	under  int  // so many databases are under way
	down   error
	loaded bool
	read   store.Cursor
	// saved is the cursor as it was saved last, at savedAt.
	saved   uint64
	savedAt time.Time
	waiting map[note.DatabaseID]*task
	line    []*task // in order of arrival
	// sweeping says that all databases from next on are to be compared with the mate; sweeps counts how
	// often that was asked for.
	sweeping bool
	next     note.DatabaseID
	sweeps   int
	trouble  string // why a database failed last, until one went
}

// task is a database that waits.
type task struct {
	db note.DatabaseID
	// first and last are the sequences of the changes that wait; 0 where none do.
	first, last uint64
	// touched: it waits for another reason than a change. again: that came while it was being sent.
	touched, again bool
	queued, retry  time.Time
	// under is since when it is under way; zero: it is not.
	under time.Time
	fails int
	queue bool
	// frozen is the sequence up to which a queue database may go once that is cleared, until the MODSEQ
	// that belongs to it.
	frozen uint64
	until  note.ModSeq
}

// lanes is how many databases each of the workers for a mate has under way where so many requests to the mate may be: a part of
// them, so that whatever else is asked of it finds a credit.
func lanes(workers, requests int) int { return max(1, min(maxLanes, requests*3/4/workers)) }

func newReplicator(mate note.UNID, worker, workers, lanes int, f feed, clock env.Clock, j job, q *queueStats) *replicator {
	r := &replicator{
		mate: mate, worker: worker, workers: workers, lanes: lanes, feed: f, clock: clock, job: j, queue: q,
		waiting: make(map[note.DatabaseID]*task),
	}
	return r
}

// share says which of n workers carries a database.
func share(db note.DatabaseID, n int) int {
	x := uint64(db) * 0x9E3779B97F4A7C15
	return int(x >> 33 % uint64(n))
}

func (r *replicator) mine(db note.DatabaseID) bool { return share(db, r.workers) == r.worker }

func cursorName(mate note.UNID, worker, workers int) string {
	return fmt.Sprintf("cluster/%s/%d.%d", mate, worker, workers)
}

// load takes up the saved cursor. Under mu. Whatever it says, all databases are compared with the mate's
// once: that finds what a mate has lost, and who became home meanwhile.
func (r *replicator) load() error {
	if r.loaded {
		return nil
	}
	c, err := r.feed.LoadCursor(cursorName(r.mate, r.worker, r.workers))
	if err != nil {
		return err
	}
	if c.Seq == 0 { // never saved: a mate that is new
		c = r.feed.Now()
	}
	r.read, r.loaded = c, true
	r.sweepLocked()
	return nil
}

// sweep asks that every database is compared with the mate's: it came back, or the feed does not reach
// back to where it stood.
func (r *replicator) sweep() {
	r.mu.Lock()
	r.sweepLocked()
	r.mu.Unlock()
	r.wake.fire()
}

func (r *replicator) sweepLocked() {
	r.sweeping, r.next = true, 0
	r.sweeps++
}

// touch puts a database in line though it has not changed.
func (r *replicator) touch(db note.DatabaseID, queue bool) {
	r.mu.Lock()
	t := r.add(db, queue)
	t.touched, t.again, t.retry = true, true, time.Time{}
	r.mu.Unlock()
	r.wake.fire()
}

// add puts a database in line. Under mu.
func (r *replicator) add(db note.DatabaseID, queue bool) *task {
	t := r.waiting[db]
	if t == nil {
		t = &task{db: db, queued: r.clock.Now(), queue: queue}
		r.waiting[db] = t
		r.line = append(r.line, t)
		r.queue.arrived()
	}
	return t
}

// drop forgets what waits: the mate is one no more.
func (r *replicator) drop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.queue.left(len(r.waiting))
	r.line = nil
	clear(r.waiting)
}

// passed says whether every change of a database up to a sequence has reached the mate.
func (r *replicator) passed(db note.DatabaseID, seq uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.loaded || r.read.Seq < seq || r.sweeping && db >= r.next {
		return false
	}
	t := r.waiting[db]
	return t == nil || !t.touched && t.first > seq
}

// cleared says whether the changes up to a sequence of all databases but queues have reached the mate.
// Where one has not, it asks except, if there is one, whether that may be left out.
func (r *replicator) cleared(seq uint64, except func(db note.DatabaseID) bool) bool {
	r.mu.Lock()
	if !r.loaded || r.read.Seq < seq || r.sweeping {
		r.mu.Unlock()
		return false
	}
	var held []note.DatabaseID
	for _, t := range r.line {
		if !t.queue && (t.touched || t.first <= seq) {
			held = append(held, t.db)
			if except == nil {
				break
			}
		}
	}
	r.mu.Unlock()
	return !slices.ContainsFunc(held, func(db note.DatabaseID) bool { return except == nil || !except(db) })
}

// depth is how many databases wait.
func (r *replicator) depth() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.waiting)
}

// idle says that nothing is left to do.
func (r *replicator) idle() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.loaded && !r.sweeping && len(r.waiting) == 0 && r.read == r.feed.Now()
}

// cursor is up to where a restart need not look again. Under mu.
func (r *replicator) cursor() store.Cursor {
	c := r.read
	for _, t := range r.line {
		if t.first > 0 && t.first <= c.Seq {
			c.Seq = t.first - 1
		}
	}
	return c
}

// step reads the feed, and sends what waits and may go, by start, which returns before the sending has ended or after it: as
// many databases as there are lanes are under way. It says whether there was anything to do. An error of the mate as a whole ends
// it, and the next step too where it came later; one database that fails does not hold up the others.
func (r *replicator) step(ctx context.Context, start func(send func())) (progress bool, err error) {
	r.mu.Lock()
	if r.busy {
		r.mu.Unlock()
		return false, nil
	}
	r.busy = true
	err, r.down = r.down, nil
	if err == nil {
		err = r.load()
	}
	r.mu.Unlock()
	if err == nil {
		progress, err = r.work(ctx, start)
	}
	r.mu.Lock()
	c, save := r.toSave()
	r.busy = false
	r.mu.Unlock()
	if save {
		err = errors.Join(err, r.feed.SaveCursor(cursorName(r.mate, r.worker, r.workers), c))
	}
	return progress, err
}

// toSave says whether the cursor is to be saved now. Under mu.
func (r *replicator) toSave() (c store.Cursor, save bool) {
	now := r.clock.Now()
	if !r.loaded || r.saved != 0 && now.Sub(r.savedAt) < cursorEvery {
		return c, false
	}
	if c = r.cursor(); c.Seq <= r.saved {
		return c, false
	}
	r.saved, r.savedAt = c.Seq, now
	return c, true
}

func (r *replicator) work(ctx context.Context, start func(send func())) (progress bool, err error) {
	took, err := r.take()
	if err != nil {
		return took, err
	}
	swept, err := r.sweepOn(ctx)
	if err != nil {
		return took || swept, err
	}
	sent, err := r.sendSome(ctx, start)
	return took || swept || sent, err
}

// take reads the feed as far as there is room for what changed.
func (r *replicator) take() (progress bool, err error) {
	r.mu.Lock()
	from, room := r.read, len(r.waiting) < maxWaiting
	r.mu.Unlock()
	if !room || from == r.feed.Now() {
		return false, nil
	}
	type seen struct {
		store.Change
		queue bool
	}
	var list []seen
	n := 0
	c, err := r.feed.Feed(from, func(ch store.Change) bool {
		if n++; n > maxTake {
			return false
		}
		if r.mine(ch.Database) {
			if yes, queue := r.job.wants(r.mate, ch.Database); yes {
				list = append(list, seen{ch, queue})
			}
		}
		return true
	})
	now := r.feed.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if errors.Is(err, store.ErrFeedCut) {
		r.read = now
		r.sweepLocked()
		return true, nil
	}
	if err != nil {
		return false, err
	}
	for _, s := range list {
		t := r.add(s.Database, s.queue)
		if t.first == 0 {
			t.first = s.Seq
		}
		t.last = s.Seq
	}
	r.read = c
	return n > 0, nil
}

// sweepOn compares some databases with the mate's, where a sweep was asked for.
func (r *replicator) sweepOn(ctx context.Context) (progress bool, err error) {
	r.mu.Lock()
	sweeping, from, sweeps := r.sweeping, r.next, r.sweeps
	r.mu.Unlock()
	if !sweeping {
		return false, nil
	}
	next, err := r.job.compare(ctx, r, from)
	if err != nil {
		return false, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sweeps == sweeps { // else it was asked for anew meanwhile
		r.next, r.sweeping = next, next != 0
	}
	return true, nil
}

// swept says that all databases were compared with the mate's since that was asked for last.
func (r *replicator) swept() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.loaded && !r.sweeping
}

// reached says whether everything up to a sequence has gone to the mate.
func (r *replicator) reached(seq uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.loaded || r.sweeping || r.read.Seq < seq {
		return false
	}
	return !slices.ContainsFunc(r.line, func(t *task) bool { return t.touched || t.first <= seq })
}

// known says whether the feed is read for the mate: its waiting databases are all that it lacks.
func (r *replicator) known() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.loaded
}

// state says how many databases wait, since when the oldest does, and what is wrong.
func (r *replicator) state() (waiting int, oldest time.Time, trouble string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range r.line {
		if oldest.IsZero() || t.queued.Before(oldest) {
			oldest = t.queued
		}
	}
	return len(r.waiting), oldest, r.trouble
}
