package listen

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
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
// and Write of the transport.
type Conn struct {
	transport
	waiting
	client

	door        *Door
	out         *buffer   // nil while there is no output
	writeBy     time.Time // the armed write deadline
	pace        pace      // of the input since Await returned
	working     bool      // see gate
	workedSince time.Time

	person [16]byte // the person signed in, if known; guarded by server.mu
	known  bool
}

func newConn(s *Server, nc net.Conn, d *Door) *Conn {
	c := &Conn{transport: transport{Conn: nc}, door: d,
		waiting: waiting{server: s, socket: nc, readTimeout: 5 * time.Minute}}
	switch a := nc.RemoteAddr().(type) {
	case *net.UnixAddr:
		c.unix = true
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

// CanStartTLS reports whether the door has a TLS configuration and TLS is not active yet.
func (c *Conn) CanStartTLS() bool { return c.secure == nil && c.door.TLS != nil }

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
	under := newTLSSocket(c.socket)
	t := tls.Server(under, c.door.TLS)
	err := c.handshake(c.Now().Add(c.server.opts.Load().HandshakeTimeout), func() error {
		if c.rest() {
			defer c.work() // the handshake waits for the client
		}
		return t.Handshake()
	})
	if errors.Is(err, ErrClosing) {
		return err
	}
	if err != nil {
		return fmt.Errorf("listen: TLS handshake: %w", err)
	}
	c.transport = transport{Conn: t, secure: t, under: under}
	c.writeBy = time.Time{}
	return c.reset()
}

func isTimeout(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }
