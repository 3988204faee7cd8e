// Package proxied finds the client of a web request that came through a web proxy such as nginx. It is the one place
// that decides the client's address, and the protection of its connection, for every web door: behind it RemoteAddr and
// TLS of a request are those of the client, and no field of a proxy is left to be believed.
package proxied

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"

	"doublet/env"
	"doublet/wire/forwarded"
)

// The fields in which a proxy names its client. One of them is believed: a proxy passes on the others as it got them,
// from anybody.
const (
	For       = "X-Forwarded-For" // with X-Forwarded-Proto
	RealIP    = "X-Real-IP"       // with X-Forwarded-Proto
	Forwarded = "Forwarded"       // RFC 7239
	proto     = "X-Forwarded-Proto"
)

// fields are all that are taken out of a request.
var fields = []string{Forwarded, For, RealIP, proto, "X-Forwarded-Host", "X-Forwarded-Port", "X-Forwarded-Server", "X-Forwarded-Ssl"}

// Options are the settings of a Handler.
type Options struct {
	// Proxies are the networks of the proxies that are believed.
	Proxies []netip.Prefix
	// Field is the one that names the client: For, RealIP or Forwarded; "" is For.
	Field string
}

// maxWarned bounds how many addresses are warned of.
const maxWarned = 1000

// Handler serves requests with the client's own address and protection.
type Handler struct {
	env  *env.Env
	opt  Options
	next http.Handler

	mu     sync.Mutex
	warned map[string]bool
}

// New makes a Handler over the handler of a web door.
func New(e *env.Env, o Options, next http.Handler) *Handler {
	if o.Field == "" {
		o.Field = For
	}
	return &Handler{env: e, opt: o, next: next, warned: map[string]bool{}}
}

// unknown is the address of a client that cannot be told: not of this machine, and nobody's in particular.
var unknown = netip.AddrPortFrom(netip.IPv4Unspecified(), 0).String()

type key struct{}

// Through says that a request came through a listed proxy.
func Through(r *http.Request) bool { return r.Context().Value(key{}) != nil }

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	peer, ok := peerOf(r)
	switch {
	case ok && h.listed(peer):
		r = h.through(r, peer)
	case names(r.Header) == "":
	case ok && !peer.IsLoopback():
		h.warn(peer, "proxy header ignored: its sender is not listed in web.proxies or server.proxies", names(r.Header))
	default:
		h.warn(peer, "requests come through a proxy on this machine that is not listed: their clients count as strangers without TLS; "+
			`set web.proxies = "127.0.0.1 ::1"`, names(r.Header))
		copied := *r
		copied.RemoteAddr = unknown
		r = &copied
	}
	for _, f := range fields {
		r.Header.Del(f)
	}
	h.next.ServeHTTP(w, r)
}

// through is a request of a listed proxy as its client made it.
func (h *Handler) through(r *http.Request, peer netip.Addr) *http.Request {
	address, secure := h.client(r.Header)
	switch {
	case r.Header.Get(h.opt.Field) == "":
		h.warn(peer, "a listed proxy does not name its client: the client counts as a stranger without TLS; have the proxy send "+
			h.opt.Field+", or set web.proxy_header", names(r.Header))
	case h.opt.Field != Forwarded && r.Header.Get(proto) == "":
		h.warn(peer, "a listed proxy does not send "+proto+": its clients count as without TLS", names(r.Header))
	}
	r = r.WithContext(context.WithValue(r.Context(), key{}, true))
	r.TLS = nil
	if secure {
		r.TLS = &tls.ConnectionState{HandshakeComplete: true}
	}
	r.RemoteAddr = unknown
	// The client of a proxy is never on this machine: what is granted to that would be granted by a field.
	if address.IsValid() && !address.IsLoopback() {
		r.RemoteAddr = netip.AddrPortFrom(address, 0).String()
	}
	return r
}

// client is the right-most address that is not a listed proxy's, and its protection. Everything to the left of it is
// the word of a stranger.
func (h *Handler) client(header http.Header) (netip.Addr, bool) {
	lines := header.Values(h.opt.Field)
	secure := allSecure(header)
	var last netip.Addr
	var lastSecure bool
	for i := len(lines) - 1; i >= 0; i-- {
		hops := h.hops(lines[i])
		for j := len(hops) - 1; j >= 0; j-- {
			last, lastSecure = hops[j].For, hops[j].Proto == "https"
			if h.opt.Field != Forwarded {
				lastSecure = secure
			}
			if !last.IsValid() || !h.listed(last) {
				return last, lastSecure
			}
		}
	}
	return last, lastSecure
}

// hops are those of a line; one that cannot be read is a hop of nobody.
func (h *Handler) hops(line string) (hops []forwarded.Hop) {
	if h.opt.Field == Forwarded {
		hops, err := forwarded.Parse(line)
		if err != nil {
			return []forwarded.Hop{{}}
		}
		return hops
	}
	for _, node := range strings.Split(line, ",") {
		hops = append(hops, forwarded.Hop{For: forwarded.Node(node)})
	}
	return hops
}

// allSecure says that X-Forwarded-Proto is https, of every proxy that has added to it: it does not tell them apart.
func allSecure(header http.Header) bool {
	lines := header.Values(proto)
	for _, line := range lines {
		for _, p := range strings.Split(line, ",") {
			if !strings.EqualFold(strings.Trim(p, " \t"), "https") {
				return false
			}
		}
	}
	return len(lines) > 0
}

func (h *Handler) listed(a netip.Addr) bool {
	for _, p := range h.opt.Proxies {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// peerOf is the address at the other end; false on a Unix socket.
func peerOf(r *http.Request) (netip.Addr, bool) {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}, false
	}
	a, err := netip.ParseAddr(host)
	return a.Unmap().WithZone(""), err == nil
}

// names lists the fields of proxies that a request has.
func names(header http.Header) string {
	var list []string
	for _, f := range fields {
		if header.Get(f) != "" {
			list = append(list, f)
		}
	}
	return strings.Join(list, " ")
}

// warn logs a message once for an address.
func (h *Handler) warn(from netip.Addr, message, header string) {
	k := from.String() + " " + message
	h.mu.Lock()
	known := h.warned[k] || len(h.warned) >= maxWarned
	if !known {
		h.warned[k] = true
	}
	h.mu.Unlock()
	if !known {
		h.env.Log.Warn(message, "from", from.String(), "header", header)
	}
}
