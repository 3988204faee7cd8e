package cluster

import (
	"context"
	"sync"
	"time"

	"doublet/note"
)

// awake detects that the process was suspended (SIGSTOP, a suspended virtual machine). Meanwhile the mates, which heard
// nothing from it, may have elected other primaries for its databases. Until the mates have had time to report that,
// its role as primary is in doubt.
type awake struct {
	mu     sync.Mutex
	beaten time.Time // the time of the last beat; zero before Run
	doubt  time.Time // the time until which the role as primary is in doubt
}

const (
	beatEvery = 250 * time.Millisecond
	// doubtFor is the time that a member needs after a suspension to hear of new primaries: four probes and their
	// effects.
	doubtFor = 2 * time.Second
	// askAgain is the interval at which Stays rechecks the role while it is in doubt.
	askAgain = 20 * time.Millisecond
)

// beat records that the process is running.
func (a *awake) beat(now time.Time, limit time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.look(now, limit)
	a.beaten = now
}

// look starts a doubt if more than limit has passed since the last beat. The lock is held.
func (a *awake) look(now time.Time, limit time.Duration) {
	if !a.beaten.IsZero() && now.Sub(a.beaten) > limit && !now.Before(a.doubt) {
		a.doubt, a.beaten = now.Add(doubtFor), now
	}
}

// doubts reports whether the role as primary is in doubt.
func (a *awake) doubts(now time.Time, limit time.Duration) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.look(now, limit)
	return now.Before(a.doubt)
}

// frozenAfter returns the pause after which the process counts as suspended. It is shorter than DeadAfter, the silence
// after which mates believe that a member is dead.
func (b *base) frozenAfter() time.Duration { return b.opt.DeadAfter * 3 / 4 }

// beats calls beat at intervals until ctx ends.
func (b *base) beats(ctx context.Context) {
	for ctx.Err() == nil {
		b.awake.beat(b.now(), b.frozenAfter())
		select {
		case <-b.env.Clock.After(beatEvery):
		case <-ctx.Done():
		}
	}
}

// Stays reports whether this server is still the primary of a database that was opened here. After a suspension of the
// process it waits until the mates have had time to report a new primary.
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
