package cluster

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"doublet/note"
)

// running holds the environment of a replicator that runs.
type running struct {
	// spawn starts a goroutine.
	spawn func(f func())
	// every is the time after which an idle replicator checks again.
	every time.Duration
	// mate reports whether the server is still a mate, and whether it is alive.
	mate func() (still, alive bool)
	// failed is called with the error that ended a step.
	failed func(err error)
}

// Pause of a Cluster Replicator whose mate does not answer. It doubles each time.
const (
	firstPause = 50 * time.Millisecond
	maxPause   = 2 * time.Second
)

// gatherFor is the time for which a replicator waits after a change for more of them.
const gatherFor = 3 * time.Millisecond

// run performs steps until ctx ends or the server is no longer a mate. While there is work it steps at once, else soon
// after the feed advances, or when a database is touched or a lane becomes free. It returns when no transfer is in
// progress.
//
// Invariant: after a step without progress, run waits for an event or for the time every. So a waiting replicator takes
// no CPU time.
func (r *replicator) run(ctx context.Context, o *running) {
	var all sync.WaitGroup
	defer all.Wait()
	start := func(send func()) {
		all.Add(1)
		o.spawn(func() {
			defer all.Done()
			send()
		})
	}
	pause := firstPause
	for ctx.Err() == nil {
		still, alive := o.mate()
		if !still {
			return
		}
		// Only later changes wake it: if the mate is silent or its backlog is full, the feed has more than can be read
		// now.
		woken, moved := r.wake.next(), r.feed.FeedMoved(r.feed.Now())
		if alive {
			progress, err := r.step(ctx, start)
			switch {
			case err != nil:
				o.failed(err)
				select {
				case <-r.clock.After(pause):
				case <-ctx.Done():
				}
				pause = min(2*pause, maxPause)
				continue
			case progress:
				pause = firstPause
				continue
			}
		}
		select {
		case <-moved:
			if alive {
				r.gather(ctx)
			}
		case <-woken:
		case <-r.clock.After(o.every):
		case <-ctx.Done():
		}
	}
}

// gather waits for changes that follow the first one at once. Those of one database then share a message, and a commit
// at the mate; those of several share the mate's flush. It does not wait while anybody waits for the mate, or while all
// lanes are taken.
func (r *replicator) gather(ctx context.Context) {
	hurried := r.hurry.next()
	if r.job.awaited() || r.full() {
		return
	}
	select {
	case <-r.clock.After(gatherFor):
	case <-hurried:
	case <-ctx.Done():
	}
}

// full reports whether all lanes are taken.
func (r *replicator) full() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.under >= r.lanes
}

// inline runs a send at once, so a step sends one database after the other.
func inline(send func()) { send() }

// sendSome starts to send databases while a lane is free, in order of the backlog. It reports whether any of these did
// not fail at once.
func (r *replicator) sendSome(ctx context.Context, start func(send func())) (progress bool, err error) {
	for range maxSend {
		t := r.pick()
		if t == nil {
			return progress, nil
		}
		start(func() { r.send(ctx, t) })
		r.mu.Lock()
		err, r.down = r.down, nil
		progress = progress || !t.failed
		r.mu.Unlock()
		if err != nil {
			return progress, err
		}
	}
	return progress, nil
}

// going is a database in transfer: its changes up to the sequence number last, and up to the MODSEQ until.
type going struct {
	*task
	last   uint64
	until  note.ModSeq
	afresh bool
	failed bool
}

// send sends a database and records the result.
func (r *replicator) send(ctx context.Context, g *going) {
	err := r.job.send(ctx, r.mate, g.db, g.until, g.afresh)
	waits := r.end(g, err, err != nil && (ctx.Err() != nil || errors.Is(err, errMate)))
	if err == nil {
		r.job.reached(r.mate, g.db)
	}
	if waits {
		r.wake.fire()
	}
}

// end records the result of a send, and reports whether there is work for a step: an error of the mate, or a database
// that waits. down means that the mate caused the error, not the database.
func (r *replicator) end(g *going, err error, down bool) (waits bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.clock.Now()
	r.under--
	g.under, g.failed = time.Time{}, err != nil
	switch {
	case down:
		r.front(g.task)
		r.down = err
	case err != nil:
		r.trouble = err.Error()
		r.failed(g.task, now)
	default:
		r.trouble = ""
		r.sent(g.task, g.last, now)
	}
	return down || len(r.line) > r.under
}

// pick returns the first database of the backlog that may be sent, if a lane is free.
//
// Only the current step picks; other goroutines append databases and remove those that they have sent.
func (r *replicator) pick() *going {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.under >= r.lanes {
		return nil
	}
	now := r.clock.Now()
	for i := 0; i < len(r.line); i++ {
		t := r.line[i]
		if !t.under.IsZero() || t.retry.After(now) {
			continue
		}
		if t.queue {
			r.mu.Unlock()
			may := r.mayGo(t)
			r.mu.Lock()
			// It is no longer in the backlog if it was sent meanwhile.
			if i = slices.Index(r.line, t); i < 0 || !may { // after -1 the loop starts again
				continue
			}
		}
		r.line = append(slices.Delete(r.line, i, i+1), t) // if it fails, the others are first
		g := &going{task: t, last: t.last, until: t.until, afresh: t.touched}
		if t.again = false; t.queue {
			g.last = min(g.last, t.frozen)
		}
		t.under = now
		r.under++
		return g
	}
	return nil
}

// mayGo determines the part of a queue that is sent next, and reports whether it may be sent now.
func (r *replicator) mayGo(t *task) bool {
	r.mu.Lock()
	seq := t.frozen
	r.mu.Unlock()
	if seq == 0 {
		until := max(1, r.job.stands(t.db))
		seq = r.feed.Now().Seq // read after until, so that it covers all commits up to until
		r.mu.Lock()
		t.frozen, t.until = seq, until
		r.mu.Unlock()
	}
	return r.job.cleared(seq)
}

// doing returns the database that has been in transfer longest, its start time, and whether all are being compared.
func (r *replicator) doing() (db note.DatabaseID, since time.Time, compares bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	db, since = r.longest()
	return db, since, r.sweeping
}
