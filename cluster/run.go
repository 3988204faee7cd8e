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
	var wg sync.WaitGroup
	spawn := func(name string, fn func()) {
		wg.Add(1)
		n.env.Go(name, func() {
			defer wg.Done()
			fn()
		})
	}
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

// replicating runs one Cluster Replicator: as long as there is something, then when the feed moves or something
// else was put in line.
func (n *Node) replicating(ctx context.Context, mate note.UNID, worker int) {
	pause := firstPause
	for ctx.Err() == nil {
		// Whatever comes from here on wakes it, and nothing that was there before: of a mate that is silent, or has enough in
		// line, more waits than it reads.
		touched, moved := n.touched.next(), n.store.FeedMoved(n.store.Now())
		progress, err := n.Replicate(ctx, mate, worker)
		switch {
		case err != nil && ctx.Err() == nil:
			if !errors.Is(err, errMate) {
				n.log(slog.LevelWarn, "replicate", "mate", n.name(mate), "err", err)
			}
			n.pause(ctx, pause, nil)
			pause = min(2*pause, maxPause)
			continue
		case progress:
			pause = firstPause
			continue
		}
		n.mu.Lock()
		_, known := n.peers[mate]
		n.mu.Unlock()
		if !known {
			return
		}
		select {
		case <-moved:
		case <-touched:
		case <-n.env.Clock.After(n.opt.ProbeEvery):
		case <-ctx.Done():
		}
	}
}

// The pause of a Cluster Replicator whose mate does not answer, doubled each time.
const (
	firstPause = 50 * time.Millisecond
	maxPause   = 2 * time.Second
)
