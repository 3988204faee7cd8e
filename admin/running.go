package admin

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/netip"
	"time"

	"doublet/bus/pki"
	"doublet/cluster"
	"doublet/mail/reports"
	"doublet/note"
	"doublet/probe"
	"doublet/replica/schedule"
	"doublet/search"
)

// Running is a running server: the System, its tasks and its doors.
type Running struct {
	*System
	// Replicator runs the connections to other servers.
	Replicator *schedule.Replicator
	// Search is the full-text search; nil if it is off.
	Search *search.Service
	// Reports sends reports about mail to other servers.
	Reports *reports.Sender
	// Doors returns the open doors.
	Doors func() []Door
	Tasks Tasks
	// Drop closes the connections of a person, or of everybody if it is the zero UNID, and returns their number.
	Drop func(person note.UNID) int
	// Reached returns the addresses at which other servers reach the doors (directory.ServerFields).
	Reached func() []string
	// Stop asks the server to stop. Stopping is a context that ends when it has to.
	Stop     func()
	Stopping context.Context
	// Certificates manages the doors' certificates.
	Certificates Certificates
	// Health returns an error if the server cannot do its work, also before its doors are open.
	Health   func(ctx context.Context) error
	Settings Settings
	// KeepStatistics returns the time for which every report of statistics is kept.
	KeepStatistics func() time.Duration
	// Enter makes the server join the cluster that it has just founded. It reports whether the server joined now, and
	// not before.
	Enter func(ctx context.Context) (entered bool, err error)
	Bans  Bans
	// Probes returns the state of every probe.
	Probes func() []probe.Status
}

// Bans are the addresses that are temporarily banned from signing in.
type Bans interface {
	List() []Ban
	// Remove ends the ban of an address and reports whether there was one.
	Remove(netip.Addr) bool
}

// Run runs a verb on the running server. Otherwise it is like System.Run.
func (r *Running) Run(ctx context.Context, who note.Who, name string, args json.RawMessage,
	progress func(Progress)) (json.RawMessage, error) {
	return (&Call{System: r.System, Who: who, Progress: progress, running: r}).run(ctx, name, args)
}

// ServerCall is one run of a verb that needs the running server.
type ServerCall struct {
	*Call
	Server *Running
}

// onServer returns a verb like define does, from a function that needs the running server.
func onServer[A, R any](name, help string, fn func(ctx context.Context, c *ServerCall, a *A) (R, error),
	options ...option) *Verb {
	v := define(name, help, func(ctx context.Context, c *Call, a *A) (R, error) {
		return fn(ctx, &ServerCall{c, c.running}, a)
	}, options...)
	v.Server = true
	return v
}

// node returns this server's node in its cluster.
func (c *ServerCall) node() (*cluster.Node, error) {
	if n := c.Member.Node(); n != nil {
		return n, nil
	}
	return nil, fmt.Errorf("%w: found one with doublet cluster init", pki.ErrNone)
}

// openDoors returns the open doors; none if the server is stopped.
func (c *Call) openDoors() []Door {
	if c.running == nil {
		return nil
	}
	return c.running.Doors()
}

// leaf returns the certificate that clients of a host get, nil if the server is stopped.
func (c *Call) leaf(host string) *x509.Certificate {
	if c.running == nil {
		return nil
	}
	return c.running.Certificates.Leaf(host)
}
