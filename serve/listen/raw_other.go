//go:build !unix

package listen

import "net"

// On other systems, Await waits in a read of one byte.
func (c *Conn) initRaw(net.Conn) {}

func (c *Conn) fillRaw() error { return nil }

func restrict(string) error { return nil }
