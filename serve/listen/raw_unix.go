//go:build unix

package listen

import (
	"io"
	"net"
	"os"
	"syscall"
)

// initRaw prepares reads that take a buffer only when the socket has input.
func (c *Conn) initRaw(nc net.Conn) {
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return
	}
	c.raw = raw
	c.tryFD = c.try // one closure per connection
}

func (c *Conn) fillRaw() error {
	c.readN, c.readErr = 0, nil
	if err := c.raw.Read(c.tryFD); err != nil {
		return err
	}
	if c.readErr == nil && c.readN == 0 {
		return io.EOF
	}
	return c.filled(c.readN, c.readErr)
}

// try reads once. It returns false if there is no input yet, so that the runtime's poller waits.
func (c *Conn) try(fd uintptr) bool {
	b := c.in
	if b == nil {
		b = getBuffer()
	}
	for {
		n, err := syscall.Read(int(fd), b.b[c.w:])
		switch err {
		case nil:
			c.readN = n
		case syscall.EINTR:
			continue
		case syscall.EAGAIN:
			if c.in == nil {
				putBuffer(b)
			}
			return false
		default:
			c.readErr = os.NewSyscallError("read", err)
		}
		if c.in == nil {
			if c.readN > 0 {
				c.in = b
			} else {
				putBuffer(b)
			}
		}
		return true
	}
}

// restrict allows only the owner to use a Unix socket.
func restrict(path string) error { return syscall.Chmod(path, 0o600) }
