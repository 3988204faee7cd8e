package signin

import (
	"net"
	"net/http"
	"net/netip"
)

// Requests come here through serve/proxied, which has made address and TLS those of the client where a web proxy stands
// in front.

// OfRequest is an attempt at a web door.
func OfRequest(r *http.Request) Attempt {
	a := Attempt{Door: "HTTP", Remote: Remote(r), TLS: r.TLS}
	if c, err := r.Cookie(BrowserCookie(r)); err == nil && len(c.Value) <= maxBrowser {
		a.Browser = c.Value
	}
	return a
}

// maxBrowser bounds the token of a browser.
const maxBrowser = 256

// BrowserCookie is the name of the cookie that holds the token of a browser (Attempt.Browser). As that of a session, under TLS
// it binds browsers to this host.
func BrowserCookie(r *http.Request) string {
	if r.TLS != nil {
		return "__Host-doublet-browser"
	}
	return "doublet-browser"
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
