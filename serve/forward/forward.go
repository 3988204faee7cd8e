// Package forward lets any server of a cluster take any person: a session goes to the server that leads the
// person's mail file. The door at which a client came signs it in, and from then on carries bytes between the
// client and the same door of the home, over a stream of the bus.
//
// The home believes a mate who somebody is: a mate is who its certificate says, and both read the same directory. What
// the person may do it asks the directory itself.
package forward

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
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

// verb is that of the streams.
const verb = "session"

// Node is what forward asks the cluster: a *cluster.Node.
type Node interface {
	Open(ctx context.Context, db note.DatabaseID) (cluster.Place, error)
	Where(ctx context.Context, db note.DatabaseID) (cluster.Place, error)
	Use(db note.DatabaseID) (release func())
	Elsewhere(db note.DatabaseID) bool
	Holders(db note.DatabaseID) []note.UNID
}

// Service forwards sessions and takes those that others forward. Before Join, and where it is nil, the server is
// alone: every session is here.
type Service struct {
	env *env.Env

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

	out, in, failed *stat.Counter
	now             *stat.Gauge
}

// New makes a Service.
func New(e *env.Env, stats *stat.Tree) *Service {
	return &Service{
		env: e, doors: map[string]*listen.Door{},
		out:    stats.Counter("Server.Cluster.Sessions.Forwarded", "sessions that were handed on to the home of the mail file"),
		in:     stats.Counter("Server.Cluster.Sessions.Taken", "sessions that other servers handed on to this one"),
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
}

// Session is where a person is served: here until release is called, or by another server.
type Session struct {
	stream  bus.Stream
	release func()
	s       *Service
}

// Here says that the session is this server's own.
func (x *Session) Here() bool { return x == nil || x.stream == nil }

// End ends what Open began; after Carry it need not be called.
func (x *Session) End() {
	if x == nil {
		return
	}
	if x.stream != nil {
		_ = x.stream.Close()
	}
	if x.release != nil {
		x.release()
		x.release = nil
	}
}

// Open finds the home of a person's mail file, and opens a session there if that is another server.
// ErrNoHome: there is none, and none has come while it waited. A connection that a mate has forwarded is not forwarded again.
func (s *Service) Open(c *listen.Conn, door string, a *signin.Account) (*Session, error) {
	if s == nil || a.Database == 0 {
		return &Session{}, nil
	}
	s.mu.Lock()
	node, mates := s.node, s.bus
	s.mu.Unlock()
	if node == nil {
		return &Session{}, nil
	}
	if _, ok := AccountOf(c); ok {
		return &Session{}, nil // take holds it
	}
	var x *Session
	err := s.patiently(c.Context(), func() (err error) {
		x, err = s.open(c, door, a, node, mates)
		return err
	})
	if err != nil {
		s.failed.Inc()
		return nil, fmt.Errorf("%w: %w", ErrNoHome, err)
	}
	return x, nil
}

// open is one attempt.
func (s *Service) open(c *listen.Conn, door string, a *signin.Account, node Node, mates bus.Bus) (*Session, error) {
	p, err := node.Open(c.Context(), a.Database)
	if err != nil {
		return nil, err
	}
	if p.Self {
		return &Session{release: node.Use(a.Database)}, nil
	}
	h := hello{Door: door, Person: a.Who.Person.String(), Credential: a.Credential}
	if at, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		h.Client = at.AddrPort()
	}
	header, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	stream, err := mates.Stream(c.Context(), p.Server, verb, header)
	if err == nil {
		var one [1]byte
		if _, err = io.ReadFull(stream, one[:]); err != nil { // the other server's refusal, or its loss
			_ = stream.Close()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.Name, err)
	}
	s.out.Inc()
	return &Session{stream: stream, s: s}, nil
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

// Carry carries bytes between the client and the home until one of them ends, or this server stops. What the
// client has sent already goes first. bye is what the client is told where the home is lost.
func (x *Session) Carry(c *listen.Conn, ahead []byte, bye string) error {
	defer x.End()
	x.s.now.Add(1)
	defer x.s.now.Add(-1)
	ahead = append(append([]byte(nil), ahead...), c.Buffered()...)
	c.DiscardInput()
	if err := c.Flush(); err != nil {
		return err
	}
	if _, err := x.stream.Write(ahead); err != nil {
		return x.lost(c, bye, err, true)
	}
	socket := c.Conn
	forever := c.Now().AddDate(1, 0, 0)
	_ = socket.SetDeadline(forever) // how long a client may be silent, the home knows
	var fromClient error
	gone := make(chan struct{})
	x.s.env.Go("forward", func() {
		defer close(gone)
		_, fromClient = io.Copy(x.stream, onlyReader{socket})
		_ = x.stream.CloseWrite()
		if fromClient != nil {
			_ = x.stream.Close()
		}
	})
	ended := make(chan struct{})
	x.s.env.Go("forward", func() {
		select {
		case <-c.Closing():
			_ = x.stream.Close()
		case <-ended:
		}
	})
	w := &lineEnd{w: socket, at: true}
	_, err := io.Copy(w, onlyReader{x.stream})
	close(ended)
	if err != nil {
		err = x.lost(c, bye, err, w.at)
	}
	_ = socket.Close()
	<-gone
	return err
}

// lost tells the client, if that would not fall into the middle of a line.
func (x *Session) lost(c *listen.Conn, bye string, err error, atLineEnd bool) error {
	if atLineEnd && bye != "" {
		_ = c.Conn.SetWriteDeadline(c.Now().Add(farewell))
		_, _ = io.WriteString(c.Conn, bye)
	}
	return err
}

// onlyReader hides what io.Copy would use instead of Read.
type onlyReader struct{ io.Reader }

// lineEnd knows whether what was written last ends a line.
type lineEnd struct {
	w  io.Writer
	at bool
}

func (l *lineEnd) Write(p []byte) (int, error) {
	if len(p) > 0 {
		l.at = p[len(p)-1] == '\n'
	}
	return l.w.Write(p)
}
