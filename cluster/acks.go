package cluster

import (
	"context"
	"sync"
	"time"

	"doublet/env"
	"doublet/note"
	"doublet/store/layout"
)

// Acks delays acknowledgements until a mate has the changes (acknowledge = cluster or cluster-strict).
type Acks struct {
	*core
	confirmations *confirmations
}

// Confirm waits until a mate has the changes of each database up to sequence number seq. It implements
// store.Options.Confirm. If no mate has them within the limit, the change is acknowledged anyway in mode cluster, and
// counted. In mode cluster-strict Confirm returns ErrUnready: the change is stored here, but it may be lost with this
// server.
func (a *Acks) Confirm(ctx context.Context, ids []note.DatabaseID, seq uint64) error {
	began := a.now()
	done := func() bool { return a.confirmed(ids, seq) }
	ok := done()
	if !ok && a.anyLive(ids, func(*peer) bool { return true }) {
		reached, stop := a.confirmations.wait(ids)
		a.hurry(ids)
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

// Admit rejects a write to a database of mode cluster-strict while no mate can confirm it. Nothing has been changed at
// that point. It implements store.Options.Admit.
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

// targets returns the mates to which this server sends changes of a database.
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

// hurry has the replicators of some databases send now what they gather.
func (a *Acks) hurry(ids []note.DatabaseID) {
	for _, db := range ids {
		for _, p := range a.targets(db) {
			if l := a.links.get(p.id); l != nil {
				l.replicator(db).hurry.fire()
			}
		}
	}
}

// confirmed reports whether, for each database, a mate has everything up to sequence number seq.
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

// anyLive reports whether each database has a live mate that fulfills may and can confirm a change.
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

// strict reports whether any of the databases has mode cluster-strict.
func (a *Acks) strict(ids []note.DatabaseID) bool {
	for _, db := range ids {
		if i, err := a.store.Info(db); err == nil && i.Ack == layout.AckStrict {
			return true
		}
	}
	return false
}

// confirmations wakes the goroutines that wait for a mate to receive a certain database. It keeps a set of waiters per
// database, so that an update of one database does not wake the waiters of all others.
type confirmations struct {
	mu sync.Mutex
	by map[note.DatabaseID]map[*signal]struct{}
}

// wait returns a signal that fires each time a mate receives one of the databases, until stop is called.
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

// awaited reports whether there is a waiter.
func (c *confirmations) awaited() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.by) > 0
}

func (c *confirmations) fire(db note.DatabaseID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for s := range c.by[db] {
		s.fire()
	}
}

// awaiter returns an Options.Await that uses a clock.
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
