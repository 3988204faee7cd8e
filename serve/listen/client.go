package listen

import "net/netip"

// client identifies the client of a connection.
type client struct {
	remote netip.Addr     // invalid on a Unix socket
	named  netip.AddrPort // the address that a proxy named; zero without one
	relay  bool           // a web proxy's connection, with requests of many clients
	unix   bool           // a Unix socket
}

// RemoteIP returns the client's address, the zero Addr on a Unix socket.
func (c *client) RemoteIP() netip.Addr { return c.remote }

// Local reports whether the client is on this machine: on loopback or a Unix socket. A client that a proxy named is
// never local, whatever address the proxy gave.
func (c *client) Local() bool { return !c.named.IsValid() && (c.unix || c.remote.IsLoopback()) }

// clientKey returns the key under which connections of a client are counted, or false for clients on this machine and
// web proxies.
func (c *client) clientKey() (netip.Addr, bool) {
	if !c.remote.IsValid() || c.relay || c.remote.IsLoopback() && !c.named.IsValid() {
		return netip.Addr{}, false
	}
	if c.remote.Is6() {
		if p, err := c.remote.WithZone("").Prefix(64); err == nil {
			return p.Addr(), true
		}
	}
	return c.remote, true
}
