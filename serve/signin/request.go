package signin

import (
	"net"
	"net/http"
	"net/netip"
)

// OfRequest is an attempt at a web door.
func OfRequest(r *http.Request) Attempt {
	return Attempt{Door: "HTTP", Remote: Remote(r), TLS: r.TLS}
}

// Protected says that what the client of a web door sends was not to be read on the way: TLS, or this machine.
func Protected(r *http.Request) bool {
	if r.TLS != nil {
		return true
	}
	a := Remote(r)
	return !a.IsValid() || a.IsLoopback()
}

// Remote is the address of a web door's client; the zero Addr on a Unix socket.
func Remote(r *http.Request) netip.Addr {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	a, err := netip.ParseAddr(host)
	if err != nil {
		return netip.IPv4Unspecified() // unknown, and so not of this machine
	}
	return a.Unmap()
}
