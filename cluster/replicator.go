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
	// maxTake is the number of feed entries that one step reads, maxSend that of databases that it begins to send.
	maxTake = 1000
	maxSend = 64
	// maxLanes is the greatest number of databases that one Cluster Replicator has under way at a time. Their
	// changes travel together and share the flushes of the mate's disk.
	maxLanes = 32
	// cursorEvery is how often the cursor is saved while there is work: after a restart all is compared anyway.
	cursorEvery = time.Second
	// maxWaiting bounds the databases in memory; the feed keeps the others.
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

// job is what a replicator does with a database (see replication). No lock of the replicator is held while it is
// called.
type job interface {
	// wants reports whether the mate gets the changes of a database from here, and whether that is a queue.
	wants(mate note.UNID, db note.DatabaseID) (yes, queue bool)
	// send brings the mate's replica up to ours, or to the MODSEQ until if that is not 0. afresh says that what
	// is remembered of the mate's replica may be wrong. It is called for many databases at a time, but only once
	// for each.
	send(ctx context.Context, mate note.UNID, db note.DatabaseID, until note.ModSeq, afresh bool) error
	// reached is called after a database was sent.
	reached(mate note.UNID, db note.DatabaseID)
	// stands returns the last MODSEQ of the ledger of a database.
	stands(db note.DatabaseID) note.ModSeq
	// cleared reports whether what the removals of queues up to a sequence stand for is safe elsewhere.
	cleared(seq uint64) bool
	// compare exchanges positions of databases from one on, of the worker's share, and returns where to go on;
	// 0: done.
	compare(ctx context.Context, r *replicator, from note.DatabaseID) (next note.DatabaseID, err error)
}

// errMate marks an error of the mate, not of a database: nothing else can go there either.
var errMate = errors.New("mate does not answer")

// replicator is one Cluster Replicator: it brings the changes of its share of the databases to one mate.
// The store's feed is its queue, read at a cursor of its own; in memory it holds which databases wait. Several
// databases are under way at a time, each only once, so that order is kept within a database.
//
// Invariant: each change up to read of a database that the mate holds has reached the mate, or the database
// waits, or a sweep has not come to the database yet. The saved cursor lies below every change that waits, so
// that a restart loses nothing.
type replicator struct {
	mate            note.UNID
	worker, workers int
	lanes           int
	feed            feed
	clock           env.Clock
	job             job
	// wake fires when a database is no longer under way, when one was touched, and when all are to be compared.
	wake signal

	mu     sync.Mutex
	busy   bool // a step is under way
	under  int  // the number of databases under way
	down   error
	loaded bool
	read   store.Cursor
	// saved is the sequence of the cursor that was saved last, at savedAt.
	saved   uint64
	savedAt time.Time
	backlog
	sweep
	trouble string // the last error of a database, until one was sent
}

// sweep says that all databases from next on are to be compared with the mate's; sweeps counts the requests.
type sweep struct {
	sweeping bool
	next     note.DatabaseID
	sweeps   int
}

// lanes returns how many databases each worker for a mate may have under way, given the number of requests to
// the mate that may be under way: a part of them, so that other requests find a credit.
func lanes(workers, requests int) int { return max(1, min(maxLanes, requests*3/4/workers)) }

func newReplicator(
	mate note.UNID, worker, workers, lanes int, f feed, clock env.Clock, j job, q *queueStats,
) *replicator {
	r := &replicator{
		mate: mate, worker: worker, workers: workers, lanes: lanes, feed: f, clock: clock, job: j,
		backlog: backlog{waiting: make(map[note.DatabaseID]*task), stat: q},
	}
	return r
}

// share returns which of n workers carries a database.
func share(db note.DatabaseID, n int) int {
	x := uint64(db) * 0x9E3779B97F4A7C15
	return int(x >> 33 % uint64(n))
}

func (r *replicator) mine(db note.DatabaseID) bool { return share(db, r.workers) == r.worker }

func cursorName(mate note.UNID, worker, workers int) string {
	return fmt.Sprintf("cluster/%s/%d.%d", mate, worker, workers)
}

// load reads the saved cursor at the first step, and has all databases compared with the mate's whatever it
// says: that finds what a mate has lost, and who became primary meanwhile.
func (r *replicator) load() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.loaded {
		return nil
	}
	c, err := r.feed.LoadCursor(cursorName(r.mate, r.worker, r.workers))
	if err != nil {
		return err
	}
	if c.Seq == 0 { // never saved: the mate is new
		c = r.feed.Now()
	}
	r.read, r.loaded = c, true
	r.compareAll()
	return nil
}

// restart has every database compared with the mate's: the mate came back, or the feed does not reach back to
// the cursor.
func (r *replicator) restart() {
	r.mu.Lock()
	r.compareAll()
	r.mu.Unlock()
	r.wake.fire()
}

func (s *sweep) compareAll() {
	s.sweeping, s.next = true, 0
	s.sweeps++
}

// touch queues a database though it has not changed.
func (r *replicator) touch(db note.DatabaseID, queue bool) {
	r.mu.Lock()
	t := r.add(db, queue, r.clock.Now())
	t.touched, t.again, t.retry = true, true, time.Time{}
	r.mu.Unlock()
	r.wake.fire()
}

// drop forgets what waits: the server is no mate any more.
func (r *replicator) drop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget()
}

// passed reports whether every change of a database up to a sequence has reached the mate.
func (r *replicator) passed(db note.DatabaseID, seq uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.loaded || r.read.Seq < seq || r.sweeping && db >= r.next {
		return false
	}
	t := r.waiting[db]
	return t == nil || !t.touched && t.first > seq
}

// cleared reports whether the changes up to a sequence of all databases but queues have reached the mate.
// Databases for which except holds count as if they had; except may be nil.
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

// depth returns the number of databases that wait.
func (r *replicator) depth() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.waiting)
}

// idle reports whether nothing is left to do.
func (r *replicator) idle() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.loaded && !r.sweeping && len(r.waiting) == 0 && r.read == r.feed.Now()
}

// step reads the feed and sends what waits, as many databases at a time as there are lanes. start runs a send,
// and returns before it has ended or after. step reports whether there was anything to do. An error of the mate
// ends it, or the next step if it came later; one database that fails does not stop the others.
func (r *replicator) step(ctx context.Context, start func(send func())) (progress bool, err error) {
	r.mu.Lock()
	if r.busy {
		r.mu.Unlock()
		return false, nil
	}
	r.busy = true
	err, r.down = r.down, nil
	r.mu.Unlock()
	if err == nil {
		err = r.load()
	}
	if err == nil {
		progress, err = r.work(ctx, start)
	}
	c, save := r.endStep()
	if save {
		err = errors.Join(err, r.feed.SaveCursor(cursorName(r.mate, r.worker, r.workers), c))
	}
	return progress, err
}

// endStep ends a step, and returns the cursor if it is to be saved now. A restart need not look again at what
// lies below it.
func (r *replicator) endStep() (c store.Cursor, save bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.busy = false
	now := r.clock.Now()
	if !r.loaded || r.saved != 0 && now.Sub(r.savedAt) < cursorEvery {
		return c, false
	}
	c = r.read
	if c.Seq = r.floor(c.Seq); c.Seq <= r.saved {
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

// take reads the feed as far as there is room for changed databases.
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
		r.compareAll()
		return true, nil
	}
	if err != nil {
		return false, err
	}
	for _, s := range list {
		t := r.add(s.Database, s.queue, r.clock.Now())
		if t.first == 0 {
			t.first = s.Seq
		}
		t.last = s.Seq
	}
	r.read = c
	return n > 0, nil
}

// sweepOn compares some databases with the mate's, if a sweep was requested.
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
	if r.sweeps == sweeps { // else one was requested again meanwhile
		r.next, r.sweeping = next, next != 0
	}
	return true, nil
}

// swept reports whether all databases were compared with the mate's since the last request.
func (r *replicator) swept() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.loaded && !r.sweeping
}

// reached reports whether everything up to a sequence has been sent to the mate.
func (r *replicator) reached(seq uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.loaded || r.sweeping || r.read.Seq < seq {
		return false
	}
	return r.has(seq)
}

// known reports whether the feed is read for the mate, so that the waiting databases are all that it lacks.
func (r *replicator) known() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.loaded
}

// state returns how many databases wait, since when the oldest does, and the last error.
func (r *replicator) state() (waiting int, oldest time.Time, trouble string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.waiting), r.oldest(), r.trouble
}
