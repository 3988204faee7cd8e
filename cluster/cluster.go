// Package cluster lets servers stand in for each other: membership and probes (Domino's Cluster Manager), the
// Cluster Database Directory, the election and hand-over of the primary of each database, Cluster Replicators,
// acknowledgement by a mate, the availability index, and repair from a mate.
//
// A mate is another member of the cluster. The primary of a database (home in Domino's words) is the replica
// that assigns UIDs and MODSEQs and hosts sessions; the other replicas follow it.
//
// A Node is one server's part, put together from parts of two kinds. Registers hold state, each under its own
// lock, and call nobody while they hold it: membership, catalogue, holdings, links, placeCache. Services do
// something with them: election, HandOvers, Placement, replication, Repairs and others; they hold no lock while
// they ask another server, change the store or call another part. What a register hands out is immutable, so
// that rules are pure functions (view, decide, rules). doc/rooms/cluster.md describes them.
//
// A Node does nothing by itself: Probe, Decide and Replicate are steps, each of which does what is due and
// returns. A server runs them in loops (Run); the simulation calls them from one thread.
package cluster

import (
	"context"
	"errors"
	"time"

	"doublet/bus"
	"doublet/env"
	"doublet/note"
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
	// Activity is the use of databases before this start, and the table that keeps it. Zero: it is counted from
	// zero and not kept.
	Activity Activity
	// Workers is the number of Cluster Replicators for each mate (1).
	Workers int
	// Requests is the number of requests to one mate that the bus lets be under way (bus.DefaultGrant).
	Requests int
	// Replicas is the number of replicas of a database (2).
	Replicas int
	// ProbeEvery is the time between two probes (500 ms). A mate that is silent for DeadAfter (2 s) counts as
	// dead. At the start mates are waited for StartWait (10 s).
	ProbeEvery, DeadAfter, StartWait time.Duration
	// AckLimit is how long an acknowledgement waits for a mate (1 s).
	AckLimit time.Duration
	// Timeout bounds a request to a mate (10 s).
	Timeout time.Duration
	// LeaveHome lets databases stay where they are when the first server of their order is back.
	LeaveHome bool
	// Everywhere are databases of which every member has a replica, besides the two directories. The primary of
	// the Cluster Database Directory makes those that the cluster lacks.
	Everywhere []store.Create
	// Older lets this server pass for one of an older program, which takes no replicas of those databases, nor of
	// queues that have an owner. The simulation of upgrades sets it.
	Older bool
	// Local reports whether a database belongs to this server alone.
	Local func(*layout.Info) bool
	// Vacate is called before the primary of a database moves away. It returns when all work on the database here
	// has ended; none begins until resume is called. nil: there is none.
	Vacate func(ctx context.Context, db note.DatabaseID) (resume func(), err error)
	// Load measures how busy the server is; Users returns the number of its users.
	Load  *Load
	Users func() int
	// Await waits until done returns true or the limit is over, and returns what done returned last. moved
	// returns a channel that closes when that may have changed. The simulation drives the replicators instead.
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
	// ErrNoHome: the database has no primary now (home in Domino's words); retry (IMAP NO [UNAVAILABLE], HTTP 503).
	ErrNoHome = errors.New("cluster: the database has no primary now")
	// ErrBusy: the primary of the database is being moved.
	ErrBusy = errors.New("cluster: the database is being moved")
	// ErrNotMember: the server is not a member of the cluster.
	ErrNotMember = errors.New("cluster: not a member of the cluster")
	// ErrUnready: no mate can confirm a write now, and the database requires that.
	ErrUnready = errors.New("cluster: no mate can confirm a write now")
	// errLater: the other server cannot do it yet.
	errLater = errors.New("cluster: not ready, retry later")
)

// The codes with which members refuse requests of each other.
const (
	codeNotHome = "not home"
	codeBusy    = "busy"
	codeLater   = "later"
	codeDenied  = "denied"
)
