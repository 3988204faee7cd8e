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
	// maxTake is how many feed entries one step reads, maxSend how many databases it sends.
	maxTake = 1000
	maxSend = 64
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
	SaveCursor(consumer string, c store.Cursor) error
	LoadCursor(consumer string) (store.Cursor, error)
}

// job is what a replicator does with a database; the node gives it. It is asked outside every lock of the
// replicator.
type job interface {
	// wants says whether the mate is to get a database's changes from here, and whether that is a queue.
	wants(mate note.UNID, db note.DatabaseID) (yes, queue bool)
	// send brings the mate's replica up to ours. until, where it is not 0, is the MODSEQ to stop at.
	send(ctx context.Context, mate note.UNID, db note.DatabaseID, until note.ModSeq) error
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
// The store's feed is its queue, read at a cursor of its own; in memory it holds which databases wait.
//
// Invariant: every change up to read of a database that the mate holds has reached it, or its database
// waits, or lies in the part that a sweep has not come to yet. The saved cursor lies below every change
// that waits, so that a restart loses nothing.
type replicator struct {
	mate            note.UNID
	worker, workers int
	feed            feed
	clock           env.Clock
	job             job
	queue           *queueStats

	mu      sync.Mutex
	busy    bool // a step is under way
	loaded  bool
	read    store.Cursor
	saved   uint64
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
	fails          int
	queue          bool
	// frozen is the sequence up to which a queue database may go once that is cleared, until the MODSEQ
	// that belongs to it.
	frozen uint64
	until  note.ModSeq
}

func newReplicator(mate note.UNID, worker, workers int, f feed, clock env.Clock, j job, q *queueStats) *replicator {
	return &replicator{
		mate: mate, worker: worker, workers: workers, feed: f, clock: clock, job: j, queue: q,
		waiting: make(map[note.DatabaseID]*task),
	}
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
	defer r.mu.Unlock()
	r.sweepLocked()
}

func (r *replicator) sweepLocked() {
	r.sweeping, r.next = true, 0
	r.sweeps++
}

// touch puts a database in line though it has not changed.
func (r *replicator) touch(db note.DatabaseID, queue bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.add(db, queue)
	t.touched, t.again, t.retry = true, true, time.Time{}
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

// step reads the feed, and sends what waits and may go. It says whether there was anything to do. An error
// of the mate as a whole ends it; one database that fails does not hold up the others.
func (r *replicator) step(ctx context.Context) (progress bool, err error) {
	r.mu.Lock()
	if r.busy {
		r.mu.Unlock()
		return false, nil
	}
	r.busy = true
	err = r.load()
	r.mu.Unlock()
	if err == nil {
		progress, err = r.work(ctx)
	}
	r.mu.Lock()
	c := r.cursor()
	save := r.loaded && c.Seq > r.saved
	if save {
		r.saved = c.Seq
	}
	r.busy = false
	r.mu.Unlock()
	if save {
		err = errors.Join(err, r.feed.SaveCursor(cursorName(r.mate, r.worker, r.workers), c))
	}
	return progress, err
}

func (r *replicator) work(ctx context.Context) (progress bool, err error) {
	took, err := r.take()
	if err != nil {
		return took, err
	}
	swept, err := r.sweepOn(ctx)
	if err != nil {
		return took || swept, err
	}
	sent, err := r.sendSome(ctx)
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

// sendSome sends databases, those that wait longest first.
func (r *replicator) sendSome(ctx context.Context) (progress bool, err error) {
	for range maxSend {
		t, last, until := r.pick()
		if t == nil {
			return progress, nil
		}
		err := r.job.send(ctx, r.mate, t.db, until)
		if err != nil && (ctx.Err() != nil || errors.Is(err, errMate)) {
			r.back(t)
			return progress, err
		}
		r.sent(t, last, err)
		progress = progress || err == nil
	}
	return progress, nil
}

// pick takes the first database in line that may go: up to last of its changes, and until a MODSEQ.
//
// Only the step that is under way takes away from the line or moves in it; others append.
func (r *replicator) pick() (t *task, last uint64, until note.ModSeq) {
	r.mu.Lock()
	line, now := r.line, r.clock.Now()
	r.mu.Unlock()
	for i, t := range line {
		r.mu.Lock()
		later := t.retry.After(now)
		r.mu.Unlock()
		if later || t.queue && !r.mayGo(t) {
			continue
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.line = append(slices.Delete(r.line, i, i+1), t) // one that fails goes behind the others
		last, t.again = t.last, false
		if t.queue {
			last = min(last, t.frozen)
		}
		return t, last, t.until
	}
	return nil, 0, 0
}

// mayGo freezes what of a queue database goes next, and says whether that may go now.
func (r *replicator) mayGo(t *task) bool {
	r.mu.Lock()
	seq := t.frozen
	r.mu.Unlock()
	if seq == 0 {
		until := max(1, r.job.stands(t.db))
		seq = r.feed.Now().Seq // behind what was looked at, and behind all that it was committed with
		r.mu.Lock()
		t.frozen, t.until = seq, until
		r.mu.Unlock()
	}
	return r.job.cleared(seq)
}

// back puts a database to the front again: it did not come to being sent.
func (r *replicator) back(t *task) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i := slices.Index(r.line, t); i > 0 {
		r.line = slices.Insert(slices.Delete(r.line, i, i+1), 0, t)
	}
}

// sent takes a database out of line, unless more of it waits than was sent.
func (r *replicator) sent(t *task, last uint64, err error) {
	now := r.clock.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.queue.fail()
		r.trouble = err.Error()
		t.retry = now.Add(min(maxRetry, firstRetry<<min(t.fails, 10)))
		t.fails++
		return
	}
	r.trouble = ""
	r.queue.replicated(now.Sub(t.queued))
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
	if r.waiting[t.db] == t {
		delete(r.waiting, t.db)
		r.queue.left(1)
	}
	if i := slices.Index(r.line, t); i >= 0 {
		r.line = slices.Delete(r.line, i, i+1)
	}
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
