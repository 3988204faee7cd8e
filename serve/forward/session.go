package forward

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"doublet/bus"
	"doublet/note"
	"doublet/serve/listen"
	"doublet/serve/signin"
)

// Session is a person's session at a door. It is served here until End is called, or by another member. A nil Session
// belongs to a server outside a cluster.
type Session struct {
	s *Service
	// stream leads to the home; nil if the session is served here. movable reports that the home may return the
	// session.
	stream  bus.Stream
	movable bool

	// These fields belong to a session that is served here.
	node    Node
	db      note.DatabaseID
	gate    *gate
	working bool
	release func()
	from    *carried // the connection, if a mate has forwarded it
}

// Here reports whether the session is served by this member.
func (x *Session) Here() bool { return x == nil || x.stream == nil }

// End ends the session. It is not needed after CarryAway and Follow.
func (x *Session) End() {
	if x == nil {
		return
	}
	if x.stream != nil {
		_ = x.stream.Close()
	}
	x.Done()
	if x.gate != nil {
		x.gate.watch(x, nil)
		x.s.gates.close(x.db, x.gate)
		x.gate = nil
	}
	if x.release != nil {
		x.release()
		x.release = nil
	}
}

// here begins a session on this member. It opens the database so that it is not moved for load balancing.
func (s *Service) here(node Node, db note.DatabaseID) *Session {
	return &Session{s: s, node: node, db: db, release: node.Use(db), gate: s.gates.open(db)}
}

// Begin begins a command, and Done ends it. The database is not handed over between them. Begin returns false, without
// beginning, if another member is the home now. The caller should then continue the command there with Follow.
func (x *Session) Begin(ctx context.Context) bool {
	if x == nil || x.gate == nil {
		return true
	}
	if !x.gate.enter(ctx) {
		return true // the server is stopping, and the command will notice
	}
	x.working = true
	if x.node.Stays(ctx, x.db) {
		return true
	}
	x.Done()
	return false
}

// Moved reports, during a command, whether another member is the home now.
func (x *Session) Moved(ctx context.Context) bool {
	return x != nil && x.gate != nil && !x.node.Stays(ctx, x.db)
}

// Done ends a command.
func (x *Session) Done() {
	if x != nil && x.working {
		x.gate.leave()
		x.working = false
	}
}

// Waits calls fn, which waits for the client during a command, so that a slow client does not delay a hand-over.
// Afterwards the database may have another home.
func (x *Session) Waits(ctx context.Context, fn func() error) error {
	paused := x.Pause()
	err := fn()
	if paused {
		x.Resume(ctx)
	}
	return err
}

// Pause begins a wait as Waits does, without a function, for a caller whose stack must stay small. If it returns true,
// the caller must end the wait with Resume.
func (x *Session) Pause() bool {
	if x == nil || !x.working {
		return false
	}
	x.Done()
	return true
}

// Resume ends a wait.
func (x *Session) Resume(ctx context.Context) { x.working = x.gate.enter(ctx) }

// Watch registers wake to be called after each hand-over of the database, until the session ends.
func (x *Session) Watch(wake func()) {
	if x != nil && x.gate != nil {
		x.gate.watch(x, wake)
	}
}

// Taken returns the session of a connection that a mate has forwarded, or nil for any other connection.
func Taken(c *listen.Conn) *Session {
	if x, ok := c.Conn.(*carried); ok {
		return x.session
	}
	return nil
}

// Open finds the home of a person's mail file, and opens a session there if it is another server. It returns ErrNoHome
// if there is still no home after patience. It never forwards a forwarded connection again.
func (s *Service) Open(c *listen.Conn, door string, a *signin.Account) (*Session, error) {
	if s != nil {
		if x := Taken(c); x != nil {
			return x, nil
		}
	}
	return s.find(c, door, a, nil)
}

// find opens a session at the home. m is the state from which it continues, or nil.
func (s *Service) find(c *listen.Conn, door string, a *signin.Account, m *Moved) (*Session, error) {
	if s == nil || a.Database == 0 {
		return &Session{}, nil
	}
	node, mates := s.cluster()
	if node == nil {
		return &Session{}, nil
	}
	var x *Session
	err := s.patiently(c.Context(), func() (err error) {
		x, err = s.open(c, door, a, m, node, mates)
		return err
	})
	if err != nil {
		s.failed.Inc()
		return nil, fmt.Errorf("%w: %w", ErrNoHome, err)
	}
	return x, nil
}

// open makes one attempt to open a session.
func (s *Service) open(c *listen.Conn, door string, a *signin.Account, m *Moved, node Node,
	mates bus.Bus) (*Session, error) {
	place := node.Open
	if m != nil {
		place = node.Where // the database has just moved: do not move it again for balance
	}
	p, err := place(c.Context(), a.Database)
	if err != nil {
		return nil, err
	}
	if p.Self {
		return s.here(node, a.Database), nil
	}
	h := hello{Door: door, Person: a.Who.Person.String(), Credential: a.Credential, Moved: m != nil}
	h.Deflates, h.Deflated = true, c.Compressed()
	if at, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		h.Client = at.AddrPort()
	}
	header, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	x := &Session{s: s, movable: true}
	x.stream, err = mates.Stream(c.Context(), p.Server, verbMovable, header)
	if bus.Code(err) == bus.CodeNoVerb && m == nil { // an older version
		x.movable = false
		x.stream, err = mates.Stream(c.Context(), p.Server, verb, header)
	}
	if err == nil {
		err = x.welcomed(m)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.Name, err)
	}
	s.out.Inc()
	return x, nil
}

// welcomed waits until the home has accepted the session, then sends it the state from which the session continues.
func (x *Session) welcomed(m *Moved) error {
	var one [1]byte
	_, err := io.ReadFull(x.stream, one[:]) // the error is the other server's rejection or a lost connection
	if err == nil && m != nil {
		err = sendState(x.stream, m.State)
	}
	if err == nil {
		err = x.stream.SetDeadline(time.Time{})
	}
	if err != nil {
		err = errors.Join(err, x.stream.Close())
	}
	return err
}
