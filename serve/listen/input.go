package listen

import (
	"bytes"
	"errors"
	"sync"
	"time"
)

// BufferSize is the size of a pooled buffer in bytes. It is also the maximum length of a line for ReadLine.
const BufferSize = 16 << 10

// ErrLineTooLong reports that the line has no line end within the limit. No input is consumed.
var ErrLineTooLong = errors.New("listen: line too long")

// buffer is memory of BufferSize bytes from the pool, or the input of UnreadHeld.
type buffer struct {
	b []byte
	// free is called when input of UnreadHeld is no longer in use.
	free func()
}

var pool = sync.Pool{New: func() any { return &buffer{b: make([]byte, BufferSize)} }}

func getBuffer() *buffer { return pool.Get().(*buffer) }

// putBuffer returns a buffer to the pool, but not one of Unread with another size.
func putBuffer(b *buffer) {
	if b.free != nil {
		b.free()
		return
	}
	if cap(b.b) == BufferSize {
		b.b = b.b[:BufferSize]
		pool.Put(b)
	}
}

// input is the input that was read from the socket but not used.
type input struct {
	in   *buffer // nil while there is no input
	r, w int     // in.b[r:w] is unread
}

// room makes room for more input in the buffer, if there is one.
func (i *input) room() error {
	switch {
	case i.in == nil:
	case i.r == i.w:
		i.DiscardInput()
	case i.w == len(i.in.b) && i.r == 0:
		return ErrLineTooLong
	case i.w == len(i.in.b):
		i.w = copy(i.in.b, i.in.b[i.r:i.w])
		i.r = 0
	}
	return nil
}

// Buffered returns the input that was read from the socket but not used. It is valid until the next call.
func (i *input) Buffered() []byte {
	if i.in == nil {
		return nil
	}
	return i.in.b[i.r:i.w]
}

// Discard removes n bytes from the buffered input.
func (i *input) Discard(n int) {
	i.r = min(i.r+n, i.w)
	if i.r == i.w {
		// Keep the buffer until the next wait, so that a line in it stays valid.
		i.r, i.w = 0, 0
	}
}

// DiscardInput discards the buffered input.
func (i *input) DiscardInput() {
	if i.in != nil {
		putBuffer(i.in)
		i.in = nil
	}
	i.r, i.w = 0, 0
}

// Unread puts p back in front of the buffered input.
func (i *input) Unread(p []byte) {
	if len(p) == 0 {
		return
	}
	rest := i.Buffered()
	need := len(p) + len(rest)
	b := &buffer{}
	if need <= BufferSize {
		b = getBuffer()
	} else {
		b.b = make([]byte, need)
	}
	n := copy(b.b, p)
	n += copy(b.b[n:], rest)
	i.DiscardInput()
	i.in, i.w = b, n
}

// UnreadHeld is Unread for input whose memory is reserved. It keeps p itself, and calls free when p is no longer in
// use. There must be no buffered input.
func (i *input) UnreadHeld(p []byte, free func()) {
	i.DiscardInput()
	if len(p) <= BufferSize { // a small buffer may not have room for the next read
		i.Unread(p)
		free()
		return
	}
	i.in, i.w = &buffer{b: p, free: free}, len(p)
}

// Await waits for the first byte of the next command, for at least timeout and at most 9/4 of it: it saves system calls
// by re-arming deadlines rarely. It flushes the output first, and holds no buffer while it waits. It returns nil when
// there is input, otherwise ErrClosing, ErrWoken, ErrTimeout, io.EOF or the socket's error.
func (c *Conn) Await(timeout time.Duration) error {
	if c.server.isClosing() {
		return ErrClosing
	}
	c.pace = pace{}
	if c.r < c.w {
		c.work()
		return nil
	}
	c.rest()
	if err := c.Flush(); err != nil {
		return err
	}
	c.DiscardInput()
	if d := c.packed(); d != nil {
		d.rest()
	}
	if err := c.begin(c.Now(), timeout); err != nil {
		return err
	}
	// Without fill: thousands of connections keep these frames on their stacks.
	var err error
	switch {
	case c.tryFD != nil:
		err = c.fillRaw()
	case c.under != nil && c.under.ahead.tryFD != nil:
		err = c.awaitSecure()
	default:
		err = c.fillOne()
	}
	if err == nil {
		c.work()
	}
	return c.end(err)
}

// Fill reads more input inside a command, and adds at least one byte to Buffered. It flushes the output first. A
// shutdown does not interrupt it. It returns ErrLineTooLong if the buffer is full, and ErrTimeout if the client sends
// more slowly than MinRate.
func (c *Conn) Fill(timeout time.Duration) error {
	if err := c.ready(timeout); err != nil {
		return err
	}
	had := c.w - c.r
	return c.paced(func() (int, error) {
		err := c.fill()
		return c.w - c.r - had, err
	})
}

// paced calls read inside a command. read returns the number of bytes received.
func (c *Conn) paced(read func() (int, error)) error {
	worked, began := c.rest(), c.Now()
	n, err := read()
	c.pace.came(n, c.Now().Sub(began))
	if worked {
		c.work()
	}
	if isTimeout(err) {
		return ErrTimeout
	}
	return err
}

// ready flushes the output and arms the deadline for a read inside a command. It returns ErrTimeout if the client has
// been too slow.
func (c *Conn) ready(timeout time.Duration) error {
	if err := c.Flush(); err != nil {
		return err
	}
	left := c.pace.left(timeout)
	if left <= 0 {
		return ErrTimeout
	}
	return c.arm(c.Now(), left)
}

// ReadLine returns the next line with its line end, LF or CR LF. It is valid until the next read. limit includes the
// line end and is at most BufferSize. timeout applies to each read.
func (c *Conn) ReadLine(limit int, timeout time.Duration) ([]byte, error) {
	scanned := 0
	for {
		b := c.Buffered()
		if i := bytes.IndexByte(b[scanned:], '\n'); i >= 0 {
			n := scanned + i + 1
			if n > limit {
				return nil, ErrLineTooLong
			}
			c.Discard(n)
			return b[:n], nil
		}
		if len(b) >= limit {
			return nil, ErrLineTooLong
		}
		scanned = len(b)
		if err := c.Fill(timeout); err != nil {
			return nil, err
		}
	}
}

// Read reads inside a command, with the timeout of the last Await, Fill or ReadLine. It returns buffered input first,
// and otherwise reads from the socket directly into p.
func (c *Conn) Read(p []byte) (int, error) {
	if c.r < c.w {
		n := copy(p, c.in.b[c.r:c.w])
		c.Discard(n)
		return n, nil
	}
	timeout := c.readTimeout
	if err := c.ready(timeout); err != nil {
		return 0, err
	}
	c.readTimeout = timeout // ready may have armed a shorter one
	n := 0
	err := c.paced(func() (int, error) {
		var err error
		n, err = c.Conn.Read(p)
		return n, err
	})
	return n, err
}

func (c *Conn) dropBuffers() {
	c.DiscardInput()
	if c.out != nil {
		putBuffer(c.out)
		c.out = nil
	}
}
