package listen

// Print adds to the output, which goes out before the session next waits for input, or on Flush.
// An error shows there.
func (c *Conn) Print(p []byte) {
	for len(p) > 0 {
		n := copy(c.space(), p)
		c.out.b = c.out.b[:len(c.out.b)+n]
		p = p[n:]
	}
}

// PrintString is Print for a string.
func (c *Conn) PrintString(s string) {
	for len(s) > 0 {
		n := copy(c.space(), s)
		c.out.b = c.out.b[:len(c.out.b)+n]
		s = s[n:]
	}
}

// space is the free part of the output buffer; a full one is sent first.
func (c *Conn) space() []byte {
	if c.out == nil {
		c.out = getBuffer()
		c.out.b = c.out.b[:0]
	}
	if len(c.out.b) == cap(c.out.b) {
		_ = c.send(c.out.b) // a dead socket fails again at the next Flush
		c.out.b = c.out.b[:0]
	}
	return c.out.b[len(c.out.b):cap(c.out.b)]
}

// Flush sends what was printed, in one write, and gives the buffer back.
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

// Write flushes and sends p at once: for long output that should not be copied.
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
