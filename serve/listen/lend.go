package listen

import (
	"net"
	"slices"
	"time"
)

// Lend ends the command and lends the connection, including TLS and compression, to a caller that copies its bytes
// elsewhere. ahead is the input that was read but not used. The caller may set deadlines. To continue the session, it
// must call Regain before it uses the Conn again.
func (c *Conn) Lend() (socket net.Conn, ahead []byte, err error) {
	if err := c.Flush(); err != nil {
		return nil, nil, err
	}
	ahead = slices.Clone(c.Buffered())
	c.DiscardInput()
	c.rest() // while its bytes are copied it occupies no slot
	return c.Conn, ahead, nil
}

// Regain ends Lend: it clears the deadlines and begins a command.
func (c *Conn) Regain() error {
	c.writeBy = time.Time{}
	err := c.reset()
	c.pace = pace{}
	c.work()
	return err
}
