// Package cluster lets servers stand in for each other: membership and probes (Domino's Cluster Manager),
// the Cluster Database Directory, the home of each database and how it moves, Cluster Replicators,
// acknowledgement by a mate, the availability index, and repair from a mate.
//
// A Node is one server's part. It does nothing by itself: Probe, Decide and Replicate are steps, each of
// which does what is to be done now and returns. A server lets them run in loops (Run); the simulation
// calls them from one thread. The rules of who leads a database are one pure function, decide.
//
// No lock of the Node is held while it asks another server or changes the store.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"doublet/bus"
	"doublet/directory"
	"doublet/env"
	"doublet/note"
	"doublet/replica"
	"doublet/stat"
	"doublet/store"
	"doublet/store/layout"
)

// Options are the settings of a Node. Zero values take the defaults.
type Options struct {
	// Cluster is the cluster's name.
	Cluster string
	// Seeds are the members as the server that admitted this one listed them. They hold until the replica of the
	// directory is filled; then its server documents do.
	Seeds []Member
	// Activity is the use of databases before this start, and the table that keeps it. Zero: it is counted anew and not kept.
	Activity Activity
	// Workers is how many Cluster Replicators run for each mate (1).
	Workers int
	// Requests is how many requests to one mate the bus lets be under way (that of bus.DefaultGrant).
	Requests int
	// Replicas is how many replicas a database gets (2).
	Replicas int
	// ProbeEvery is the time between two probes (500 ms), DeadAfter how long a mate is silent before it
	// counts as dead (2 s), StartWait how long mates are waited for at the start (10 s).
	ProbeEvery, DeadAfter, StartWait time.Duration
	// AckLimit is how long an acknowledgement waits for a mate (1 s).
	AckLimit time.Duration
	// Timeout bounds a request to a mate (10 s).
	Timeout time.Duration
	// LeaveHome lets databases stay where they are when the server that comes first in their order is back.
	LeaveHome bool
	// Everywhere are databases of which every member has a replica, as of the two directories. Those that the cluster has not are made
	// by the home of the Cluster Database Directory.
	Everywhere []store.Create
	// Older has this server pass for one of an older program, which takes no replicas of those, nor of queues that have an owner: the
	// simulation of upgrades.
	Older bool
	// Local says which databases are this server's alone, beside those that always are.
	Local func(*layout.Info) bool
	// Vacate is called before the home of a database is handed over. It returns when whoever works on it here has come to an end,
	// and begins nothing until resume is called. nil: nobody does.
	Vacate func(ctx context.Context, db note.DatabaseID) (resume func(), err error)
	// Load measures how busy the server is; Users says how many users it has.
	Load  *Load
	Users func() int
	// Await waits until done, or until the limit is over, and says whether it is done; moved gives a channel
	// that closes when that may have changed. The simulation drives the replicators instead.
	Await func(ctx context.Context, limit time.Duration, moved func() <-chan struct{}, done func() bool) bool
	Stats *stat.Tree
}

func (o *Options) fill(e *env.Env) {
	o.Workers = min(max(o.Workers, 1), 16)
	if o.Requests <= 0 {
		o.Requests = bus.DefaultGrant.Requests
	}
	if o.Replicas <= 0 {
		o.Replicas = 2
	}
	for _, d := range []struct {
		v   *time.Duration
		def time.Duration
	}{
		{&o.ProbeEvery, 500 * time.Millisecond}, {&o.DeadAfter, 2 * time.Second}, {&o.StartWait, 10 * time.Second},
		{&o.AckLimit, time.Second}, {&o.Timeout, 10 * time.Second},
	} {
		if *d.v <= 0 {
			*d.v = d.def
		}
	}
	if o.Load == nil {
		o.Load = NewLoad(e.Clock, 0)
	}
	if o.Users == nil {
		o.Users = func() int { return 0 }
	}
	if o.Vacate == nil {
		o.Vacate = func(context.Context, note.DatabaseID) (func(), error) { return func() {}, nil }
	}
	if o.Await == nil {
		o.Await = awaiter(e.Clock)
	}
}

// The kinds of error that callers branch on.
var (
	// ErrNoHome: nobody serves the database now; try again (IMAP NO [UNAVAILABLE], HTTP 503).
	ErrNoHome = errors.New("cluster: the database has no home now")
	// ErrBusy: something else is being done with the database.
	ErrBusy = errors.New("cluster: the database is being moved")
	// ErrNotMember: the server is no member of the cluster.
	ErrNotMember = errors.New("cluster: no member of the cluster")
	// ErrUnready: no mate can confirm a write now, and the database asks for that.
	ErrUnready = errors.New("cluster: no mate can confirm a write now")
	// errLater: the other server cannot do it yet.
	errLater = errors.New("cluster: not now")
)

// The codes of refusals between members.
const (
	codeNotHome = "not home"
	codeBusy    = "busy"
	codeLater   = "later"
	codeDenied  = "denied"
)

// Node is one server's part in its cluster. Its methods may be called from any goroutine.
type Node struct {
	opt   Options
	env   *env.Env
	store *store.Store
	bus   bus.Bus
	reps  *replica.Service
	self  note.UNID
	boot  uint64
	start time.Time
	stat  statistics

	mending mending
	// deciding is held over a Decide; one that comes meanwhile returns at once.
	deciding sync.Mutex
	// running says that Run drives the Node, and may do several things at a time.
	running atomic.Bool
	// wake fires when a Decide is due, heard when a mate has given a sign of life.
	wake, heard   signal
	confirmations confirmations

	mu sync.Mutex
	// membersSeq is the sequence of the directory at which the members were read; 0: never.
	membersSeq uint64
	members    map[note.UNID]Member
	peers      map[note.UNID]*peer
	catalog    catalog
	held       map[note.DatabaseID]*held
	heldOrder  []note.DatabaseID
	places     map[note.DatabaseID]cachedPlace
	serving    bool
	// stale says that databases may have come or gone here.
	stale bool
	// used says how much the databases here are used: sampled and kept at those times.
	used          map[note.DatabaseID]*used
	sampled, kept time.Time
	events        events
	// filled is when it was looked last for a server that has too little.
	filled time.Time
}

// catalog is the Cluster Database Directory in memory.
type catalog struct {
	seq     uint64
	entries map[note.DatabaseID]*Entry
	// order lists the databases by id, nil after one has come.
	order []note.DatabaseID
	// split are documents of which there are several versions.
	split map[note.ID]bool
}

func (c *catalog) put(e *Entry) {
	if c.entries[e.ID] == nil {
		c.order = nil
	}
	c.entries[e.ID] = e
}

// ids lists the databases, ascending. The list must not be changed.
func (c *catalog) ids() []note.DatabaseID {
	if c.order == nil {
		for id := range c.entries {
			c.order = append(c.order, id)
		}
		slices.Sort(c.order)
	}
	return c.order
}

// New makes the Node over a store and its end of the bus, and answers its mates from then on.
func New(e *env.Env, s *store.Store, b bus.Bus, r *replica.Service, o Options) *Node {
	o.fill(e)
	n := &Node{
		opt: o, env: e, store: s, bus: b, reps: r, self: b.Self(), boot: e.Uint64() | 1, start: e.Clock.Now(),
		members: map[note.UNID]Member{}, peers: map[note.UNID]*peer{}, held: map[note.DatabaseID]*held{},
		places: map[note.DatabaseID]cachedPlace{}, stale: true, used: o.Activity.used(),
		catalog: catalog{entries: map[note.DatabaseID]*Entry{}, split: map[note.ID]bool{}},
	}
	n.wake.init()
	n.heard.init()
	n.stat.init(n, o.Stats)
	s.WatchInfos(func(note.DatabaseID) {
		n.mu.Lock()
		n.stale = true
		n.mu.Unlock()
		n.wake.fire()
	})
	n.handle()
	n.setMembers(o.Seeds)
	return n
}

// Self is this server.
func (n *Node) Self() note.UNID { return n.self }

// Load is what measures how busy the server is.
func (n *Node) Load() *Load { return n.opt.Load }

func (n *Node) now() time.Time { return n.env.Clock.Now() }

func (n *Node) log(level slog.Level, text string, args ...any) {
	n.env.Log.Log(context.Background(), level, "cluster: "+text, args...)
}

// limited is ctx with the limit of a request.
func (n *Node) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, n.opt.Timeout)
}

// ask sends a request to a mate. A mate that does not answer is errMate.
func (n *Node) ask(ctx context.Context, to note.UNID, verb string, body []byte) ([]byte, error) {
	ctx, cancel := n.limited(ctx)
	defer cancel()
	answer, err := n.bus.Request(ctx, to, verb, body)
	if err != nil && !errors.Is(err, bus.ErrRefused) {
		return nil, fmt.Errorf("%w: %s: %w", errMate, n.name(to), err)
	}
	return answer, err
}

// name is what people call a server.
// Name is what the cluster calls this server.
func (n *Node) Name() string { return n.name(n.self) }

func (n *Node) name(id note.UNID) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if m, ok := n.members[id]; ok && m.Name != "" {
		return m.Name
	}
	return id.String()
}

// clustered says whether a database takes part: some are each server's own.
func (n *Node) clustered(i *layout.Info) bool {
	return i.Kind != replica.Kind && (n.opt.Local == nil || !n.opt.Local(i))
}

// isDirectory says whether a database is one of the two without which a server is no member.
func isDirectory(db note.DatabaseID) bool { return db == ID || db == directory.ID }

// everywhere says whether every member has a replica.
func (n *Node) everywhere(db note.DatabaseID) bool {
	return isDirectory(db) || slices.ContainsFunc(n.opt.Everywhere, func(c store.Create) bool { return c.ID == db })
}

// takes says whether a mate's program has replicas of a database: an older one keeps to itself what stands in those that every
// member has, and its mail.box and outbox. Under mu.
func (n *Node) takes(p *peer, e *Entry) bool {
	return !n.newer(e) || p != nil && p.hello.common
}

// refuses says that a mate's program is known to take none. Under mu.
func (n *Node) refuses(p *peer, e *Entry) bool {
	return p != nil && !p.helloAt.IsZero() && !n.takes(p, e)
}

// newer says whether a database is of those that an older program keeps to itself. Under mu.
func (n *Node) newer(e *Entry) bool {
	return !isDirectory(e.ID) && n.everywhere(e.ID) || e.Queue && !e.Owner.IsZero()
}

// signal wakes whoever waits for something to change.
type signal struct {
	mu sync.Mutex
	c  chan struct{}
}

func (s *signal) init() { s.c = make(chan struct{}) }

func (s *signal) fire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.c)
	s.c = make(chan struct{})
}

// next closes when the signal fires after this call.
func (s *signal) next() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.c
}
