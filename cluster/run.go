package cluster

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"doublet/note"
)

// runner starts the goroutines of a Node.
type runner struct {
	*base
	// running means that Run drives the Node, so that work may run concurrently.
	running atomic.Bool
}

// Run runs the steps of the Node until ctx ends: probes of each mate, Decide, the Cluster Replicators, and Homeward.
func (n *Node) Run(ctx context.Context) {
	r := n.runner
	r.running.Store(true)
	var wg sync.WaitGroup
	spawn := func(name string, fn func()) {
		wg.Add(1)
		r.env.Go(name, func() {
			defer wg.Done()
			fn()
		})
	}
	spawn("cluster queues", func() { n.HandOvers.runHomeward(ctx) })
	spawn("cluster beats", func() { r.beats(ctx) })
	running := map[note.UNID]context.CancelFunc{}
	for ctx.Err() == nil {
		woken := r.wake.next()
		if err := n.Decide(ctx); err != nil && ctx.Err() == nil {
			r.log(slog.LevelWarn, "decide", "err", err)
		}
		mates := map[note.UNID]bool{}
		for _, mate := range n.Mates() {
			if mates[mate] = true; running[mate] != nil {
				continue
			}
			own, cancel := context.WithCancel(ctx)
			running[mate] = cancel
			spawn("cluster probe "+mate.String(), func() { n.core.members.probing(own, mate) })
			for w := range r.opt.Workers {
				spawn("cluster replicator "+mate.String(), func() { n.replication.run(own, mate, w) })
			}
		}
		for mate, cancel := range running {
			if !mates[mate] {
				cancel()
				delete(running, mate)
			}
		}
		r.stat.sample()
		r.pause(ctx, woken)
	}
	for _, cancel := range running {
		cancel()
	}
	wg.Wait()
}

// settleAtOnce is the number of concurrent elections. They share the flushes of the store's log. When a server dies,
// thousands of databases need an election.
const settleAtOnce = 32

// each calls fn for the databases: concurrently if Run drives the Node, one after the other in the simulation.
func (r *runner) each(dbs []note.DatabaseID, fn func(note.DatabaseID)) {
	if !r.running.Load() || len(dbs) == 1 {
		for _, db := range dbs {
			fn(db)
		}
		return
	}
	var all sync.WaitGroup
	slots := make(chan struct{}, settleAtOnce)
	for _, db := range dbs {
		slots <- struct{}{}
		all.Add(1)
		r.env.Go("cluster election", func() {
			defer all.Done()
			defer func() { <-slots }()
			fn(db)
		})
	}
	all.Wait()
}

// breath is the minimum pause between two runs of Decide, so that constant changes do not keep it busy.
const breath = 20 * time.Millisecond

// pause waits for the next Decide: for ProbeEvery, or until wake fires.
func (r *runner) pause(ctx context.Context, woken <-chan struct{}) {
	over := r.env.Clock.After(r.opt.ProbeEvery)
	select {
	case <-woken:
		select {
		case <-r.env.Clock.After(breath):
		case <-ctx.Done():
		}
	case <-over:
	case <-ctx.Done():
	}
}

// probing probes a mate until ctx ends.
func (m *membership) probing(ctx context.Context, mate note.UNID) {
	for ctx.Err() == nil {
		m.probe(ctx, mate)
		select {
		case <-m.env.Clock.After(m.opt.ProbeEvery):
		case <-ctx.Done():
		}
	}
}
