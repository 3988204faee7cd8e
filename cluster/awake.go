package cluster

import (
	"context"
	"sync"
	"time"

	"doublet/note"
)

// awake notices that the process was frozen (SIGSTOP, a suspended virtual machine): its mates, which heard nothing of
// it for so long, may have made another member home of its databases. Until they could tell so, it is in doubt.
type awake struct {
	mu     sync.Mutex
	beaten time.Time // of the last beat; zero before Run
	doubt  time.Time // until when leading is in doubt
}

const (
	beatEvery = 250 * time.Millisecond
	// doubtFor is the time in which a member that wakes hears of its mates: four probes, and what follows from them.
	doubtFor = 2 * time.Second
	// askAgain is how often is looked, meanwhile, whether a database is led here.
	askAgain = 20 * time.Millisecond
)

// beat notes that the process runs.
func (a *awake) beat(now time.Time, limit time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.look(now, limit)
	a.beaten = now
}

// look begins a doubt where more time than the limit has passed since the last beat. Under mu.
func (a *awake) look(now time.Time, limit time.Duration) {
	if !a.beaten.IsZero() && now.Sub(a.beaten) > limit && !now.Before(a.doubt) {
		a.doubt, a.beaten = now.Add(doubtFor), now
	}
}

// doubts reports whether leading is in doubt.
func (a *awake) doubts(now time.Time, limit time.Duration) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.look(now, limit)
	return now.Before(a.doubt)
}

// frozenAfter lies below the silence after which mates believe that a member is dead.
func (b *base) frozenAfter() time.Duration { return b.opt.DeadAfter * 3 / 4 }

// beats notes that the process runs until ctx ends.
func (b *base) beats(ctx context.Context) {
	for ctx.Err() == nil {
		b.awake.beat(b.now(), b.frozenAfter())
		select {
		case <-b.env.Clock.After(beatEvery):
		case <-ctx.Done():
		}
	}
}

// Stays reports whether this server is the home of a database that was opened here. After the process was frozen it
// waits until the mates have had time to tell that another server is.
func (o *Opens) Stays(ctx context.Context, db note.DatabaseID) bool {
	for o.store.Leads(db) {
		if !o.awake.doubts(o.now(), o.frozenAfter()) {
			return true
		}
		select {
		case <-o.env.Clock.After(askAgain):
		case <-ctx.Done():
			return true
		}
	}
	return false
}
