// Package forward lets any server of a cluster take any person: a session goes to the server that leads the
// person's mail file. The door at which a client came signs it in, and from then on carries bytes between the
// client and the same door of the home, over a stream of the bus.
//
// The home believes a mate who somebody is: a mate is who its certificate says, and both read the same directory. What
// the person may do it asks the directory itself.
package forward

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"time"

	"doublet/bus"
	"doublet/cluster"
	"doublet/directory/session"
	"doublet/env"
	"doublet/mail"
	"doublet/note"
	"doublet/serve/listen"
	"doublet/serve/signin"
	"doublet/stat"
)

// ErrNoHome says that nobody serves the person's mail file now. The client may try again soon.
var ErrNoHome = errors.New("forward: no server has the mail file now")

// verb is that of the streams of sessions which cannot be given back: those of requests at web doors, and of the doors of
// members with an older program. verbMovable is that of the others.
const (
	verb        = "session"
	verbMovable = "session.movable"
)

// Node is what forward asks the cluster: a *cluster.Node.
type Node interface {
	Open(ctx context.Context, db note.DatabaseID) (cluster.Place, error)
	Where(ctx context.Context, db note.DatabaseID) (cluster.Place, error)
	Use(db note.DatabaseID) (release func())
	// Stays reports whether this member is the home of a database. One that was frozen finds out first.
	Stays(ctx context.Context, db note.DatabaseID) bool
	Elsewhere(db note.DatabaseID) bool
	Holders(db note.DatabaseID) []note.UNID
}

// Service forwards sessions and takes those that others forward. Before Join, and where it is nil, the server is
// alone: every session is here.
type Service struct {
	env   *env.Env
	gates gates

	mu    sync.Mutex
	node  Node
	bus   bus.Bus
	known func(ctx context.Context, person note.UNID) (signin.Account, error)
	conns *listen.Server
	doors map[string]*listen.Door
	// stops end the requests that mates have forwarded, at each web door.
	stops []func() error
	// deliver takes what mates bring to mail files here.
	deliver func(ctx context.Context, h *mail.Handed, raw []byte) error
	recall  func(ctx context.Context, id note.UNID) (mail.Recalled, error)
	// had says that a message was delivered here to a person.
	had func(ctx context.Context, person note.UNID, message []byte) (bool, error)
	// sessions are those of browsers, nil before they are open.
	sessions *session.Service

	out, in, moved, failed *stat.Counter
	now                    *stat.Gauge
}

// New makes a Service.
func New(e *env.Env, stats *stat.Tree) *Service {
	return &Service{
		env: e, doors: map[string]*listen.Door{},
		out:    stats.Counter("Server.Cluster.Sessions.Forwarded", "sessions that were handed on to the home of the mail file"),
		in:     stats.Counter("Server.Cluster.Sessions.Taken", "sessions that other servers handed on to this one"),
		moved:  stats.Counter("Server.Cluster.Sessions.Moved", "sessions that went on at another server, to which the mail file had moved"),
		failed: stats.Counter("Server.Cluster.Sessions.Failed", "sessions that could not be handed on"),
		now:    stats.Gauge("Server.Cluster.Sessions.Current", "sessions that are carried to another server now"),
	}
}

// Join makes the server one of a cluster, before the bus speaks with anybody.
func (s *Service) Join(n Node, b bus.Bus) {
	s.mu.Lock()
	s.node, s.bus = n, b
	s.mu.Unlock()
	b.HandleStream(verb, s.take)
	b.HandleStream(verbMovable, s.takeMovable)
	b.HandleStream(verbDeliver, s.delivered)
	b.HandleStream(verbDelivered, s.wasDelivered)
	b.Handle(verbFind, s.answerFind)
	b.Handle(verbRecall, s.recalled)
	b.Handle(verbCode, s.answerCode)
	b.Handle(verbGuess, s.answerGuess)
}

// Serve lets the service take sessions, at the doors that Door names. conns counts and bounds them, like those of
// every door; known makes the account of a person whom a mate has signed in.
func (s *Service) Serve(conns *listen.Server, known func(ctx context.Context, person note.UNID) (signin.Account, error)) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns, s.known = conns, known
}

// Door says who serves the sessions that come for a door: serve must begin with AccountOf.
func (s *Service) Door(name string, serve func(*listen.Conn)) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.doors[name] = &listen.Door{Name: name, Serve: serve}
}

// hello is the header of a stream.
type hello struct {
	Door   string         `json:"door"`
	Person string         `json:"person"`
	Client netip.AddrPort `json:"client"`
	// Credential names the credential of a session's sign-in. CSRF and TLS are those of a request at a web door.
	Credential string `json:"credential,omitempty"`
	CSRF       string `json:"csrf,omitempty"`
	TLS        bool   `json:"tls,omitempty"`
	// Moved says that the state of a session that began elsewhere follows.
	Moved bool `json:"moved,omitempty"`
}

// patience is for how long a session or a request waits for a home: one that is moved has another within moments, one that
// died after its mates have heard nothing for 2 s. Mail programs take a refusal for a wrong password.
const (
	patience      = 4 * time.Second
	patienceEvery = 100 * time.Millisecond
)

// patiently tries until there is a home.
func (s *Service) patiently(ctx context.Context, try func() error) error {
	until := s.env.Clock.Now().Add(patience)
	for {
		err := try()
		moving := errors.Is(err, cluster.ErrNoHome) || bus.Code(err) == codeNotHome
		dying := errors.Is(err, bus.ErrNoServer) || errors.Is(err, bus.ErrNoAnswer)
		if !moving && !dying || !s.env.Clock.Now().Before(until) {
			return err
		}
		select {
		case <-s.env.Clock.After(patienceEvery):
		case <-ctx.Done():
			return err
		}
	}
}
