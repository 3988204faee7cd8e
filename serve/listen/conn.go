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

// Why Await returned without input.
var (
	// ErrClosing: the server shuts down. Say goodbye and return from Serve.
	ErrClosing = errors.New("listen: server is closing")
	// ErrWoken: Wake was called. Nothing of the input is lost; Await again.
	ErrWoken = errors.New("listen: woken")
	// ErrTimeout: the peer sent nothing in the time given.
	ErrTimeout = errors.New("listen: timed out")
)

// Conn is one connection. Its methods belong to the session's goroutine, Wake, Closing, Context,
// and Close aside, which anyone may call. Read, Write and the methods of input.go and output.go
// share the buffers; the embedded net.Conn's own Read and Write are hidden by them.
type Conn struct {
	net.Conn // the socket, or the TLS connection on it

	server *Server
	door   *Door
	raw    syscall.RawConn // where a read can be tried before a buffer is taken; nil under TLS
	tryFD  func(fd uintptr) bool
	secure *tls.Conn
	under  *tlsSocket // what secure stands on
	remote netip.Addr
	client netip.AddrPort // whom a proxy has named; zero: nobody has
	relay  bool           // a web proxy's, with requests of many clients

	in          *buffer // nil while there is no input
	r, w        int     // in.b[r:w] is unread
	out         *buffer // nil while there is no output
	readN       int     // result of tryFD
	readErr     error
	readBy      time.Time // the armed deadlines
	writeBy     time.Time
	readTimeout time.Duration
	pace        pace // of what began when Await returned
	working     bool // see gate
	workedSince time.Time

	mu          sync.Mutex // guards what follows
	idle        bool       // in Await
	woken       bool       // Wake was called and not yet answered
	interrupted bool       // the read deadline was moved into the past
	handshaking bool
	socket      net.Conn // never changes: what abort closes

	person [16]byte // who is signed in, if known; guarded by server.mu
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

// Door is the door that the client came through.
func (c *Conn) Door() *Door { return c.door }

// Context is cancelled when a shutdown ran out of patience: what a command is doing may stop.
func (c *Conn) Context() context.Context { return c.server.ctx }

// Closing is closed when the server begins to shut down.
func (c *Conn) Closing() <-chan struct{} { return c.server.closing }

// Now is the time of the server's clock.
func (c *Conn) Now() time.Time { return c.server.env.Clock.Now() }

// RemoteIP is the client's address; the zero Addr on a Unix socket.
func (c *Conn) RemoteIP() netip.Addr { return c.remote }

// Local says that the client is on this machine: loopback or a Unix socket. Whom a proxy names is not,
// whatever it says.
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

// Secure says that the connection is under TLS.
func (c *Conn) Secure() bool { return c.secure != nil }

// CanStartTLS says that StartTLS has a configuration to work with and TLS is not on yet.
func (c *Conn) CanStartTLS() bool { return c.secure == nil && c.door.TLS != nil }

// TLSState describes the TLS connection; ok is false without one.
func (c *Conn) TLSState() (state tls.ConnectionState, ok bool) {
	if c.secure == nil {
		return state, false
	}
	return c.secure.ConnectionState(), true
}

// StartTLS flushes, throws away what the client has sent in the clear beyond the command (so that
// nothing injected there is taken for protected), and does the handshake. After an error the
// connection is of no use.
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
		defer c.work() // while it was the client's turn
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

// Wake makes the session's Await, the running one or the next, return ErrWoken unless there is
// input. Any goroutine may call it: it is how a session that waits for its client is told news.
func (c *Conn) Wake() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.woken = true
	c.interrupt()
}

// interrupt ends a waiting read. Only while idle: a read inside a command goes on.
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

func (c *Conn) abort() error { return c.socket.Close() }

// clientKey is what connections are counted by; false for clients on this machine.
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
