package listen

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"
)

// Reasons for Await to return without input.
var (
	// ErrClosing reports that the server is shutting down. Serve should say goodbye and return.
	ErrClosing = errors.New("listen: server is closing")
	// ErrWoken reports that Wake was called. No input is lost. The session should call Await again.
	ErrWoken = errors.New("listen: woken")
	// ErrTimeout reports that the peer sent nothing within the timeout.
	ErrTimeout = errors.New("listen: timed out")
)

// Conn is one connection. Only the session's goroutine may call its methods, except Wake, Closing, Context and Close,
// which any goroutine may call. Read, Write and the methods of input.go and output.go share the buffers. They hide Read
// and Write of the embedded net.Conn.
type Conn struct {
	net.Conn // the socket, or the TLS connection on it

	server *Server
	door   *Door
	raw    syscall.RawConn // tries a read before taking a buffer; nil under TLS
	tryFD  func(fd uintptr) bool
	secure *tls.Conn
	under  *tlsSocket // the socket under secure
	remote netip.Addr
	client netip.AddrPort // the client that a proxy named; zero without one
	relay  bool           // a web proxy's connection, with requests of many clients

	in          *buffer // nil while there is no input
	r, w        int     // in.b[r:w] is unread
	out         *buffer // nil while there is no output
	readN       int     // result of tryFD
	readErr     error
	readBy      time.Time // the armed deadlines
	writeBy     time.Time
	readTimeout time.Duration
	pace        pace // of the input since Await returned
	working     bool // see gate
	workedSince time.Time

	mu          sync.Mutex // guards the fields below
	idle        bool       // in Await
	woken       bool       // Wake was called and not yet answered
	interrupted bool       // the read deadline was moved into the past
	handshaking bool
	socket      net.Conn // never changes; abort closes it

	person [16]byte // the person signed in, if known; guarded by server.mu
	known  bool
}

func newConn(s *Server, nc net.Conn, d *Door) *Conn {
	c := &Conn{Conn: nc, socket: nc, server: s, door: d, readTimeout: 5 * time.Minute}
	switch a := nc.RemoteAddr().(type) {
	case *net.TCPAddr:
		c.remote = a.AddrPort().Addr().Unmap()
	case interface{ AddrPort() netip.AddrPort }:
		c.remote = a.AddrPort().Addr().Unmap()
	}
	c.initRaw(nc)
	return c
}

// Door returns the door that accepted the connection.
func (c *Conn) Door() *Door { return c.door }

// Context returns a context that is canceled when the time for a graceful shutdown is over. Running commands should
// then stop.
func (c *Conn) Context() context.Context { return c.server.ctx }

// Closing returns a channel that is closed when the server begins to shut down.
func (c *Conn) Closing() <-chan struct{} { return c.server.closing }

// Now returns the time of the server's clock.
func (c *Conn) Now() time.Time { return c.server.env.Clock.Now() }

// RemoteIP returns the client's address, the zero Addr on a Unix socket.
func (c *Conn) RemoteIP() netip.Addr { return c.remote }

// Local reports whether the client is on this machine: on loopback or a Unix socket. A client that a proxy named is
// never local, whatever address the proxy gave.
func (c *Conn) Local() bool {
	if c.client.IsValid() {
		return false
	}
	if c.remote.IsValid() {
		return c.remote.IsLoopback()
	}
	_, unix := c.socket.RemoteAddr().(*net.UnixAddr)
	return unix
}

// Secure reports whether the connection uses TLS.
func (c *Conn) Secure() bool { return c.secure != nil }

// CanStartTLS reports whether the door has a TLS configuration and TLS is not active yet.
func (c *Conn) CanStartTLS() bool { return c.secure == nil && c.door.TLS != nil }

// TLSState returns the state of the TLS connection; ok is false without TLS.
func (c *Conn) TLSState() (state tls.ConnectionState, ok bool) {
	if c.secure == nil {
		return state, false
	}
	return c.secure.ConnectionState(), true
}

// StartTLS flushes the output and does the TLS handshake. It discards input that the client sent in the clear after the
// command, so that injected plaintext is never taken for protected input. After an error the connection is unusable.
func (c *Conn) StartTLS() error {
	if c.door.TLS == nil || c.secure != nil {
		return fmt.Errorf("listen: door %s: no TLS to start", c.door.Name)
	}
	if err := c.Flush(); err != nil {
		return err
	}
	c.DiscardInput()
	c.mu.Lock()
	if c.server.isClosing() {
		c.mu.Unlock()
		return ErrClosing
	}
	c.handshaking = true
	if c.rest() {
		defer c.work() // the handshake waits for the client
	}
	by := c.Now().Add(c.server.opts.Load().HandshakeTimeout)
	err := c.socket.SetDeadline(by)
	c.mu.Unlock()
	under := &tlsSocket{Conn: c.socket}
	t := tls.Server(under, c.door.TLS)
	if err == nil {
		err = t.Handshake()
	}
	c.mu.Lock()
	c.handshaking = false
	c.mu.Unlock()
	if err != nil {
		return fmt.Errorf("listen: TLS handshake: %w", err)
	}
	c.Conn, c.secure, c.under, c.raw, c.tryFD = t, t, under, nil, nil
	c.readBy, c.writeBy = time.Time{}, time.Time{}
	return c.socket.SetDeadline(time.Time{})
}

// Wake makes the session's current or next Await return ErrWoken, unless there is input. Any goroutine may call it, to
// notify a session that waits for its client.
func (c *Conn) Wake() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.woken = true
	c.interrupt()
}

// interrupt ends a waiting Await. It does not interrupt a read inside a command. The caller holds mu.
func (c *Conn) interrupt() {
	if c.idle && !c.interrupted {
		c.interrupted = true
		_ = c.socket.SetReadDeadline(time.Unix(1, 0))
	}
}

func (c *Conn) interruptForClose() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.handshaking {
		_ = c.socket.Close()
		return
	}
	c.interrupt()
}

// Aborter is a connection whose Close lets written data arrive. Abort closes it at once, and interrupts a Write.
type Aborter interface{ Abort() error }

// abort closes the socket at once. Any goroutine may call it.
func (c *Conn) abort() error {
	if a, ok := c.socket.(Aborter); ok {
		return a.Abort()
	}
	return c.socket.Close()
}

// clientKey returns the key under which connections of a client are counted, or false for clients on this machine and
// web proxies.
func (c *Conn) clientKey() (netip.Addr, bool) {
	if !c.remote.IsValid() || c.relay || c.remote.IsLoopback() && !c.client.IsValid() {
		return netip.Addr{}, false
	}
	if c.remote.Is6() {
		p, err := c.remote.WithZone("").Prefix(64)
		if err != nil {
			return c.remote, true
		}
		return p.Addr(), true
	}
	return c.remote, true
}

func isTimeout(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }
