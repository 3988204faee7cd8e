// Package cluster makes servers take over for each other. It implements membership and probes (Domino's Cluster
// Manager), the Cluster Database Directory, the election and hand-over of the primary of each database, Cluster
// Replicators, acknowledgement by a mate, the availability index, and repair from a mate.
//
// A mate is another member of the cluster. The primary of a database (home in Domino's words) is the replica
// that assigns UIDs and MODSEQs and hosts sessions; the other replicas follow it.
//
// A Node is the cluster part of one server. It consists of parts of two kinds. Registers hold state, each under its own
// lock, and call no other part while they hold it: membership, catalogue, holdings, links, placeCache. Services work
// with the registers: election, HandOvers, Placement, replication, Repairs and others. They hold no lock while they
// send a request, change the store or call another part. The values that a register returns are immutable, so the rules
// are pure functions (view, decide, rules). doc/rooms/cluster.md describes the parts.
//
// A Node has no goroutines of its own. Probe, Decide and Replicate are steps: each does the work that is due and
// returns. A server calls them in loops (Run); the simulation calls them from one goroutine.
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

// Options holds the settings of a Node. Zero values take the defaults.
type Options struct {
	// Cluster is the cluster's name.
	Cluster string
	// Seeds are the members as the server that admitted this one listed them. They apply until the local replica of the
	// directory is complete; then its server documents apply.
	Seeds []Member
	// Activity is the use of databases before this start, with the table that saves it. The zero value starts at zero
	// and saves nothing.
	Activity Activity
	// Workers is the number of Cluster Replicators for each mate (1).
	Workers int
	// Requests is the maximum number of concurrent requests to one mate on the bus (bus.DefaultGrant).
	Requests int
	// Replicas is the number of replicas of a database (2).
	Replicas int
	// ProbeEvery is the time between two probes (500 ms). A mate that is silent for DeadAfter (2 s) counts as dead.
	// After its start a server waits up to StartWait (10 s) for mates.
	ProbeEvery, DeadAfter, StartWait time.Duration
	// AckLimit is the maximum time that an acknowledgement waits for a mate (1 s).
	AckLimit time.Duration
	// Timeout limits a request to a mate (10 s).
	Timeout time.Duration
	// LeaveHome keeps primaries where they are. Otherwise a primary moves back when the first server in the order of
	// preference returns.
	LeaveHome bool
	// Everywhere lists databases, besides the two directories, of which every member has a replica. The primary of the
	// Cluster Database Directory creates those that do not exist.
	Everywhere []store.Create
	// Older makes this server behave as a previous version that takes no replicas of those databases, nor of queues
	// that have an owner. The simulation of upgrades sets it.
	Older bool
	// Local reports whether a database belongs to this server alone.
	Local func(*layout.Info) bool
	// Vacate, if set, is called before the primary of a database moves away. It returns when all work on the database
	// here has ended. No new work begins until resume is called.
	Vacate func(ctx context.Context, db note.DatabaseID) (resume func(), err error)
	// Load measures how busy the server is. Users returns the number of its users.
	Load  *Load
	Users func() int
	// Await waits until done returns true or the limit has passed, and returns the last result of done. moved returns a
	// channel that is closed when that result may have changed. The simulation replaces Await by a function that runs
	// the replicators.
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

// Errors that callers test for.
var (
	// ErrNoHome means that the database has no primary now (home in Domino's words); retry (IMAP NO [UNAVAILABLE], HTTP
	// 503).
	ErrNoHome = errors.New("cluster: the database has no primary now")
	// ErrBusy means that the primary of the database is being moved.
	ErrBusy = errors.New("cluster: the database is being moved")
	// ErrNotMember means that the server is not a member of the cluster.
	ErrNotMember = errors.New("cluster: not a member of the cluster")
	// ErrUnready means that no mate can confirm a write now, and the database requires a confirmation.
	ErrUnready = errors.New("cluster: no mate can confirm a write now")
	// errLater means that the other server cannot do it yet; retry later.
	errLater = errors.New("cluster: not ready, retry later")
)

// Error codes of requests between members.
const (
	codeNotHome = "not home"
	codeBusy    = "busy"
	codeLater   = "later"
	codeDenied  = "denied"
)
