// Package forward lets every server of a cluster accept every person. A session is forwarded to the home of the
// person's mail file, the server with its primary replica. The door that accepted the client authenticates it. From
// then on it copies bytes between the client and the same door of the home, over a stream of the bus.
//
// A mate is another member of the cluster. The home trusts a mate about the person's identity: certificates
// authenticate mates, and both read the same directory. The home itself reads the person's rights from the directory.
package forward

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"doublet/bus"
	"doublet/cluster"
	"doublet/env"
	"doublet/note"
	"doublet/serve/listen"
	"doublet/stat"
)

// ErrNoHome reports that no server currently serves the person's mail file. The client may retry soon.
var ErrNoHome = errors.New("forward: no server has the mail file now")

// verb is the verb of streams for sessions that cannot be returned: requests at web doors, and sessions from members
// with an older version. verbMovable is the verb of all other sessions.
const (
	verb        = "session"
	verbMovable = "session.movable"
)

// Node is the part of the cluster that forward needs: a *cluster.Node.
type Node interface {
	Open(ctx context.Context, db note.DatabaseID) (cluster.Place, error)
	Where(ctx context.Context, db note.DatabaseID) (cluster.Place, error)
	Use(db note.DatabaseID) (release func())
	// Stays reports whether this member is still the home of a database. After the process was frozen it first waits
	// until the mates have had time to report another home.
	Stays(ctx context.Context, db note.DatabaseID) bool
	Elsewhere(db note.DatabaseID) bool
	Holders(db note.DatabaseID) []note.UNID
}

// Cluster returns this server's node and its end of the bus. Both are nil while it is in no cluster: every session is
// served here then.
type Cluster func() (Node, bus.Bus)

// Handlers registers handlers for the requests of other members. It is a bus.Bus, or a membership that forwards to one.
type Handlers interface {
	Handle(verb string, fn bus.Handler)
	HandleStream(verb string, fn bus.StreamHandler)
}

// Service forwards sessions to the homes of mail files, and sends requests to other members. A nil Service belongs to a
// server outside a cluster.
type Service struct {
	env     *env.Env
	cluster Cluster
	gates   gates
	// memory is the budget for messages in flight, from which sessions that move get theirs.
	memory *listen.Budget

	out, in, moved, failed *stat.Counter
	now                    *stat.Gauge
}

// New returns a Service. memory is the budget for messages in flight.
func New(e *env.Env, in Cluster, memory *listen.Budget, stats *stat.Tree) *Service {
	return &Service{
		env: e, cluster: in, memory: memory,
		out: stats.Counter("Server.Cluster.Sessions.Forwarded",
			"sessions that were handed on to the home of the mail file"),
		in: stats.Counter("Server.Cluster.Sessions.Taken", "sessions that other servers handed on to this one"),
		moved: stats.Counter("Server.Cluster.Sessions.Moved",
			"sessions that went on at another server, to which the mail file had moved"),
		failed: stats.Counter("Server.Cluster.Sessions.Failed", "sessions that could not be handed on"),
		now:    stats.Gauge("Server.Cluster.Sessions.Current", "sessions that are carried to another server now"),
	}
}

// hello is the header of a stream.
type hello struct {
	Door   string         `json:"door"`
	Person string         `json:"person"`
	Client netip.AddrPort `json:"client"`
	// Credential identifies the credential of the sign-in. CSRF and TLS belong to requests at web doors.
	Credential string `json:"credential,omitempty"`
	CSRF       string `json:"csrf,omitempty"`
	TLS        bool   `json:"tls,omitempty"`
	// Deflates reports that the sender can compress the client's connection, Deflated that it does.
	Deflates bool `json:"deflates,omitempty"`
	Deflated bool `json:"deflated,omitempty"`
	// Moved reports that the state of a session that began on another server follows.
	Moved bool `json:"moved,omitempty"`
}

// patience is the time that a session or request waits for a home. During a move there is a new home within moments.
// After the home dies, there is a new one once its mates have heard nothing for 2 s. It must wait, because mail
// programs take a rejection for a wrong password.
const (
	patience      = 4 * time.Second
	patienceEvery = 100 * time.Millisecond
)

// patiently retries try until there is a home or patience has passed.
func (s *Service) patiently(ctx context.Context, try func() error) error {
	until := s.env.Clock.Now().Add(patience)
	for {
		err := try()
		moving := errors.Is(err, cluster.ErrNoHome) || bus.Code(err) == codeNotHome
		dying := errors.Is(err, bus.ErrNoServer) || errors.Is(err, bus.ErrNoAnswer)
		starting := bus.Code(err) == bus.CodeNoVerb // its doors are not open yet
		if !moving && !dying && !starting || !s.env.Clock.Now().Before(until) {
			return err
		}
		select {
		case <-s.env.Clock.After(patienceEvery):
		case <-ctx.Done():
			return err
		}
	}
}
