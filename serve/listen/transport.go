package listen

import (
	"crypto/tls"
	"io"
	"net"
	"syscall"
)

// transport is a socket with the layers on it, TLS and compression, and the input that was read from them.
type transport struct {
	net.Conn // the topmost layer
	input

	raw     syscall.RawConn // tries a read before taking a buffer; nil under TLS and compression
	tryFD   func(fd uintptr) bool
	readN   int // result of tryFD
	readErr error
	secure  *tls.Conn
	under   *tlsSocket // the socket under secure
}

// Secure reports whether the connection uses TLS.
func (t *transport) Secure() bool { return t.secure != nil }

// TLSState returns the state of the TLS connection; ok is false without TLS.
func (t *transport) TLSState() (state tls.ConnectionState, ok bool) {
	if t.secure == nil {
		return state, false
	}
	return t.secure.ConnectionState(), true
}

// Compressed reports whether the connection is compressed.
func (t *transport) Compressed() bool { return t.packed() != nil }

func (t *transport) packed() *deflated {
	d, _ := t.Conn.(*deflated)
	return d
}

// fill reads once into the buffer. It allocates a buffer only when there is input.
func (t *transport) fill() error {
	if err := t.room(); err != nil {
		return err
	}
	if t.tryFD != nil {
		return t.fillRaw()
	}
	if t.in != nil {
		n, err := t.Conn.Read(t.in.b[t.w:])
		return t.filled(n, err)
	}
	return t.fillOne()
}

// fillOne is fill without a buffer, for a connection with layers: it reads one byte, so that a buffer is needed only
// when there is input.
func (t *transport) fillOne() error {
	var one [1]byte
	n, err := t.Conn.Read(one[:])
	if n == 1 {
		t.in = getBuffer()
		t.in.b[0] = one[0]
	}
	return t.filled(n, err)
}

func (t *transport) filled(n int, err error) error {
	if n > 0 {
		t.w += n
		return nil
	}
	if err == nil {
		return io.ErrNoProgress
	}
	return err
}
