//go:build !unix

package listen

import "net"

// On other systems, Await waits in a read of one byte.
func (t *transport) initRaw(net.Conn) {}

func (t *transport) fillRaw() error { return nil }

func restrict(string) error { return nil }
