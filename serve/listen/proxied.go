package listen

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	"doublet/wire/proxy"
)

// headerTime is the timeout for a proxy to send the PROXY header.
const headerTime = 10 * time.Second

// fromAny reports whether a connection comes from one of the networks.
func fromAny(nc net.Conn, networks []netip.Prefix) bool {
	if len(networks) == 0 {
		return false
	}
	a, ok := nc.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return false
	}
	from := a.AddrPort().Addr().Unmap().WithZone("")
	for _, p := range networks {
		if p.Contains(from) {
			return true
		}
	}
	return false
}

// announced serves a connection that begins with a PROXY header. It closes a connection without one, because the
// client's input would be attributed to the balancer itself. A relay (web proxy) may omit the header and speak the
// door's protocol for its clients.
func (s *Server) announced(nc net.Conn, d *Door, relay bool) {
	defer s.pending.Add(-1)
	h, read, err := s.readHeader(nc)
	if relay && errors.Is(err, proxy.ErrNone) {
		s.inc("Server.Listen.Proxy.Relays", 1)
		s.take(&begun{Conn: nc, first: read}, d, netip.AddrPort{})
		return
	}
	if err != nil {
		s.inc("Server.Listen.Proxy.Errors", 1)
		s.env.Log.Warn("proxy rejected", "door", d.Name, "proxy", nc.RemoteAddr().String(), "error", err)
		_ = nc.Close()
		return
	}
	s.inc("Server.Listen.Proxy.Connections", 1)
	s.take(nc, d, h.Source)
}

// readHeader reads the header and not a byte more, because TLS may follow. If there is no header, it returns the bytes
// in read.
func (s *Server) readHeader(nc net.Conn) (h proxy.Header, read []byte, err error) {
	if err := nc.SetReadDeadline(s.env.Clock.Now().Add(headerTime)); err != nil {
		return h, nil, err
	}
	b := make([]byte, proxy.MinSize, 256)
	for n, need := 0, proxy.MinSize; need > 0; {
		if _, err := io.ReadFull(nc, b[n:]); err != nil {
			return h, nil, err
		}
		n = len(b)
		if h, need, err = proxy.Parse(b); err != nil {
			return h, b, errors.Join(err, nc.SetReadDeadline(time.Time{}))
		}
		b = append(b, make([]byte, need)...)
	}
	return h, nil, nc.SetReadDeadline(time.Time{})
}

// begun is a connection whose first bytes were already read.
type begun struct {
	net.Conn
	first []byte
}

// Read implements io.Reader.
func (b *begun) Read(p []byte) (int, error) {
	if len(b.first) == 0 {
		return b.Conn.Read(p)
	}
	n := copy(p, b.first)
	b.first = b.first[n:]
	return n, nil
}

// SetWriteBuffer limits the system's buffer for a client that does not read, if the socket supports it.
func (b *begun) SetWriteBuffer(bytes int) error { return setWriteBuffer(b.Conn, bytes) }

func setWriteBuffer(c net.Conn, bytes int) error {
	if s, ok := c.(interface{ SetWriteBuffer(bytes int) error }); ok {
		return s.SetWriteBuffer(bytes)
	}
	return nil
}

// take runs a session in a new goroutine, or rejects the connection. client is the address that a proxy named, or zero.
func (s *Server) take(nc net.Conn, d *Door, client netip.AddrPort) {
	if c, err := s.admit(nc, d, client); err == nil {
		s.env.Go(d.Name, func() { s.run(c) })
	} else {
		s.refuse(nc, d, err)
	}
}

// arrive handles an accepted connection.
func (s *Server) arrive(nc net.Conn, d *Door) {
	relay := fromAny(nc, d.Relays)
	if !relay && !fromAny(nc, s.opts.Load().Proxies) {
		s.take(nc, d, netip.AddrPort{})
		return
	}
	if s.pending.Add(1) > int64(s.opts.Load().MaxConns) {
		s.pending.Add(-1)
		s.refuse(nc, d, errFull)
		return
	}
	s.env.Go(d.Name, func() { s.announced(nc, d, relay) })
}

// RemoteAddr returns the client's address: the one that a proxy named, otherwise the socket's.
func (c *Conn) RemoteAddr() net.Addr {
	if c.named.IsValid() {
		return net.TCPAddrFromAddrPort(c.named)
	}
	return c.socket.RemoteAddr()
}

// passing is a door whose sessions other code runs.
type passing struct {
	*Listener
	conns  chan net.Conn
	closed chan struct{}
	once   func()
}

// passed is a connection given to other code. Closing it ends its session here; no goroutine waits for that.
type passed struct {
	net.Conn
	c     *Conn
	leave func() // once
}

// Listen opens d for other code that runs the sessions, such as net/http. Connections are counted and rejected as at
// every door, and have the address that a proxy named. d.TLS and d.Serve are not used.
func (s *Server) Listen(d Door) (net.Listener, error) {
	p := &passing{conns: make(chan net.Conn), closed: make(chan struct{})}
	p.once = sync.OnceFunc(func() { close(p.closed) })
	d.TLS, d.Implicit = nil, false
	d.pass = func(c *Conn) {
		w := &passed{c.socket, c, sync.OnceFunc(func() { s.leave(c) })}
		select {
		case p.conns <- w:
		case <-p.closed:
			w.leave()
		}
	}
	l, err := s.Open(d)
	if err != nil {
		return nil, err
	}
	p.Listener = l
	return p, nil
}

// Accept implements net.Listener.
func (p *passing) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (p *passing) Close() error {
	p.once()
	if err := p.Listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}

// RemoteAddr implements net.Conn. A loopback address from a proxy is replaced, so that the client is not taken for one
// on this machine.
func (p *passed) RemoteAddr() net.Addr {
	if a := p.c.named; a.IsValid() && a.Addr().Unmap().IsLoopback() {
		return net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.IPv4Unspecified(), a.Port()))
	}
	return p.c.RemoteAddr()
}

// SetWriteBuffer limits the system's buffer for a client that does not read, if the socket supports it.
func (p *passed) SetWriteBuffer(bytes int) error { return setWriteBuffer(p.Conn, bytes) }

// Close implements net.Conn.
func (p *passed) Close() error {
	err := p.Conn.Close()
	p.leave()
	return err
}
