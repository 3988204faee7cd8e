package listen

import (
	"net"
	"slices"
	"time"
)

// Lend ends the command and lends the socket, with TLS and compression on it, to a caller that carries its bytes
// elsewhere. ahead is the input that was read and not used. The caller sets deadlines as it likes; where it is to go on
// as a session, Regain comes before the next use of the Conn.
func (c *Conn) Lend() (socket net.Conn, ahead []byte, err error) {
	if err := c.Flush(); err != nil {
		return nil, nil, err
	}
	ahead = slices.Clone(c.Buffered())
	c.dropInput()
	c.rest() // as long as its bytes are carried it takes nobody's turn
	return c.Conn, ahead, nil
}

// Regain ends Lend: no deadline stands any more, and a command begins.
func (c *Conn) Regain() error {
	c.mu.Lock()
	c.readBy, c.writeBy, c.interrupted = time.Time{}, time.Time{}, false
	err := c.socket.SetDeadline(time.Time{})
	c.mu.Unlock()
	c.pace = pace{}
	c.work()
	return err
}
