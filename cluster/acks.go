package cluster

import (
	"context"
	"sync"
	"time"

	"doublet/env"
	"doublet/note"
	"doublet/store/layout"
)

// Acks holds back acknowledgements until a mate has what was changed (acknowledge = cluster, cluster-strict).
type Acks struct {
	*core
	confirmations *confirmations
}

// Confirm waits until, for each of the databases, a mate has what was changed up to a sequence. It is what
// store.Options.Confirm calls. If no mate has it within the limit, an acknowledgement of mode cluster goes out
// all the same and is counted. One of mode cluster-strict is an error: the change is here, and it is not known
// whether it lasts.
func (a *Acks) Confirm(ctx context.Context, ids []note.DatabaseID, seq uint64) error {
	began := a.now()
	done := func() bool { return a.confirmed(ids, seq) }
	ok := done()
	if !ok && a.anyLive(ids, func(*peer) bool { return true }) {
		reached, stop := a.confirmations.wait(ids)
		ok = a.opt.Await(ctx, a.opt.AckLimit, reached.next, done)
		stop()
	}
	if ok {
		a.stat.acknowledged.Inc()
		a.stat.ackTime.Observe(int64(a.now().Sub(began)))
		return nil
	}
	if a.strict(ids) {
		a.stat.ackRefused.Inc()
		return ErrUnready
	}
	a.stat.ackDegraded.Inc()
	return nil
}

// Admit refuses a write to databases of mode cluster-strict while no mate can confirm it. It is what
// store.Options.Admit calls. Nothing was changed then.
func (a *Acks) Admit(ctx context.Context, ids []note.DatabaseID) error {
	done := func() bool {
		now := a.now()
		return a.anyLive(ids, func(p *peer) bool { return now.Sub(p.heard) <= a.opt.AckLimit })
	}
	if done() || a.opt.Await(ctx, a.opt.AckLimit, a.members.heard.next, done) {
		return nil
	}
	a.stat.ackRefused.Inc()
	return ErrUnready
}

// targets are the mates that changes of a database go to from here.
func (a *Acks) targets(db note.DatabaseID) (out []*peer) {
	h, e := a.holdings.get(db), a.catalogue.get(db)
	if h == nil || e == nil {
		return nil
	}
	v := a.members.view()
	for _, r := range e.Replicas {
		if p := v.peers[r.Server]; p != nil && (h.leads || h.route.IsZero() || h.route == r.Server) {
			out = append(out, p)
		}
	}
	return out
}

// confirmed reports whether, for each database, a mate has everything up to a sequence.
func (a *Acks) confirmed(ids []note.DatabaseID, seq uint64) bool {
	for _, db := range ids {
		ok := false
		for _, p := range a.targets(db) {
			l := a.links.get(p.id)
			ok = ok || l != nil && l.replicator(db).passed(db, seq)
		}
		if !ok {
			return false
		}
	}
	return true
}

// anyLive reports whether each database has a live mate, for which may holds, to confirm it.
func (a *Acks) anyLive(ids []note.DatabaseID, may func(*peer) bool) bool {
	for _, db := range ids {
		lives := false
		for _, p := range a.targets(db) {
			lives = lives || p.alive && may(p)
		}
		if !lives {
			return false
		}
	}
	return true
}

// strict reports whether the strictest mode of the databases is cluster-strict.
func (a *Acks) strict(ids []note.DatabaseID) bool {
	for _, db := range ids {
		if i, err := a.store.Info(db); err == nil && i.Ack == layout.AckStrict {
			return true
		}
	}
	return false
}

// confirmations wakes those who wait until a mate has a database, and nobody else: many wait, each for one of
// many databases.
type confirmations struct {
	mu sync.Mutex
	by map[note.DatabaseID]map[*signal]struct{}
}

// wait returns a signal that fires when one of the databases has reached a mate, until stop is called.
func (c *confirmations) wait(ids []note.DatabaseID) (s *signal, stop func()) {
	s = &signal{}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.by == nil {
		c.by = make(map[note.DatabaseID]map[*signal]struct{})
	}
	for _, db := range ids {
		if c.by[db] == nil {
			c.by[db] = make(map[*signal]struct{})
		}
		c.by[db][s] = struct{}{}
	}
	return s, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, db := range ids {
			if delete(c.by[db], s); len(c.by[db]) == 0 {
				delete(c.by, db)
			}
		}
	}
}

func (c *confirmations) fire(db note.DatabaseID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for s := range c.by[db] {
		s.fire()
	}
}

// awaiter returns an Options.Await that waits on a clock.
func awaiter(clock env.Clock) func(context.Context, time.Duration, func() <-chan struct{}, func() bool) bool {
	return func(ctx context.Context, limit time.Duration, moved func() <-chan struct{}, done func() bool) bool {
		over := clock.After(limit)
		for {
			next := moved()
			if done() {
				return true
			}
			select {
			case <-next:
			case <-over:
				return done()
			case <-ctx.Done():
				return false
			}
		}
	}
}
