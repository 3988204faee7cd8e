package cluster

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"doublet/note"
)

// Run lets the steps of the Node run until ctx ends: probes of each mate, Decide, and the Cluster Replicators.
// It is the one place with goroutines.
func (n *Node) Run(ctx context.Context) {
	n.running.Store(true)
	var wg sync.WaitGroup
	spawn := func(name string, fn func()) {
		wg.Add(1)
		n.env.Go(name, func() {
			defer wg.Done()
			fn()
		})
	}
	spawn("cluster queues", func() { n.homewards(ctx) })
	running := map[note.UNID]context.CancelFunc{}
	for ctx.Err() == nil {
		woken := n.wake.next()
		if err := n.Decide(ctx); err != nil && ctx.Err() == nil {
			n.log(slog.LevelWarn, "decide", "err", err)
		}
		here := map[note.UNID]bool{}
		for _, mate := range n.Mates() {
			if here[mate] = true; running[mate] != nil {
				continue
			}
			own, cancel := context.WithCancel(ctx)
			running[mate] = cancel
			spawn("cluster probe "+mate.String(), func() { n.probing(own, mate) })
			for w := range n.opt.Workers {
				spawn("cluster replicator "+mate.String(), func() { n.replicating(own, mate, w) })
			}
		}
		for mate, cancel := range running {
			if !here[mate] {
				cancel()
				delete(running, mate)
			}
		}
		n.stat.sample()
		n.pause(ctx, n.opt.ProbeEvery, woken)
	}
	for _, cancel := range running {
		cancel()
	}
	wg.Wait()
}

// settleAtOnce is how many databases find their homes at a time: they share the flushes of the store's log. A server that dies
// leaves thousands.
const settleAtOnce = 32

// each does fn for databases: several at a time where Run drives the Node, else, where a simulation does, in their order.
func (n *Node) each(dbs []note.DatabaseID, fn func(note.DatabaseID)) {
	if !n.running.Load() || len(dbs) == 1 {
		for _, db := range dbs {
			fn(db)
		}
		return
	}
	var all sync.WaitGroup
	places := make(chan struct{}, settleAtOnce)
	for _, db := range dbs {
		places <- struct{}{}
		all.Add(1)
		n.env.Go("cluster home", func() {
			defer all.Done()
			defer func() { <-places }()
			fn(db)
		})
	}
	all.Wait()
}

// pause waits until a time is over, or something wakes it; not for less than a moment, so that what goes on all
// the time does not keep it busy.
func (n *Node) pause(ctx context.Context, d time.Duration, woken <-chan struct{}) {
	over := n.env.Clock.After(d)
	select {
	case <-woken:
		select {
		case <-n.env.Clock.After(breath):
		case <-ctx.Done():
		}
	case <-over:
	case <-ctx.Done():
	}
}

// breath is the least time between two runs of Decide.
const breath = 20 * time.Millisecond

func (n *Node) probing(ctx context.Context, mate note.UNID) {
	for ctx.Err() == nil {
		n.ProbeMate(ctx, mate)
		select {
		case <-n.env.Clock.After(n.opt.ProbeEvery):
		case <-ctx.Done():
		}
	}
}

// replicating runs one Cluster Replicator, and another in its place where the mate was none for a while.
func (n *Node) replicating(ctx context.Context, mate note.UNID, worker int) {
	for ctx.Err() == nil {
		r, _ := n.replicator(mate, worker)
		if r == nil {
			return
		}
		r.run(ctx, &running{
			spawn: func(f func()) { n.env.Go("cluster send", f) },
			every: n.opt.ProbeEvery,
			mate: func() (still, alive bool) {
				now, alive := n.replicator(mate, worker)
				return now == r, alive
			},
			failed: func(err error) {
				if !errors.Is(err, errMate) && ctx.Err() == nil {
					n.log(slog.LevelWarn, "replicate", "mate", n.name(mate), "err", err)
				}
			},
		})
	}
}
