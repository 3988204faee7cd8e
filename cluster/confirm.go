package cluster

import (
	"context"
	"sync"
	"time"

	"doublet/env"
	"doublet/note"
	"doublet/store/layout"
)

// Confirm waits until, of each of the databases, a mate has what was changed up to a sequence: what
// store.Options.Confirm asks. Where no mate has within the limit, an acknowledgement of mode cluster goes
// out all the same, and is counted; one of mode cluster-strict is an error: the change is here, and
// whether it lasts is not known.
func (n *Node) Confirm(ctx context.Context, ids []note.DatabaseID, seq uint64) error {
	began := n.now()
	done := func() bool { return n.confirmed(ids, seq) }
	ok := done()
	if !ok && n.anybody(ids) {
		reached, stop := n.confirmations.wait(ids)
		ok = n.opt.Await(ctx, n.opt.AckLimit, reached.next, done)
		stop()
	}
	if ok {
		n.stat.acknowledged.Inc()
		n.stat.ackTime.Observe(int64(n.now().Sub(began)))
		return nil
	}
	if n.strict(ids) {
		n.stat.ackRefused.Inc()
		return ErrUnready
	}
	n.stat.ackDegraded.Inc()
	return nil
}

// Admit refuses a write to databases of mode cluster-strict while no mate can confirm it: what
// store.Options.Admit asks. Nothing was changed then.
func (n *Node) Admit(ctx context.Context, ids []note.DatabaseID) error {
	done := func() bool { return n.ready(ids) }
	if done() || n.opt.Await(ctx, n.opt.AckLimit, n.heard.next, done) {
		return nil
	}
	n.stat.ackRefused.Inc()
	return ErrUnready
}

// targets are the mates that changes of a database go to from here. Under mu.
func (n *Node) targets(db note.DatabaseID) []*peer {
	h, e := n.held[db], n.catalog.entries[db]
	if h == nil || e == nil {
		return nil
	}
	var out []*peer
	for _, r := range e.Replicas {
		if p := n.peers[r.Server]; p != nil && (h.leads || h.route.IsZero() || h.route == r.Server) {
			out = append(out, p)
		}
	}
	return out
}

// confirmed says whether of each database a mate has everything up to a sequence.
func (n *Node) confirmed(ids []note.DatabaseID, seq uint64) bool {
	for _, db := range ids {
		n.mu.Lock()
		list := n.targets(db)
		n.mu.Unlock()
		ok := false
		for _, p := range list {
			ok = ok || p.reps[share(db, len(p.reps))].passed(db, seq)
		}
		if !ok {
			return false
		}
	}
	return true
}

// anybody says whether each database has a mate that lives to confirm it.
func (n *Node) anybody(ids []note.DatabaseID) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, db := range ids {
		lives := false
		for _, p := range n.targets(db) {
			lives = lives || p.alive
		}
		if !lives {
			return false
		}
	}
	return true
}

// ready is anybody for a mate that has answered lately.
func (n *Node) ready(ids []note.DatabaseID) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := n.now()
	for _, db := range ids {
		lives := false
		for _, p := range n.targets(db) {
			lives = lives || p.alive && now.Sub(p.heard) <= n.opt.AckLimit
		}
		if !lives {
			return false
		}
	}
	return true
}

// strict says whether the strictest mode of the databases is cluster-strict.
func (n *Node) strict(ids []note.DatabaseID) bool {
	for _, db := range ids {
		if i, err := n.store.Info(db); err == nil && i.Ack == layout.AckStrict {
			return true
		}
	}
	return false
}

// confirmations wakes who waits for a mate's word about databases, and nobody else: many wait, each for one of many.
type confirmations struct {
	mu sync.Mutex
	by map[note.DatabaseID]map[*signal]struct{}
}

// wait gives the signal that fires when one of the databases has reached a mate, until stop is called.
func (c *confirmations) wait(ids []note.DatabaseID) (s *signal, stop func()) {
	s = &signal{}
	s.init()
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

// awaiter waits on a clock.
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
