// Package listen implements the protocol-independent part of every door (protocol listener). It accepts connections
// within limits, adds TLS, runs each session in its own goroutine, and shuts down gracefully.
//
// A session is a function that gets a *Conn. It waits for a command with Conn.Await, which holds no buffer while it
// waits, and returns when the server shuts down. Everything between two Awaits is one command. A shutdown lets a
// running command finish.
package listen

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"doublet/env"
	"doublet/stat/cpu"
)

// Stats receives counter increments by name. It may be nil.
type Stats interface {
	Inc(name string, n int64)
}

// ErrShutdown reports that the server is shutting down and opens no more doors.
var ErrShutdown = errors.New("listen: server is shutting down")

// Options are the limits over all doors. A zero field selects the default.
type Options struct {
	// MaxConns is the maximum number of connections over all doors (default 50,000).
	MaxConns int
	// MaxPerAddress is the maximum number of connections of one client: an IPv4 address or an IPv6 /64 (default 200).
	// Loopback and Unix sockets are not counted.
	MaxPerAddress int
	// MaxPerPerson is the maximum number of connections on which one person is signed in. MaxUsers is the maximum
	// number of people signed in. 0 is no limit.
	MaxPerPerson, MaxUsers int
	// MaxRunning is the maximum number of sessions that work on a command at the same time. Others wait. 0 is no limit.
	MaxRunning int
	// Observe, if set, is called for each command with the time that the server worked on it. The time includes the
	// wait for a slot, but not waits for the client.
	Observe func(door string, took time.Duration)
	// Proxies are the networks of load balancers. Connections from them must begin with a PROXY protocol header.
	Proxies []netip.Prefix
	// MaxCompressed is the maximum number of connections with DEFLATE (default 5,000). A waiting one keeps a window of
	// at most 32 KB.
	MaxCompressed int
	// HandshakeTimeout is the timeout for a TLS handshake (default 30 s).
	HandshakeTimeout time.Duration
	// WriteTimeout is the timeout for the peer to accept a reply (default 5 min).
	WriteTimeout time.Duration
}

// Door describes a listening socket and the sessions of its connections.
type Door struct {
	// Name is the door's name in logs and statistics: "SMTP", "IMAPS".
	Name string
	// Network is tcp, tcp4, tcp6 or unix. Address is as for net.Listen. A Unix socket is created with mode 0600 and
	// replaces a stale one.
	Network, Address string
	// TLS is the configuration for STARTTLS, or for TLS from the first byte if Implicit is set.
	TLS      *tls.Config
	Implicit bool
	// MaxConns is the maximum number of connections at this door; 0 means Options.MaxConns.
	MaxConns int
	// Busy is sent once, in the clear, to a client that exceeds a limit. An implicit TLS door sends nothing.
	Busy string
	// Relays are the networks of web proxies, which may speak the door's protocol for their clients without a PROXY
	// header. A header is accepted too. Connections without one do not count as one client's.
	Relays []netip.Prefix
	// Serve runs one session in its own goroutine. When it returns, the remaining output is flushed and the connection
	// is closed. A panic ends this session only.
	Serve func(*Conn)
	// pass runs instead of Serve where other code has the session, which ends when that code closes the connection.
	pass func(*Conn)
}

// Server holds the open doors and their connections.
type Server struct {
	env     *env.Env
	opts    atomic.Pointer[Options]
	stats   Stats
	ctx     context.Context
	cancel  context.CancelFunc
	closing chan struct{}
	drained chan struct{}

	mu        sync.Mutex
	down      bool
	doors     map[*Listener]struct{}
	conns     map[*Conn]struct{}
	perClient map[netip.Addr]int
	perDoor   map[*Door]int
	perPerson map[[16]byte]int
	peakUsers int // the maximum of len(perPerson) so far
	// passed is the number of connections whose sessions other code runs, peakPassed its maximum so far.
	passed, peakPassed int

	gate       *gate
	compressed atomic.Int64 // connections under DEFLATE
	pending    atomic.Int64 // connections whose PROXY header has not arrived yet
}

// New returns a Server without doors. stats may be nil.
func New(e *env.Env, o Options, stats Stats) *Server {
	s := &Server{
		env: e, stats: stats,
		closing: make(chan struct{}), drained: make(chan struct{}),
		doors: map[*Listener]struct{}{}, conns: map[*Conn]struct{}{}, perClient: map[netip.Addr]int{},
		perDoor: map[*Door]int{}, perPerson: map[[16]byte]int{}, gate: newGate(o.MaxRunning),
	}
	s.opts.Store(o.withDefaults())
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// Limit replaces the limits for new connections and new sign-ins. Existing ones stay. MaxRunning and Observe do not
// change.
func (s *Server) Limit(o Options) {
	before := s.opts.Load()
	o.MaxRunning, o.Observe = before.MaxRunning, before.Observe
	s.opts.Store(o.withDefaults())
}

// MaxConns returns the limit of connections over all doors.
func (s *Server) MaxConns() int { return s.opts.Load().MaxConns }

// withDefaults returns the options with defaults for zero fields.
func (o Options) withDefaults() *Options {
	o.MaxConns = cmp.Or(max(o.MaxConns, 0), 50_000)
	o.MaxPerAddress = cmp.Or(max(o.MaxPerAddress, 0), 200)
	o.MaxCompressed = cmp.Or(o.MaxCompressed, 5000)
	o.HandshakeTimeout = cmp.Or(max(o.HandshakeTimeout, 0), 30*time.Second)
	o.WriteTimeout = cmp.Or(max(o.WriteTimeout, 0), 5*time.Minute)
	return &o
}

// Listener is an open door.
type Listener struct {
	net.Listener
	server *Server
	door   *Door
}

// Close stops accepting connections at this door. Its sessions continue.
func (l *Listener) Close() error {
	l.server.mu.Lock()
	delete(l.server.doors, l)
	l.server.mu.Unlock()
	return l.Listener.Close()
}

// Open listens at d and serves connections until Shutdown or Listener.Close.
func (s *Server) Open(d Door) (*Listener, error) {
	if d.Implicit && d.TLS == nil {
		return nil, fmt.Errorf("listen: door %s: implicit TLS without a configuration", d.Name)
	}
	nl, err := s.bind(d.Network, d.Address)
	if err != nil {
		return nil, fmt.Errorf("listen: door %s: %w", d.Name, err)
	}
	d.TLS = remembering(d.TLS)
	l := &Listener{Listener: nl, server: s, door: &d}
	s.mu.Lock()
	if s.down {
		s.mu.Unlock()
		return nil, errors.Join(ErrShutdown, nl.Close())
	}
	s.doors[l] = struct{}{}
	s.mu.Unlock()
	s.env.Go("listen "+d.Name, func() { s.accept(l) })
	return l, nil
}

// bind listens at an address. It first removes a Unix socket that a dead server left. It leaves a socket alone that
// still answers, because it belongs to a running server.
func (s *Server) bind(network, address string) (net.Listener, error) {
	if network != "unix" {
		return s.env.Listen(network, address)
	}
	l, err := s.env.Listen(network, address)
	if err != nil {
		c, dialErr := s.env.Dial(network, address, time.Second)
		if dialErr == nil {
			return nil, errors.Join(err, c.Close())
		}
		if s.env.FS.Remove(address) != nil {
			return nil, err
		}
		if l, err = s.env.Listen(network, address); err != nil {
			return nil, err
		}
	}
	if err := restrict(address); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func (s *Server) accept(l *Listener) {
	cpu.Label(l.door.Name) // sessions inherit it
	wait := time.Duration(0)
	for {
		nc, err := l.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) || s.isClosing() {
				return
			}
			// The process has no more file descriptors, or the client has disconnected: keep the door open.
			wait = min(max(2*wait, 5*time.Millisecond), time.Second)
			s.env.Log.Warn("accept failed", "door", l.door.Name, "err", err)
			s.inc("Server.Listen.AcceptErrors", 1)
			select {
			case <-s.env.Clock.After(wait):
			case <-s.closing:
			}
			continue
		}
		wait = 0
		s.arrive(nc, l.door)
	}
}

var (
	errFull       = errors.New("listen: too many connections")
	errClientFull = errors.New("listen: too many connections of one client")
)

// admit counts a new connection, or returns the reason for its rejection. client is the address that a proxy named, or
// zero.
func (s *Server) admit(nc net.Conn, d *Door, client netip.AddrPort) (*Conn, error) {
	c := newConn(s, nc, d)
	_, c.relay = nc.(*begun)
	if client.IsValid() {
		c.named, c.remote = client, client.Addr()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	limit := s.opts.Load().MaxConns
	if d.MaxConns > 0 {
		limit = d.MaxConns
	}
	switch {
	case s.down:
		return nil, ErrShutdown
	case len(s.conns) >= s.opts.Load().MaxConns || s.perDoor[d] >= limit:
		return nil, errFull
	}
	if key, counted := c.clientKey(); counted {
		if s.perClient[key] >= s.opts.Load().MaxPerAddress {
			return nil, errClientFull
		}
		s.perClient[key]++
	}
	s.conns[c] = struct{}{}
	s.perDoor[d]++
	if d.pass != nil {
		s.passed++
		s.peakPassed = max(s.peakPassed, s.passed)
	}
	return c, nil
}

func (s *Server) refuse(nc net.Conn, d *Door, why error) {
	switch {
	case errors.Is(why, errFull):
		s.inc("Server.Listen.Refused.Full", 1)
	case errors.Is(why, errClientFull):
		s.inc("Server.Listen.Refused.Client", 1)
	}
	if d.Busy != "" && !d.Implicit {
		// A new TCP socket accepts one short line without blocking. The deadline is for other kinds of connections.
		_ = nc.SetWriteDeadline(s.env.Clock.Now().Add(100 * time.Millisecond))
		_, _ = nc.Write([]byte(d.Busy))
	}
	_ = nc.Close()
}

// ServeConn runs a session on nc as if d had accepted it, and returns when the session has ended.
func (s *Server) ServeConn(nc net.Conn, d *Door) error {
	c, err := s.admit(nc, d, netip.AddrPort{})
	if err != nil {
		s.refuse(nc, d, err)
		return err
	}
	s.run(c)
	return nil
}

func (s *Server) run(c *Conn) {
	if c.door.pass != nil {
		c.door.pass(c)
		return
	}
	defer s.leave(c)
	defer func() {
		if r := recover(); r != nil {
			s.inc("Server.Listen.Panics", 1)
			s.env.Log.Error("session panicked", "door", c.door.Name, "remote", c.RemoteAddr().String(),
				"panic", r, "stack", string(debug.Stack()))
			_ = c.Flush() // sends the replies to earlier commands
		}
	}()
	if c.door.Implicit {
		if err := c.StartTLS(); err != nil {
			s.inc("Server.Listen.HandshakeErrors", 1)
			return
		}
	}
	c.door.Serve(c)
	_ = c.Flush()
}

func (s *Server) leave(c *Conn) {
	_ = c.Close()
	c.rest()
	c.dropBuffers()
	c.uncompressed()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(c)
	delete(s.conns, c)
	if c.door.pass != nil {
		s.passed--
	}
	if s.perDoor[c.door]--; s.perDoor[c.door] <= 0 {
		delete(s.perDoor, c.door)
	}
	if key, counted := c.clientKey(); counted {
		if s.perClient[key]--; s.perClient[key] <= 0 {
			delete(s.perClient, key)
		}
	}
	if s.down && len(s.conns) == 0 {
		close(s.drained)
	}
}

// Conns returns the current number of connections.
func (s *Server) Conns() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// Shutdown stops accepting connections and wakes every session that waits for a command (its Await returns ErrClosing).
// It lets the others finish their command, and returns when all sessions have ended. If ctx ends first, it cancels
// Conn.Context, closes the remaining connections and returns ctx's error.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	if !s.down {
		s.down = true
		close(s.closing)
		if len(s.conns) == 0 {
			close(s.drained)
		}
	}
	conns := make([]*Conn, 0, len(s.conns))
	for c := range s.conns {
		conns = append(conns, c)
	}
	doors := make([]*Listener, 0, len(s.doors))
	for l := range s.doors {
		doors = append(doors, l)
	}
	s.mu.Unlock()
	for _, l := range doors {
		_ = l.Close()
	}
	for _, c := range conns {
		c.interruptForClose()
	}
	defer s.cancel()
	select {
	case <-s.drained:
		return nil
	case <-ctx.Done():
	}
	cut := s.Conns()
	s.cancel()
	for _, c := range conns {
		_ = c.abort()
	}
	return fmt.Errorf("listen: shutdown cut %d sessions: %w", cut, ctx.Err())
}

func (s *Server) isClosing() bool {
	select {
	case <-s.closing:
		return true
	default:
		return false
	}
}

func (s *Server) inc(name string, n int64) {
	if s.stats != nil {
		s.stats.Inc(name, n)
	}
}
