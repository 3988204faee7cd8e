package cluster

import (
	"context"
	"errors"
	"sync"

	"doublet/bus"
	"doublet/directory"
	"doublet/env"
	"doublet/note"
	"doublet/replica"
	"doublet/store"
)

// Node is the cluster part of one server. Its methods, and those of its parts, are safe for concurrent use.
type Node struct {
	// Opens is for protocol servers ("doors"); Acks, Repairs and Mending are for the store; Placement and HandOvers are
	// for administrators.
	Opens     *Opens
	Acks      *Acks
	Repairs   *Repairs
	Mending   *Mending
	Placement *Placement
	HandOvers *HandOvers

	core        *core
	positions   *positions
	election    *election
	inventory   *inventory
	replication *replication
	activity    *activity
	events      *events
	watcher     *watcher
	reporter    *reporter
	runner      *runner

	// deciding is held during Decide. A concurrent call returns at once.
	deciding sync.Mutex
}

// New returns a Node for a store and its end of the bus. From then on it answers its mates.
func New(e *env.Env, s *store.Store, b bus.Bus, r *replica.Service, o Options) *Node {
	o.fill(e)
	shared := &base{
		opt: o, env: e, store: s, bus: b, reps: r, self: b.Self(), boot: e.Uint64() | 1, start: e.Clock.Now(),
		stat: newStatistics(o.Stats),
	}
	shared.recount.Store(true)
	n := newNode(shared)
	n.core.stat.gauges(n.core, n.events)
	s.WatchInfos(func(note.DatabaseID) {
		shared.recount.Store(true)
		shared.wake.fire()
	})
	n.answer(b)
	n.core.members.set(o.Seeds)
	return n
}

// newNode creates and connects the parts.
func newNode(b *base) *Node {
	ev, aside, confirmations := &events{}, &asides{}, &confirmations{}
	repl := &replication{confirmations: confirmations, aside: aside}
	c := &core{
		base: b, catalogue: &catalogue{base: b}, holdings: &holdings{base: b}, links: &links{base: b, job: repl},
		places: &placeCache{},
	}
	c.members = newMembership(b, &hooks{c, ev})
	pos := &positions{c}
	repl.core, repl.positions = c, pos
	run := &runner{base: b}
	hand := &HandOvers{c, repl}
	repairs := &Repairs{c, repl}
	used := &activity{core: c, used: b.opt.Activity.used()}
	opens := &Opens{c, hand}
	return &Node{
		core: c, positions: pos, replication: repl, runner: run, activity: used, events: ev,
		election: &election{c, pos, run.each}, inventory: &inventory{c, repairs}, watcher: &watcher{c, ev, aside},
		reporter: &reporter{c, ev, opens}, Opens: opens, Acks: &Acks{c, confirmations}, Repairs: repairs,
		Mending: &Mending{core: c}, HandOvers: hand,
		Placement: &Placement{core: c, positions: pos, handOvers: hand, opens: opens, activity: used},
	}
}

// answer registers the verbs of the cluster on the bus.
func (n *Node) answer(b bus.Bus) {
	s := &served{n.core, n.positions}
	for verb, fn := range map[string]func(context.Context, bus.ServerID, []byte) ([]byte, error){
		verbHello: n.core.members.answerHello, verbPositions: n.positions.answer, verbYield: n.election.answerYield,
		verbLead: n.HandOvers.answerLead, verbWhere: n.Opens.answerWhere, verbOpen: n.Opens.answerOpen,
		verbJoin: n.inventory.answerJoin, verbInfo: n.inventory.answerInfo, verbFresh: n.Repairs.answerFresh,
		verbObject: n.Mending.answerObject, verbActivity: n.activity.answer, verbMove: n.Placement.answerMove,
		verbReplica: s.answerReplica,
	} {
		b.Handle(verb, fn)
	}
	b.HandleStream(verbCall, s.serveCall)
	b.HandleStream(verbGet, s.serveGet)
	b.HandleStream(verbPut, s.servePut)
	b.HandleStream(verbObject, n.Mending.serveObject)
}

// hooks implements memberHooks.
type hooks struct {
	*core
	events *events
}

func (k *hooks) membersChange(list []Member) { k.links.set(list) }

func (k *hooks) mateReturned(mate note.UNID) {
	k.holdings.forget(mate)
	if l := k.links.get(mate); l != nil {
		l.restart()
	}
}

func (k *hooks) describe(h *hello, to note.UNID) {
	all, leads := k.holdings.count(func(x *held) bool { return x.leads })
	h.databases, h.leads, h.caught = uint32(all), uint32(leads), k.links.caught(to)
	h.flush, h.noRoom = k.events.disk()
}

// Self returns the id of this server.
func (n *Node) Self() note.UNID { return n.core.self }

// Name returns the name of this server in the cluster.
func (n *Node) Name() string { return n.core.name(n.core.self) }

// Mates lists the other members in ascending order of id.
func (n *Node) Mates() []note.UNID { return n.core.members.view().mates }

// Workers returns the number of Cluster Replicators for each mate.
func (n *Node) Workers() int { return n.core.opt.Workers }

// Filled reports whether the local replica of a database was complete once, so that its data is consistent.
func (n *Node) Filled(db note.DatabaseID) bool {
	h := n.core.holdings.get(db)
	return h != nil && h.complete()
}

// Probe probes every mate and exchanges hellos with those that answer.
func (n *Node) Probe(ctx context.Context) {
	for _, id := range n.Mates() {
		n.core.members.probe(ctx, id)
	}
	n.core.stat.sample()
}

// Decide does all work that is due: it updates the members, their liveness and the catalogue, and maintains a primary
// and the replicas of every database. An error in one part does not stop the others. Decide returns all errors.
func (n *Node) Decide(ctx context.Context) error {
	if !n.deciding.TryLock() {
		return nil
	}
	defer n.deciding.Unlock()
	c := n.core
	c.members.judge()
	errs := []error{c.members.refresh(ctx, c.holdings.get(directory.ID)), n.inventory.join(ctx),
		c.catalogue.refresh(ctx)}
	if c.leadsNow(ID) {
		errs = append(errs, c.catalogue.unite(ctx))
	}
	errs = append(errs, n.inventory.recountDue(ctx), n.election.settle(ctx))
	n.election.reroute()
	errs = append(errs, n.Repairs.clear(ctx), n.inventory.makeEverywhere(),
		n.Placement.arrange(ctx), n.Placement.fill(ctx))
	n.replication.catchUp()
	n.activity.sampleDue()
	n.watcher.look()
	return errors.Join(errs...)
}

// Replicate runs one step of one Cluster Replicator: it sends the databases that wait for a mate, one after the other,
// and reports whether there was anything to do. It sends nothing to a dead mate.
func (n *Node) Replicate(ctx context.Context, mate note.UNID, worker int) (progress bool, err error) {
	return n.replication.step(ctx, mate, worker)
}

// Idle reports whether nothing waits to be sent to a live mate.
func (n *Node) Idle() bool { return n.replication.idle() }

// Status returns the cluster as this server sees it.
func (n *Node) Status() Status { return n.reporter.status() }

// Databases returns at most limit databases of the cluster with ids above after, in ascending order, and the value of
// after for the next call; 0: at the end. It asks mates for the primaries of databases that are not here.
func (n *Node) Databases(ctx context.Context, after note.DatabaseID, limit int) ([]DatabaseView, note.DatabaseID) {
	return n.reporter.databases(ctx, after, limit)
}

// Explain returns a line about each local database, for debugging.
func (n *Node) Explain() []string { return n.reporter.explain() }

// Events returns the problems of the cluster as this server sees them now, newest first.
func (n *Node) Events() []Event { return n.events.list() }
