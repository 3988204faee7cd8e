package cluster

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"doublet/note"
)

// running is what a replicator needs to know of the world while it runs.
type running struct {
	// spawn starts a goroutine.
	spawn func(f func())
	// every is after what time a replicator that waits looks again.
	every time.Duration
	// mate says whether the mate is one still, and whether it lives.
	mate func() (still, alive bool)
	// failed is told what ended a step.
	failed func(err error)
}

// The pause of a Cluster Replicator whose mate does not answer, doubled each time.
const (
	firstPause = 50 * time.Millisecond
	maxPause   = 2 * time.Second
)

// run takes steps until ctx ends or the mate is one no more: as long as there is something to do, then when the feed moves,
// something else was put in line, or a lane is free. It returns when nothing is under way any more.
//
// Invariant: of one turn without progress and the next, something has happened in between or the time is over: a replicator that
// waits takes no processor.
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
		// Whatever comes from here on wakes it, and nothing that was there before: of a mate that is silent, or has enough in
		// line, more waits than it reads.
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
		case <-woken:
		case <-r.clock.After(o.every):
		case <-ctx.Done():
		}
	}
}

// inline is how a step sends where nothing runs beside it: one database after the other.
func inline(send func()) { send() }

// sendSome begins to send databases, those that wait longest first, as long as a lane is free. It says whether it began with any
// that did not fail at once.
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

// going is a database on its way: up to last of its changes, and until a MODSEQ.
type going struct {
	*task
	last   uint64
	until  note.ModSeq
	afresh bool
	failed bool
}

// send sends a database, and takes up what became of that.
func (r *replicator) send(ctx context.Context, g *going) {
	err := r.job.send(ctx, r.mate, g.db, g.until, g.afresh)
	r.mu.Lock()
	r.under--
	g.under, g.failed = time.Time{}, err != nil
	if err != nil && (ctx.Err() != nil || errors.Is(err, errMate)) {
		r.back(g.task)
		r.down = err
	} else {
		r.sent(g, err)
	}
	r.mu.Unlock()
	if err == nil {
		r.job.reached(r.mate, g.db)
	}
	r.wake.fire()
}

// pick takes the first database in line that may go, if a lane is free.
//
// Only the step that is under way picks; others append to the line, and take away from it what they have sent.
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
			// What was sent meanwhile is not in the line any more.
			if i = slices.Index(r.line, t); i < 0 || !may { // from -1 it begins anew
				continue
			}
		}
		r.line = append(slices.Delete(r.line, i, i+1), t) // one that fails goes behind the others
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

// back puts a database to the front again: it did not come to being sent. Under mu.
func (r *replicator) back(t *task) {
	if i := slices.Index(r.line, t); i > 0 {
		r.line = slices.Insert(slices.Delete(r.line, i, i+1), 0, t)
	}
}

// sent takes a database out of line, unless more of it waits than was sent. Under mu.
func (r *replicator) sent(g *going, err error) {
	t, now := g.task, r.clock.Now()
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
	if t.last > g.last {
		t.first = max(t.first, g.last+1)
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

// doing says which database has been under way longest, since when, and whether all are being compared.
func (r *replicator) doing() (db note.DatabaseID, since time.Time, compares bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range r.line {
		if !t.under.IsZero() && (since.IsZero() || t.under.Before(since)) {
			db, since = t.db, t.under
		}
	}
	return db, since, r.sweeping
}
