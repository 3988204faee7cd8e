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

// Limits of a Cluster Replicator.
const (
	// maxTake is the maximum number of feed entries that one step reads, and maxSend that of databases that it starts
	// to send.
	maxTake = 1000
	maxSend = 64
	// maxLanes is the maximum number of concurrent transfers of one Cluster Replicator. Concurrent changes share the
	// flushes of the mate's disk.
	maxLanes = 32
	// cursorEvery is the time between two saves of the cursor. After a restart all databases are compared anyway.
	cursorEvery = time.Second
	// maxWaiting is the maximum number of databases in memory; the feed keeps the others.
	maxWaiting = 20_000
	// Pause before a database that failed is sent again. It doubles each time.
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

// job is the work of a replicator on a database (see replication). The replicator holds no lock while it calls it.
type job interface {
	// wants reports whether the mate gets the changes of a database from here, and whether the database is a queue.
	wants(mate note.UNID, db note.DatabaseID) (yes, queue bool)
	// due reports whether there may be something of a database to send to the mate now.
	due(ctx context.Context, mate note.UNID, db note.DatabaseID) (bool, error)
	// send sends the mate what its replica lacks, up to the MODSEQ until if that is not 0. afresh means that the cached
	// state of the mate's replica may be wrong. It is called concurrently for different databases, but not for the same
	// one.
	send(ctx context.Context, mate note.UNID, db note.DatabaseID, until note.ModSeq, afresh bool) error
	// reached is called after a database was sent, or a change of it needed no sending.
	reached(mate note.UNID, db note.DatabaseID)
	// awaited reports whether anybody waits until a mate has a change.
	awaited() bool
	// stands returns the last MODSEQ of the ledger of a database.
	stands(db note.DatabaseID) note.ModSeq
	// cleared reports whether the deliveries that belong to removals from queues up to seq are safe on mates.
	cleared(seq uint64) bool
	// compare exchanges the positions of databases of the worker's share, starting at from. It returns the database to
	// continue at; 0: done.
	compare(ctx context.Context, r *replicator, from note.DatabaseID) (next note.DatabaseID, err error)
}

// errMate marks an error of the mate rather than of a database: nothing else can be sent to it either.
var errMate = errors.New("mate does not answer")

// replicator is one Cluster Replicator: it sends the changes of its share of the databases to one mate. It reads the
// store's feed at its own cursor; in memory it holds the set of databases to send. Several databases are in transfer at
// a time, but each only once, so that the order of changes within a database is kept.
//
// Invariant: for each change up to read of a database that the mate has, either the change has reached the mate, or the
// database is in the backlog, or a sweep has not reached it yet. The saved cursor is below every change that waits, so
// a restart loses nothing.
type replicator struct {
	mate            note.UNID
	worker, workers int
	lanes           int
	feed            feed
	clock           env.Clock
	job             job
	// wake fires when a transfer ends while databases wait, when a database is touched, and when a comparison of all is
	// requested.
	wake signal
	// hurry fires when somebody begins to wait until the mate has a change.
	hurry signal

	mu     sync.Mutex
	busy   bool // a step is running
	under  int  // the number of databases in transfer
	down   error
	loaded bool
	read   store.Cursor
	// saved is the sequence number of the cursor saved last, at the time savedAt.
	saved   uint64
	savedAt time.Time
	backlog
	sweep
	trouble string // the last error of a database; empty after a success
}

// sweep is the state of a comparison of all databases with the mate's. It continues at next. sweeps counts the
// requests.
type sweep struct {
	sweeping bool
	next     note.DatabaseID
	sweeps   int
}

// lanes returns the number of concurrent transfers of each worker for a mate. It is a part of the permitted number of
// concurrent requests, so that other requests still get a credit.
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

// share returns the index of the worker, of n, that is responsible for a database.
func share(db note.DatabaseID, n int) int {
	x := uint64(db) * 0x9E3779B97F4A7C15
	return int(x >> 33 % uint64(n))
}

func (r *replicator) mine(db note.DatabaseID) bool { return share(db, r.workers) == r.worker }

func cursorName(mate note.UNID, worker, workers int) string {
	return fmt.Sprintf("cluster/%s/%d.%d", mate, worker, workers)
}

// load reads the saved cursor in the first step. In any case it requests a comparison of all databases with the mate's,
// which detects data lost at the mate and changes of primaries.
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

// restart requests a comparison of all databases, because the mate came back or the feed no longer reaches back to the
// cursor.
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

// touch queues a database even if it has not changed.
func (r *replicator) touch(db note.DatabaseID, queue bool) {
	r.mu.Lock()
	t := r.add(db, queue, r.clock.Now())
	t.touched, t.again, t.retry = true, true, time.Time{}
	r.mu.Unlock()
	r.wake.fire()
}

// drop empties the backlog, because the server is no longer a mate.
func (r *replicator) drop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget()
}

// passed reports whether every change of a database up to seq has reached the mate.
func (r *replicator) passed(db note.DatabaseID, seq uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.loaded || r.read.Seq < seq || r.sweeping && db >= r.next {
		return false
	}
	t := r.waiting[db]
	return t == nil || !t.touched && t.first > seq
}

// cleared reports whether the changes up to seq of all databases except queues have reached the mate. It ignores
// databases for which except returns true; except may be nil.
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

// idle reports whether nothing is left to do.
func (r *replicator) idle() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.loaded && !r.sweeping && len(r.waiting) == 0 && r.read == r.feed.Now()
}

// step reads the feed and sends waiting databases, as many at a time as there are lanes. start runs a send,
// synchronously or not. step reports whether there was anything to do. An error of the mate ends this step, or the next
// one if it occurs later. An error of one database does not stop the others.
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

// endStep ends a step. It returns the cursor if it must be saved now. A restart reads the feed only from there.
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
	took, err := r.take(ctx)
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

// seen is a change that a replicator has read from the feed.
type seen struct {
	store.Change
	queue bool
}

// take reads the feed while there is room in the backlog.
func (r *replicator) take(ctx context.Context) (progress bool, err error) {
	r.mu.Lock()
	from, room := r.read, len(r.waiting) < maxWaiting
	r.mu.Unlock()
	if !room || from == r.feed.Now() {
		return false, nil
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
	if errors.Is(err, store.ErrFeedCut) {
		now := r.feed.Now()
		r.mu.Lock()
		defer r.mu.Unlock()
		r.read = now
		r.compareAll()
		return true, nil
	}
	if err != nil {
		return false, err
	}
	r.record(c, list, r.due(ctx, list))
	return n > 0, nil
}

// due reports for each database in a list of changes if it must be sent. At a follower most changes came from the mate:
// there is nothing to send, unless the database waits already or is in transfer.
func (r *replicator) due(ctx context.Context, list []seen) map[note.DatabaseID]bool {
	out := make(map[note.DatabaseID]bool)
	for _, s := range list {
		if _, known := out[s.Database]; known {
			continue
		}
		r.mu.Lock()
		waits := s.queue || r.waiting[s.Database] != nil
		r.mu.Unlock()
		due, err := true, error(nil)
		if !waits {
			due, err = r.job.due(ctx, r.mate, s.Database)
		}
		out[s.Database] = due || err != nil
	}
	return out
}

// record adds the databases that are due to the backlog and sets the position in the feed. For the others it does what
// follows a transfer.
func (r *replicator) record(c store.Cursor, list []seen, due map[note.DatabaseID]bool) {
	r.mu.Lock()
	for _, s := range list {
		if !due[s.Database] {
			continue
		}
		t := r.add(s.Database, s.queue, r.clock.Now())
		if t.first == 0 {
			t.first = s.Seq
		}
		t.last = s.Seq
	}
	r.read = c
	r.mu.Unlock()
	for _, s := range list {
		if !due[s.Database] {
			r.job.reached(r.mate, s.Database)
		}
	}
}

// sweepOn compares some databases with the mate's, if a sweep is in progress.
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
	if r.sweeps == sweeps { // else a new sweep was requested meanwhile
		r.next, r.sweeping = next, next != 0
	}
	return true, nil
}

// swept reports whether all databases have been compared with the mate's since the last request.
func (r *replicator) swept() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.loaded && !r.sweeping
}

// reached reports whether all changes up to seq have been sent to the mate.
func (r *replicator) reached(seq uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.loaded || r.sweeping || r.read.Seq < seq {
		return false
	}
	return r.has(seq)
}

// known reports whether the feed is read for the mate, so that the backlog is complete.
func (r *replicator) known() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.loaded
}

// state returns the number of waiting databases, the time since which the oldest has waited, and the last error.
func (r *replicator) state() (waiting int, oldest time.Time, trouble string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.waiting), r.oldest(), r.trouble
}
