// Package direct manages the direct connections between servers of a cluster: links and streams. Links authenticate
// both sides, carry probes, and supply the keys for messages that travel over NATS. One address accepts links, streams
// and joining servers. Both sides authenticate with certificates of the cluster over TLS 1.3; connections from
// non-members are rejected with an error.
package direct

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"doublet/bus"
	"doublet/bus/pki"
	"doublet/env"
	"doublet/stat"
)

// protocol is the ALPN name of links and streams.
const protocol = "doublet-bus/1"

// Options configures a Port; zero fields take the defaults.
type Options struct {
	// Listen is the address to listen at, host:port.
	Listen   string
	Identity *pki.Folder
	// Instance identifies this process, so that two processes with one certificate can be told apart.
	Instance uint64
	// Grant limits the requests in flight from one mate to this server.
	Grant bus.Grant
	// Heartbeat is the interval between probes of a link (default 1 s). Silence is the time without a sign of life
	// after which a link is closed (default 3 s).
	Heartbeat, Silence time.Duration
	// Streams is the maximum number of open streams from one mate (default 256). Handshakes is the maximum number of
	// connections in a handshake (default 64).
	Streams, Handshakes int
	// Dial is the timeout for connecting (default 3 s).
	Dial time.Duration
	// Up is called with each link, of either direction, before it is used; Down is called when it has ended.
	Up, Down func(*Link)
	// Stream returns the handler of a verb.
	Stream func(verb string) bus.StreamHandler
	// Admit answers joining servers; nil if this server cannot admit any.
	Admit pki.Admit
	Stats *stat.Tree
}

const (
	idlePooled = 4                // idle stream connections kept per mate
	idleTime   = 20 * time.Second // time for which they are kept
	redial     = 300 * time.Millisecond
	joins      = 4 // maximum concurrent joins
)

// Port is a server's direct address and the connections of its members.
type Port struct {
	env      *env.Env
	o        Options
	listener net.Listener
	ctx      context.Context
	stop     context.CancelFunc
	running  sync.WaitGroup
	shaking  chan struct{} // limits concurrent handshakes
	joining  chan struct{}
	stats    statistics
	quiet    *bus.Quiet
	config   *tls.Config            // shared, because it holds the ticket keys for TLS session resumption
	sessions tls.ClientSessionCache // of streams only: links always authenticate with a full handshake

	mu      sync.Mutex
	members map[bus.ServerID]*peer
	conns   map[net.Conn]bus.ServerID // all connections, for Close; zero ID until authenticated
	closed  bool
}

// peer is a member and its connections.
type peer struct {
	id bus.ServerID
	// Port.mu protects the following fields.
	bus.Member
	out     *Link
	in      map[*Link]bool
	dialing chan struct{} // closed when the current attempt has ended
	failed  error         // error of the last attempt
	when    time.Time     // time of the last attempt
	idle    []*idleConn
	streams int // streams that it has open to this server
}

type idleConn struct {
	conn  net.Conn
	r     *bufio.Reader
	since time.Time
}

type statistics struct {
	links, streams, refused, joined *stat.Counter
}

// Open starts to listen. Until SetMembers there are no members.
func Open(e *env.Env, o Options) (*Port, error) {
	for _, d := range []struct {
		v   *time.Duration
		def time.Duration
	}{{&o.Heartbeat, time.Second}, {&o.Silence, 3 * time.Second}, {&o.Dial, 3 * time.Second}} {
		if *d.v <= 0 {
			*d.v = d.def
		}
	}
	if o.Grant.Requests <= 0 {
		o.Grant = bus.DefaultGrant
	}
	if o.Streams <= 0 {
		o.Streams = 256
	}
	if o.Handshakes <= 0 {
		o.Handshakes = 64
	}
	p := &Port{
		env: e, o: o, members: map[bus.ServerID]*peer{}, conns: map[net.Conn]bus.ServerID{},
		quiet: bus.NewQuiet(e.Clock), shaking: make(chan struct{}, o.Handshakes), joining: make(chan struct{}, joins),
		sessions: tls.NewLRUClientSessionCache(64),
		stats: statistics{
			links:   o.Stats.Counter("Bus.Links", "Links with mates that were made"),
			streams: o.Stats.Counter("Bus.Streams", "Streams that mates opened here"),
			refused: o.Stats.Counter("Bus.Refused",
				"Connections and messages refused: of no member, out of time, of another cluster"),
			joined: o.Stats.Counter("Bus.Joined", "Servers that joined the cluster here"),
		},
	}
	p.config = p.serverConfig()
	var err error
	if p.listener, err = e.Listen("tcp", o.Listen); err != nil {
		return nil, fmt.Errorf("cluster address: %w", err)
	}
	p.ctx, p.stop = context.WithCancel(context.Background())
	p.spawn("bus accept", p.accept)
	return p, nil
}

// Addr returns the address of the listener.
func (p *Port) Addr() net.Addr { return p.listener.Addr() }

// spawn runs f in a goroutine that Close waits for.
func (p *Port) spawn(name string, f func()) {
	p.running.Add(1)
	p.env.Go(name, func() {
		defer p.running.Done()
		f()
	})
}

// Close closes all connections and waits for their goroutines.
func (p *Port) Close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.stop()
	err := p.listener.Close()
	p.mu.Lock()
	for c := range p.conns {
		c.Close()
	}
	p.mu.Unlock()
	p.running.Wait()
	return err
}

// SetMembers sets the other members. Servers that are no longer in the list, or have another key, are disconnected.
func (p *Port) SetMembers(members []bus.Member) {
	p.mu.Lock()
	defer p.mu.Unlock()
	keep := map[bus.ServerID]*peer{}
	for _, m := range members {
		have := p.members[m.ID]
		if have == nil || have.Key != m.Key {
			have = &peer{id: m.ID, in: map[*Link]bool{}}
		} else if have.Direct != m.Direct {
			have.failed = nil // the attempt used another address
		}
		have.Member = m
		keep[m.ID] = have
	}
	for id, old := range p.members {
		if keep[id] != old {
			p.cutLocked(id, old)
		}
	}
	p.members = keep
}

// cutLocked closes all connections with a peer. The caller holds mu.
func (p *Port) cutLocked(id bus.ServerID, old *peer) {
	if old.out != nil {
		old.out.fail(errNoMember)
	}
	for l := range old.in {
		l.fail(errNoMember)
	}
	for c, of := range p.conns {
		if of == id {
			c.Close()
		}
	}
}

// cutStreams closes the streams with a server that gives no sign of life.
func (p *Port) cutStreams(id bus.ServerID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c, of := range p.conns {
		if of == id {
			c.Close()
		}
	}
}

var errNoMember = errors.New("server is no longer a member")

// Links returns the links with a server, the outgoing one first. failed is the error of the last attempt to connect.
func (p *Port) Links(id bus.ServerID) (all []*Link, failed error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.members[id]
	if m == nil {
		return nil, nil
	}
	if m.out != nil {
		all = append(all, m.out)
	}
	for l := range m.in {
		all = append(all, l)
	}
	return all, m.failed
}

// Reach starts to open a link to a server that has none. It does not wait.
func (p *Port) Reach(id bus.ServerID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m := p.members[id]; m != nil && m.out == nil && m.dialing == nil && !p.closed {
		p.dialLocked(m)
	}
}

// dialLocked starts an attempt to open a link. The attempt continues if the caller gives up, because others may wait
// for it too. The caller holds mu.
func (p *Port) dialLocked(m *peer) {
	m.dialing = make(chan struct{})
	done := m.dialing
	p.spawn("bus link", func() { p.connect(m, done) })
}

// Link returns the link to a server, and opens it if necessary. Errors match ErrNoServer.
func (p *Port) Link(ctx context.Context, id bus.ServerID) (*Link, error) {
	for {
		p.mu.Lock()
		m := p.members[id]
		switch {
		case p.closed:
			p.mu.Unlock()
			return nil, bus.ErrClosed
		case m == nil:
			p.mu.Unlock()
			return nil, fmt.Errorf("%w: %s is no member", bus.ErrNoServer, id)
		case m.out != nil:
			defer p.mu.Unlock()
			return m.out, nil
		case m.failed != nil && p.env.Clock.Now().Sub(m.when) < redial:
			defer p.mu.Unlock()
			return nil, m.failed
		}
		if m.dialing == nil {
			p.dialLocked(m)
		}
		name, wait := m.Name, m.dialing
		p.mu.Unlock()
		select {
		case <-wait:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %s: %w", bus.ErrNoServer, name, ctx.Err())
		case <-p.ctx.Done():
			return nil, bus.ErrClosed
		}
	}
}

// connect makes one attempt to open a link.
func (p *Port) connect(m *peer, done chan struct{}) {
	ctx, cancel := context.WithTimeout(p.ctx, p.o.Dial)
	defer cancel()
	p.mu.Lock()
	to := m.Member
	p.mu.Unlock()
	l, err := p.link(ctx, to)
	p.mu.Lock()
	defer p.mu.Unlock()
	defer close(done)
	m.dialing, m.failed, m.when = nil, nil, p.env.Clock.Now()
	if err != nil {
		m.failed = fmt.Errorf("%w: %s at %s: %w", bus.ErrNoServer, to.Name, to.Direct, err)
		return
	}
	if p.members[to.ID] != m || p.closed {
		l.fail(errNoMember)
	}
	p.o.Up(l)
	m.out = l
	p.stats.links.Inc()
	p.spawn("bus link read", func() { p.keep(m, l) })
	p.spawn("bus link heartbeat", func() { l.beat(p.ctx, p.o.Heartbeat) })
}

// keep reads a link until it ends, then removes it.
func (p *Port) keep(m *peer, l *Link) {
	err := l.read()
	l.fail(err)
	p.mu.Lock()
	if m.out == l {
		m.out = nil
	}
	p.mu.Unlock()
	p.o.Down(l)
	p.forget(l.conn)
	if errors.Is(l.Err(), errSilent) {
		p.cutStreams(l.Peer.ID)
	}
	p.env.Log.Info("link to a mate ended", "mate", l.Peer.Name, "id", l.Peer.ID.String(), "error", l.Err())
}

// dial connects to a member and checks its identity.
func (p *Port) dial(ctx context.Context, m bus.Member,
	sessions tls.ClientSessionCache) (net.Conn, *bufio.Reader, pki.Identity, error) {
	type dialled struct {
		conn net.Conn
		err  error
	}
	got := make(chan dialled, 1)
	p.spawn("bus dial", func() {
		c, err := p.env.Dial("tcp", m.Direct, p.o.Dial)
		if err == nil && !p.track(c, m.ID) {
			c.Close()
			err = bus.ErrClosed
		}
		got <- dialled{c, err}
	})
	var d dialled
	select {
	case d = <-got:
	case <-ctx.Done():
		p.spawn("bus dial", func() {
			if late := <-got; late.err == nil {
				p.forget(late.conn)
			}
		})
		return nil, nil, pki.Identity{}, ctx.Err()
	}
	if d.err != nil {
		return nil, nil, pki.Identity{}, d.err
	}
	config := p.o.Identity.Client(protocol)
	config.ClientSessionCache = sessions
	conn := tls.Client(d.conn, config)
	who, err := pki.Identity{}, conn.HandshakeContext(ctx)
	if err == nil {
		who, err = p.o.Identity.Peer(conn.ConnectionState())
	}
	if err == nil {
		err = isMember(who, m)
	}
	if err != nil {
		p.forget(d.conn)
		return nil, nil, who, pki.Explain(err)
	}
	return tracked{conn, d.conn}, bufio.NewReader(conn), who, nil
}

// tracked is a TLS connection with its socket, which is the key in Port.conns.
type tracked struct {
	*tls.Conn
	socket net.Conn
}

// isMember checks the identity of a connection against the expected member.
func isMember(who pki.Identity, m bus.Member) error {
	switch {
	case who.ID != m.ID:
		return fmt.Errorf("another server, %s (%s), answers at that address", who.ID, who.Name)
	case who.Key != m.Key:
		return fmt.Errorf("certificate key of server %s differs from its server document", who.ID)
	}
	return nil
}

// track records a connection, so that Close and cutLocked find it. It returns false if the port is closed.
func (p *Port) track(c net.Conn, id bus.ServerID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.conns[c] = id
	return true
}

// forget closes a connection and removes its record.
func (p *Port) forget(c net.Conn) {
	if t, ok := c.(tracked); ok {
		c = t.socket
	}
	c.Close()
	p.mu.Lock()
	delete(p.conns, c)
	p.mu.Unlock()
}

// pooled returns an idle connection for a stream, or nil.
func (p *Port) pooled(m *peer) *idleConn {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.env.Clock.Now()
	for len(m.idle) > 0 {
		last := m.idle[len(m.idle)-1]
		m.idle = m.idle[:len(m.idle)-1]
		if now.Sub(last.since) < idleTime {
			return last
		}
		p.dropLocked(last.conn)
	}
	return nil
}

// pool keeps a connection whose stream ended cleanly for another stream.
func (p *Port) pool(m *peer, conn net.Conn, r *bufio.Reader) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.members[m.id] != m || len(m.idle) >= idlePooled {
		p.dropLocked(conn)
		return
	}
	now := p.env.Clock.Now()
	m.idle = slices.DeleteFunc(m.idle, func(i *idleConn) bool {
		old := now.Sub(i.since) >= idleTime
		if old {
			p.dropLocked(i.conn)
		}
		return old
	})
	m.idle = append(m.idle, &idleConn{conn, r, now})
}

func (p *Port) dropLocked(c net.Conn) {
	if t, ok := c.(tracked); ok {
		c = t.socket
	}
	c.Close()
	delete(p.conns, c)
}
