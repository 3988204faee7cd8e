package cluster

import (
	"context"
	"testing"
	"time"

	"doublet/bus"
	"doublet/bus/memory"
	"doublet/env"
	"doublet/mailbox"
	"doublet/note"
	"doublet/replica"
	"doublet/stat"
	"doublet/store"
)

// keepDeleted is the time for which a pair keeps deleted messages.
const keepDeleted = 14 * 24 * time.Hour

// pair is a cluster of two members in one process, with real stores and a mail file that the first leads. Its clock and
// its background work advance only when a test calls run. It has no directories, so its members never change.
type pair struct {
	t     *testing.T
	ctx   context.Context
	clock *env.Manual
	net   *memory.Network
	nodes [2]*paired
	db    note.DatabaseID
}

// paired is one member.
type paired struct {
	*Node
	store *store.Store
	mail  *mailbox.Service
	// wrap, if set, runs before each request of a mate, and returns its context.
	wrap func(ctx context.Context, verb string) context.Context
}

// wrapped is a bus whose handlers get the context that wrap returns.
type wrapped struct {
	*memory.Bus
	of *paired
}

func (w *wrapped) Handle(verb string, fn bus.Handler) {
	w.Bus.Handle(verb, func(ctx context.Context, from bus.ServerID, body []byte) ([]byte, error) {
		if w.of.wrap != nil {
			ctx = w.of.wrap(ctx, verb)
		}
		return fn(ctx, from, body)
	})
}

// newPair makes a pair. first is the number of the member that is the first in the order of the mail file.
func newPair(t *testing.T, first int) *pair {
	t.Helper()
	return newPairWith(t, first, func(*pair, int, *env.Env, *store.Options) {})
}

// newPairWith is newPair with stores of which with changes the environment and the options.
func newPairWith(t *testing.T, first int, with func(p *pair, i int, e *env.Env, o *store.Options)) *pair {
	t.Helper()
	p := &pair{t: t, ctx: context.Background(), clock: env.NewManual(time.Unix(1_700_000_000, 0))}
	var seeds []Member
	for i := range p.nodes {
		seeds = append(seeds, Member{Member: bus.Member{ID: note.UNID{byte(i + 1)}, Name: string(rune('a' + i))},
			State: Active})
	}
	p.net = memory.New(&env.Env{Clock: p.clock}, nil)
	for i := range p.nodes {
		e := *env.TestRealTime(t).Env
		e.Clock, e.Rand = p.clock, env.Seeded(uint64(i+1))
		o := store.Options{FloorBytes: -1, Ballast: -1, MemTableSize: 1 << 20, LogSyncInterval: time.Nanosecond}
		with(p, i, &e, &o)
		st, err := store.Open(&e, "data", o)
		p.must(err)
		t.Cleanup(func() { p.must(st.Close()) })
		n := &paired{store: st, mail: mailbox.New(st, &e, mailbox.Options{KeepDeleted: keepDeleted})}
		tree := stat.New(p.clock)
		n.Node = New(&e, st, &wrapped{p.net.Open(seeds[i].ID, bus.Grant{}), n},
			replica.New(st, n.mail, &e, replica.Options{Stats: tree}), Options{
				Seeds: seeds, Timeout: time.Hour, Stats: tree,
				Await: func(_ context.Context, _ time.Duration, _ func() <-chan struct{}, done func() bool) bool {
					return done()
				},
			})
		p.nodes[i] = n
	}
	p.share(first)
	p.run()
	for _, n := range p.nodes {
		if !n.core.members.serving.Load() {
			t.Fatal("the members do not accept users")
		}
	}
	if !p.nodes[0].store.Leads(p.db) || p.lag() != 0 {
		t.Fatal("the first member does not lead, or the second lacks changes")
	}
	return p
}

func (p *pair) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// share creates the mail file and its replica, and enters both.
func (p *pair) share(first int) {
	p.t.Helper()
	home, mate := p.nodes[0], p.nodes[1]
	var err error
	p.db, err = home.mail.Make(p.ctx, note.UNID{9}, "anna", 0, 0)
	p.must(err)
	p.must(home.store.Share(p.ctx, p.db, 0))
	info, err := home.store.Info(p.db)
	p.must(err)
	p.must(mate.store.CreateReplica(note.System, info, 1))
	for _, n := range p.nodes {
		e := entryOf(&info, home.Self(), home.store.Incarnation())
		_, err := e.add(mate.Self())
		p.must(err)
		e.first(p.nodes[first].Self())
		n.core.catalogue.put(e.ID, e)
		p.must(n.core.holdings.hold(p.ctx, e))
	}
}

// run does the background work of four seconds.
func (p *pair) run() {
	for range 8 {
		p.clock.Advance(500 * time.Millisecond)
		for _, n := range p.nodes {
			n.Probe(p.ctx)
			n.core.members.judge()
			_ = n.election.settle(p.ctx) // a mate may not answer
			n.election.reroute()
			for _, mate := range n.Mates() {
				for more := true; more; {
					var err error
					if more, err = n.Replicate(p.ctx, mate, 0); err != nil {
						more = false
					}
				}
			}
			n.replication.catchUp()
		}
	}
}

// deliver appends a message at a member.
func (p *pair) deliver(n *paired) {
	p.t.Helper()
	_, _, err := n.mail.File(note.Who{Person: note.UNID{9}}, p.db).Append(p.ctx, "INBOX",
		[]byte("Subject: x\r\n\r\nx\r\n"), mailbox.Flags{}, p.clock.Now())
	p.must(err)
}

// position returns a member's position of the mail file.
func (p *pair) position(n *paired) store.Position {
	p.t.Helper()
	pos, err := n.core.holdings.position(p.ctx, p.db)
	p.must(err)
	return pos
}

// lag returns the difference between the positions of the members.
func (p *pair) lag() int64 {
	p.t.Helper()
	return int64(p.position(p.nodes[0]).Last) - int64(p.position(p.nodes[1]).Last)
}

// leaders returns the numbers of the members that lead the mail file.
func (p *pair) leaders() (out []int) {
	for i, n := range p.nodes {
		if n.store.Leads(p.db) {
			out = append(out, i)
		}
	}
	return out
}
