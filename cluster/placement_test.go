package cluster

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"doublet/bus"
	"doublet/env"
	"doublet/note"
)

// testView returns the view of the server self with the given active members.
func testView(self note.UNID, members ...note.UNID) view {
	v := view{
		snapshot: &snapshot{members: map[note.UNID]Member{}, peers: map[note.UNID]*peer{}},
		self:     self, opt: &Options{Replicas: 2}, now: env.TestStart,
	}
	for _, id := range members {
		v.members[id] = Member{Member: bus.Member{ID: id}, State: Active}
	}
	return v
}

// addPeer adds a mate, whose id must be greater than those of the others.
func (v view) addPeer(p *peer) {
	v.peers[p.id] = p
	v.mates = append(v.mates, p.id)
}

func TestWantedOfQueues(t *testing.T) {
	t.Parallel()
	server, gate, third := note.UNID{1}, note.UNID{2}, note.UNID{3}
	v := testView(server, server, gate)
	v.members[gate] = Member{Member: bus.Member{ID: gate}, State: Active, Gateway: true}
	want := func(owner note.UNID, queue bool, number int) {
		t.Helper()
		if got := v.wanted(&Entry{ID: 77, Queue: queue, Owner: owner}); got != number {
			t.Errorf("%v, queue %v: %d replicas are wanted, not %d", owner, queue, got, number)
		}
	}
	want(server, true, 1) // a gateway does not count for the queues of others
	want(gate, true, 2)
	want(gate, false, 1)
	v.members[gate] = Member{Member: bus.Member{ID: gate}, State: Leaving, Gateway: true}
	want(gate, true, 1)
	v.members[third] = Member{Member: bus.Member{ID: third}, State: Active}
	want(server, true, 2)
	want(gate, true, 2)
}

// TestQueuesOfOlder checks a member with the previous version, which keeps its mail.box local: it gets no queue of
// another server and does not count for one. A member that has not sent a hello gets none either, but counts.
func TestQueuesOfOlder(t *testing.T) {
	t.Parallel()
	one, two, three := note.UNID{1}, note.UNID{2}, note.UNID{3}
	now := time.Unix(1_800_000_000, 0)
	v := testView(one, one, two)
	p := &peer{id: two, alive: true}
	v.addPeer(p)
	queue := &Entry{ID: 77, Queue: true, Owner: one, Replicas: []Replica{{Server: one, State: Serving}}}
	plain := &Entry{ID: 78, Replicas: queue.Replicas}
	want := func(what string, e *Entry, candidate note.UNID, number int) {
		t.Helper()
		if got := v.candidate(e, map[note.UNID]int{}); got != candidate {
			t.Errorf("%s: database %d goes to %v", what, e.ID, got)
		}
		if got := v.wanted(e); got != number {
			t.Errorf("%s: %d replicas of database %d are wanted, not %d", what, got, e.ID, number)
		}
	}
	want("it has said nothing", queue, note.UNID{}, 2)
	p.helloAt = now
	want("it is older", queue, note.UNID{}, 1)
	want("it is older", plain, two, 2)
	v.members[three] = Member{Member: bus.Member{ID: three}, State: Active}
	v.addPeer(&peer{id: three, alive: true, helloAt: now, hello: hello{common: true}})
	want("another is not", queue, three, 2)
	delete(v.members, three)
	delete(v.peers, three)
	v.mates = v.mates[:1]
	p.hello.common = true
	want("it was upgraded", queue, two, 2)
}

// TestMovingOfQueues checks that a server is filled regardless of the number of queues, which never move, and not while
// the maximum number of databases is moving.
func TestMovingOfQueues(t *testing.T) {
	t.Parallel()
	one, two := note.UNID{1}, note.UNID{2}
	p := &Placement{core: &core{base: &base{}, catalogue: &catalogue{}}}
	v := testView(one, one, two)
	v.addPeer(&peer{id: two, alive: true})
	enter := func(id note.DatabaseID, queue bool, states ...ReplicaState) {
		e := &Entry{ID: id, Queue: queue, Owner: one}
		for i, s := range states {
			e.Replicas = append(e.Replicas, Replica{Server: []note.UNID{one, two}[i], Slot: uint8(i), State: s,
				Incarnation: 1})
		}
		p.catalogue.put(id, e)
	}
	for i := range note.DatabaseID(2 * fillMost) {
		enter(1000+i, true, Serving, Serving)
	}
	enter(5000, false, Serving, Serving)
	enter(5001, false, Serving, Deleting)
	enter(5002, false, Serving) // another replica is planned
	_, dbs := p.fillable(v)
	if len(dbs) != 3 {
		t.Fatalf("%d databases", len(dbs))
	}
	if got := moving(dbs); got != 2 {
		t.Errorf("%d databases are on the move, want 2", got)
	}
	if v.lacking(dbs) {
		t.Error("a server lacks something")
	}
	enter(5003, false, Serving)
	enter(5004, false, Serving)
	enter(5005, false, Serving)
	enter(5006, false, Serving)
	enter(5007, false, Serving)
	if _, dbs := p.fillable(v); !v.lacking(dbs) { // one of nine replicas
		t.Error("queues are taken for what a server should have")
	}
}

// TestSpared checks that a replica pending delete may be removed when as many others are complete as there should be,
// or as the other members can hold.
func TestSpared(t *testing.T) {
	t.Parallel()
	one, two, three := note.UNID{1}, note.UNID{2}, note.UNID{3}
	whole, part := note.Ledger{Last: at(0, 0, 9)}, note.Ledger{Last: at(0, 0, 4)}
	for _, c := range []struct {
		name    string
		members []note.UNID
		told    map[note.UNID]note.Ledger // the other replicas and their positions
		want    bool
	}{
		{"the home alone has all", []note.UNID{one, two, three}, map[note.UNID]note.Ledger{two: whole}, false},
		{"the new one is being filled", []note.UNID{one, two, three},
			map[note.UNID]note.Ledger{two: whole, three: part}, false},
		{"the new one is whole", []note.UNID{one, two, three},
			map[note.UNID]note.Ledger{two: whole, three: whole}, true},
		{"no other member can hold one", []note.UNID{one, two}, map[note.UNID]note.Ledger{two: whole}, true},
		{"nobody else", []note.UNID{one, two}, nil, false},
	} {
		v := testView(one, c.members...)
		e := &Entry{ID: 1000, Replicas: []Replica{{Server: one, State: Deleting, Incarnation: 1}}}
		h := &held{db: e.ID, reports: map[note.UNID]reported{}}
		h.pos.Ledger = whole
		for id, l := range c.told {
			e.Replicas = append(e.Replicas, Replica{Server: id, State: Serving, Incarnation: 1})
			t := reported{}
			t.pos.Ledger = l
			h.reports[id] = t
		}
		if got := v.spared(h, e); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// asked is a bus with a mate that reports the positions of its replicas.
type asked struct {
	bus.Bus
	answer []report
	count  int
}

func (b *asked) Request(_ context.Context, _ bus.ServerID, verb string, _ []byte) ([]byte, error) {
	if verb != verbPositions {
		return nil, bus.ErrNoAnswer
	}
	b.count++
	return appendReports(b.answer), nil
}

// TestUnheard checks a replica pending delete whose successor was behind at its last report. arrange asks the mate for
// a new report, unless the last one is recent or there is nothing to learn.
func TestUnheard(t *testing.T) {
	t.Parallel()
	one, two := note.UNID{1}, note.UNID{2}
	whole, part := note.Ledger{Last: at(0, 1, 9)}, note.Ledger{Last: at(0, 1, 4)}
	clock := env.NewManual(env.TestStart)
	b := &asked{}
	e := env.Real(slog.New(slog.DiscardHandler))
	e.Clock = clock
	n := newNode(&base{
		self: one, env: e, bus: b, opt: Options{Replicas: 2, Timeout: time.Hour}, stat: newStatistics(nil),
	})
	state := testView(one, one, two)
	state.addPeer(&peer{id: two, alive: true})
	n.core.members.current.Store(state.snapshot)
	const db = 1000
	enter := func(mine ReplicaState) {
		n.core.catalogue.put(db, &Entry{ID: db, Replicas: []Replica{
			{Server: two, Slot: 1, State: Serving, Incarnation: 1}, {Server: one, State: mine, Incarnation: 1},
		}})
	}
	enter(Deleting)
	h := &held{db: db, users: &atomic.Int64{}, reports: map[note.UNID]reported{}}
	h.pos.Ledger = whole
	n.core.holdings.put(db, h)
	tells := func(l note.Ledger) report {
		d := report{db: db, slot: 1}
		d.pos.Ledger = l
		return d
	}
	h.reports[two] = reported{report: tells(part), at: clock.Now()}
	b.answer = []report{tells(whole)}
	arrange := func(what string, count int, stands bool) {
		t.Helper()
		if err := n.Placement.arrange(context.Background()); err != nil {
			t.Fatal(err)
		}
		if has := n.core.holdings.get(db).upToDate(two); b.count != count || has != stands {
			t.Errorf("%s: asked %d times, not %d; it has all: %v", what, b.count, count, has)
		}
	}
	arrange("it has just told", 0, false)
	clock.Advance(freshFor + 1)
	arrange("it told a while ago", 1, true)
	clock.Advance(freshFor + 1)
	arrange("it is known to have all", 1, true)
	n.core.holdings.update(db, func(h *held) { h.pos.Ledger.Last++ })
	state.peers[two].alive = false
	arrange("it is dead", 1, false)
	state.peers[two].alive = true
	enter(Serving)
	arrange("nothing is to be done", 1, false)
}
