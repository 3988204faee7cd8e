package listen

// Print appends p to the output. The output is sent on Flush or before the session waits for input, and errors are
// returned there.
func (c *Conn) Print(p []byte) {
	for len(p) > 0 {
		n := copy(c.space(), p)
		c.out.b = c.out.b[:len(c.out.b)+n]
		p = p[n:]
	}
}

// PrintString appends s to the output. See Print.
func (c *Conn) PrintString(s string) {
	for len(s) > 0 {
		n := copy(c.space(), s)
		c.out.b = c.out.b[:len(c.out.b)+n]
		s = s[n:]
	}
}

// space returns the free part of the output buffer. If the buffer is full, it sends the content first.
func (c *Conn) space() []byte {
	if c.out == nil {
		c.out = getBuffer()
		c.out.b = c.out.b[:0]
	}
	if len(c.out.b) == cap(c.out.b) {
		_ = c.send(c.out.b) // the next Flush fails again on a dead socket
		c.out.b = c.out.b[:0]
	}
	return c.out.b[len(c.out.b):cap(c.out.b)]
}

// Flush sends the output in one write, and releases the buffer.
func (c *Conn) Flush() error {
	if c.out == nil {
		return nil
	}
	b := c.out
	c.out = nil
	var err error
	if len(b.b) > 0 {
		err = c.send(b.b)
	}
	b.b = b.b[:cap(b.b)]
	putBuffer(b)
	return err
}

// Write flushes the output and sends p directly. It avoids copying long output.
func (c *Conn) Write(p []byte) (int, error) {
	if err := c.Flush(); err != nil {
		return 0, err
	}
	if err := c.send(p); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (c *Conn) send(p []byte) error {
	timeout := c.server.opts.Load().WriteTimeout
	if now := c.Now(); c.writeBy.Sub(now) < timeout {
		c.writeBy = now.Add(timeout + timeout/4)
		if err := c.socket.SetWriteDeadline(c.writeBy); err != nil {
			return err
		}
	}
	worked := c.rest()
	_, err := c.Conn.Write(p)
	if worked {
		c.work()
	}
	return err
}
