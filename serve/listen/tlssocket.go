package listen

import (
	"crypto/tls"
	"errors"
	"net"
)

// tlsSocket is the socket under a TLS connection. It records the certificate that a handshake presented, because
// crypto/tls does not report it.
type tlsSocket struct {
	net.Conn
	shown *tls.Certificate
	// ahead has the input that awaitSecure received. Read returns it first. While peeking is set, Read does not wait
	// for more, and returns errNoInput.
	ahead   transport
	peeking bool
}

func newTLSSocket(nc net.Conn) *tlsSocket {
	s := &tlsSocket{Conn: nc}
	s.ahead.initRaw(nc)
	return s
}

// errNoInput is the error of a Read that would wait.
var errNoInput net.Error = noInput{}

// noInput is temporary, so that crypto/tls can continue after it.
type noInput struct{}

func (noInput) Error() string   { return "listen: no input yet" }
func (noInput) Timeout() bool   { return true }
func (noInput) Temporary() bool { return true }

// Read implements io.Reader.
func (s *tlsSocket) Read(p []byte) (int, error) {
	if b := s.ahead.Buffered(); len(b) > 0 {
		n := copy(p, b)
		if s.ahead.Discard(n); n == len(b) {
			s.ahead.DiscardInput()
		}
		return n, nil
	}
	if s.peeking {
		return 0, errNoInput
	}
	return s.Conn.Read(p)
}

// awaitSecure is fill for a TLS connection without buffered input, on a system with fillRaw. It waits for the socket,
// and not in crypto/tls, whose frames would double the stack of each waiting connection.
func (t *transport) awaitSecure() error {
	for {
		if err := t.peek(); !errors.Is(err, errNoInput) {
			return err
		}
		if err := t.under.ahead.fillRaw(); err != nil {
			return err
		}
	}
}

// peek reads the input that has arrived into the buffer. If there is none, it returns errNoInput and holds no buffer.
//
//go:noinline
func (t *transport) peek() error {
	b := getBuffer()
	t.under.peeking = true
	n, err := t.Conn.Read(b.b)
	t.under.peeking = false
	if n > 0 {
		t.in = b
	} else {
		putBuffer(b)
	}
	return t.filled(n, err)
}
