package cluster

import (
	"context"
	"slices"
	"testing"

	"doublet/bus/memory"
	"doublet/note"
	"doublet/store"
)

// until is a context that ends when a server leads a database.
type until struct {
	context.Context
	store *store.Store
	db    note.DatabaseID
}

func (u *until) Err() error {
	if u.store.Leads(u.db) {
		return context.Canceled
	}
	return u.Context.Err()
}

// TestHandOverFailsHalfway checks that two servers never lead after a hand-over that the new primary could not
// complete: it has begun its term, and fails while it numbers the rest.
func TestHandOverFailsHalfway(t *testing.T) {
	t.Parallel()
	p := newPair(t, 0)
	home, mate := p.nodes[0], p.nodes[1]
	failed := false
	mate.wrap = func(ctx context.Context, verb string) context.Context {
		if verb == verbLead && !failed {
			failed = true
			return &until{ctx, mate.store, p.db}
		}
		return ctx
	}
	if err := home.HandOvers.HandOver(p.ctx, p.db, mate.Self()); err == nil || !failed {
		t.Fatal("the hand-over did not fail", err)
	}
	if now := p.leaders(); len(now) != 0 {
		t.Errorf("members %d lead, of which the first must not compete and the second cannot number", now)
	}
	p.run()
	now := p.leaders()
	if len(now) != 1 {
		t.Fatalf("members %d lead", now)
	}
	p.deliver(p.nodes[now[0]])
	p.run()
	if again := p.leaders(); !slices.Equal(now, again) || p.lag() != 0 {
		t.Errorf("members %d lead, the lag is %d", again, p.lag())
	}
}

// TestHandOverRefused checks that the old primary continues at once if the new one cannot begin a term.
func TestHandOverRefused(t *testing.T) {
	t.Parallel()
	p := newPair(t, 0)
	home, mate := p.nodes[0], p.nodes[1]
	mate.wrap = func(ctx context.Context, verb string) context.Context {
		if verb == verbLead {
			ended, cancel := context.WithCancel(ctx)
			cancel()
			return ended
		}
		return ctx
	}
	if err := home.HandOvers.HandOver(p.ctx, p.db, mate.Self()); err == nil {
		t.Fatal("the hand-over did not fail")
	}
	if now := p.leaders(); !slices.Equal(now, []int{0}) {
		t.Errorf("members %d lead", now)
	}
}

// transfers counts the attempts of the first member to bring the second up to date in the foreground. If lost is set,
// they fail, and all other replication too.
func (p *pair) transfers(n *int, lost *bool) {
	p.net.SetPolicy(func(m memory.Message) memory.Fate {
		to := m.From == p.nodes[0].Self() && m.Kind == memory.StreamOpen || m.Verb == verbReplica
		if to && m.Kind != memory.Answer {
			*n++
			if *lost {
				return memory.Lose
			}
		}
		return memory.Deliver
	})
}

// TestOpenWithLaggingMate checks that an open does not wait for a mate that lacks changes: the database stays where it
// is until replication has brought the mate up to date.
func TestOpenWithLaggingMate(t *testing.T) {
	t.Parallel()
	p := newPair(t, 1) // the mate is the first in the order, and gets the database back
	n, lost := 0, true
	p.transfers(&n, &lost)
	p.deliver(p.nodes[0])
	n = 0
	for range 3 {
		at, err := p.nodes[0].Opens.Open(p.ctx, p.db)
		if err != nil || !at.Self {
			t.Fatalf("%s serves it: %v", at.Name, err)
		}
	}
	if n != 0 {
		t.Errorf("the opens waited for %d transfers", n)
	}
	lost = false
	p.run()
	if p.lag() != 0 {
		t.Fatalf("the mate lacks %d", p.lag())
	}
	if at, err := p.nodes[0].Opens.Open(p.ctx, p.db); err != nil || at.Server != p.nodes[1].Self() {
		t.Errorf("%s serves it: %v", at.Name, err)
	}
}

// TestOpenRemembersFailure checks that the opens after a hand-over that failed do not try it again, until a pause is
// over, even if this server must not serve the database.
func TestOpenRemembersFailure(t *testing.T) {
	t.Parallel()
	p := newPair(t, 0)
	home := p.nodes[0]
	for _, x := range p.nodes {
		x.core.catalogue.update(p.db, func(e *Entry) {
			e.Replicas = slices.Clone(e.Replicas)
			e.set(home.Self(), func(r *Replica) { r.State = Out })
		})
	}
	n, lost := 0, true
	p.transfers(&n, &lost)
	p.deliver(home)
	n = 0
	open := func() (Place, error) { return home.Opens.Open(p.ctx, p.db) }
	if at, err := open(); err == nil || n == 0 {
		t.Fatalf("%s serves it, after %d transfers", at.Name, n)
	}
	n = 0
	for range 3 {
		if at, err := open(); err == nil {
			t.Fatalf("%s serves it", at.Name)
		}
	}
	if n != 0 {
		t.Errorf("the opens after the failure waited for %d transfers", n)
	}
	lost = false
	p.clock.Advance(homewardPause)
	for _, x := range p.nodes {
		x.Probe(p.ctx)
	}
	if at, err := open(); err != nil || at.Server != p.nodes[1].Self() {
		t.Errorf("%s serves it: %v", at.Name, err)
	}
}
