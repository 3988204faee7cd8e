package signin

import (
	"net"
	"net/http"
	"net/netip"
)

// Requests pass through serve/proxied first. Behind a trusted web proxy, it replaces the connection's address and TLS
// state by the client's.

// OfRequest returns the Attempt of a request at a web door.
func OfRequest(r *http.Request) Attempt {
	a := Attempt{Door: "HTTP", Remote: Remote(r), TLS: r.TLS}
	if c, err := r.Cookie(BrowserCookie(r)); err == nil && len(c.Value) <= maxBrowser {
		a.Browser = c.Value
	}
	return a
}

// maxBrowser is the maximum length of a browser's token, in bytes.
const maxBrowser = 256

// BrowserCookie returns the name of the cookie with a browser's token (Attempt.Browser). Over TLS, the __Host- prefix
// makes browsers send it only to this host, as for the session cookie.
func BrowserCookie(r *http.Request) string {
	if r.TLS != nil {
		return "__Host-doublet-browser"
	}
	return "doublet-browser"
}

// Protected reports whether nobody on the network could read a request: it came over TLS or from this machine.
func Protected(r *http.Request) bool {
	if r.TLS != nil {
		return true
	}
	a := Remote(r)
	return !a.IsValid() || a.IsLoopback()
}

// Remote returns the address of a web door's client, the zero Addr on a Unix socket.
func Remote(r *http.Request) netip.Addr {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	a, err := netip.ParseAddr(host)
	if err != nil {
		return netip.IPv4Unspecified() // unknown, so treat it as another machine
	}
	return a.Unmap()
}
