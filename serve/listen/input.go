package listen

import (
	"bytes"
	"errors"
	"io"
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
	c.dropInput()
	if d := c.packed(); d != nil {
		d.rest()
	}
	c.mu.Lock()
	// Check again under the lock: a later Wake or shutdown sees idle set.
	if c.server.isClosing() {
		c.mu.Unlock()
		return ErrClosing
	}
	if c.woken {
		c.woken = false
		c.mu.Unlock()
		return ErrWoken
	}
	if err := c.armRead(timeout); err != nil {
		c.mu.Unlock()
		return err
	}
	c.idle = true
	c.mu.Unlock()

	err := c.fill()
	if err == nil {
		c.work()
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	c.idle = false
	if err == nil || !isTimeout(err) {
		return err
	}
	switch {
	case c.server.isClosing():
		return ErrClosing
	case c.woken:
		c.woken = false
		return ErrWoken
	}
	return ErrTimeout
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
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.armRead(left)
}

// armRead sets the read deadline, unless the current one already allows the timeout and not much more: setting a
// deadline costs more than the rest of a short command. The caller holds mu.
func (c *Conn) armRead(timeout time.Duration) error {
	now := c.Now()
	c.readTimeout = timeout
	if left := c.readBy.Sub(now); !c.interrupted && left >= timeout && left/9 <= timeout/4 {
		return nil
	}
	c.interrupted = false
	c.readBy = now.Add(timeout + timeout/4)
	return c.socket.SetReadDeadline(c.readBy)
}

// fill reads once into the buffer. It allocates a buffer only when there is input.
func (c *Conn) fill() error {
	if c.in != nil {
		if c.r == c.w {
			c.dropInput()
		} else if c.w == len(c.in.b) {
			if c.r == 0 {
				return ErrLineTooLong
			}
			c.w = copy(c.in.b, c.in.b[c.r:c.w])
			c.r = 0
		}
	}
	if c.tryFD != nil {
		return c.fillRaw()
	}
	if c.in != nil {
		n, err := c.Conn.Read(c.in.b[c.w:])
		return c.filled(n, err)
	}
	var one [1]byte
	n, err := c.Conn.Read(one[:])
	if n == 1 {
		c.in = getBuffer()
		c.in.b[0] = one[0]
	}
	return c.filled(n, err)
}

func (c *Conn) filled(n int, err error) error {
	if n > 0 {
		c.w += n
		return nil
	}
	if err == nil {
		return io.ErrNoProgress
	}
	return err
}

// Buffered returns the input that was read from the socket but not used. It is valid until the next call.
func (c *Conn) Buffered() []byte {
	if c.in == nil {
		return nil
	}
	return c.in.b[c.r:c.w]
}

// Discard removes n bytes from the buffered input.
func (c *Conn) Discard(n int) {
	c.r = min(c.r+n, c.w)
	if c.r == c.w {
		// Keep the buffer until the next wait, so that a line in it stays valid.
		c.r, c.w = 0, 0
	}
}

// DiscardInput discards the buffered input.
func (c *Conn) DiscardInput() { c.dropInput() }

// Unread puts p back in front of the buffered input.
func (c *Conn) Unread(p []byte) {
	if len(p) == 0 {
		return
	}
	rest := c.Buffered()
	need := len(p) + len(rest)
	b := &buffer{}
	if need <= BufferSize {
		b = getBuffer()
	} else {
		b.b = make([]byte, need)
	}
	n := copy(b.b, p)
	n += copy(b.b[n:], rest)
	c.dropInput()
	c.in, c.w = b, n
}

// UnreadHeld is Unread for input whose memory is reserved. It keeps p itself, and calls free when p is no longer in
// use. There must be no buffered input.
func (c *Conn) UnreadHeld(p []byte, free func()) {
	c.dropInput()
	if len(p) <= BufferSize { // a small buffer may not have room for the next read
		c.Unread(p)
		free()
		return
	}
	c.in, c.w = &buffer{b: p, free: free}, len(p)
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

func (c *Conn) dropInput() {
	if c.in != nil {
		putBuffer(c.in)
		c.in = nil
	}
	c.r, c.w = 0, 0
}

func (c *Conn) dropBuffers() {
	c.dropInput()
	if c.out != nil {
		putBuffer(c.out)
		c.out = nil
	}
}
