//go:build unix

package listen

import (
	"io"
	"net"
	"os"
	"syscall"
)

// initRaw prepares reads that take a buffer only when the socket has input.
func (t *transport) initRaw(nc net.Conn) {
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return
	}
	t.raw = raw
	t.tryFD = t.try // one closure per connection
}

func (t *transport) fillRaw() error {
	t.readN, t.readErr = 0, nil
	if err := t.raw.Read(t.tryFD); err != nil {
		return err
	}
	if t.readErr == nil && t.readN == 0 {
		return io.EOF
	}
	return t.filled(t.readN, t.readErr)
}

// try reads once. It returns false if there is no input yet, so that the runtime's poller waits.
func (t *transport) try(fd uintptr) bool {
	b := t.in
	if b == nil {
		b = getBuffer()
	}
	for {
		n, err := syscall.Read(int(fd), b.b[t.w:])
		switch err {
		case nil:
			t.readN = n
		case syscall.EINTR:
			continue
		case syscall.EAGAIN:
			if t.in == nil {
				putBuffer(b)
			}
			return false
		default:
			t.readErr = os.NewSyscallError("read", err)
		}
		if t.in == nil {
			if t.readN > 0 {
				t.in = b
			} else {
				putBuffer(b)
			}
		}
		return true
	}
}

// restrict allows only the owner to use a Unix socket.
func restrict(path string) error { return syscall.Chmod(path, 0o600) }
