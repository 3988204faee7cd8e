// Package proxied finds the client of a web request that came through a reverse proxy such as nginx. All web servers
// use it to determine the client's address and whether its connection uses TLS. After it, RemoteAddr and TLS of a
// request are those of the client, and the proxy's header fields are removed.
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

// The fields in which a proxy may name its client. Only one of them is trusted, because a proxy passes on the others as
// anybody may have sent them.
const (
	For       = "X-Forwarded-For" // with X-Forwarded-Proto
	RealIP    = "X-Real-IP"       // with X-Forwarded-Proto
	Forwarded = "Forwarded"       // RFC 7239
	proto     = "X-Forwarded-Proto"
)

// fields lists the fields that are removed from a request.
var fields = []string{Forwarded, For, RealIP, proto, "X-Forwarded-Host", "X-Forwarded-Port", "X-Forwarded-Server",
	"X-Forwarded-Ssl"}

// Options holds the settings of a Handler.
type Options struct {
	// Proxies are the networks of trusted proxies.
	Proxies []netip.Prefix
	// Field is the field that names the client: For, RealIP or Forwarded. "" means For.
	Field string
}

// maxWarned bounds the warnings, which are logged once for each address.
const maxWarned = 1000

// Handler replaces the address and TLS state of requests by the client's and calls the next handler.
type Handler struct {
	env  *env.Env
	opt  Options
	next http.Handler

	mu     sync.Mutex
	warned map[string]bool
}

// New returns a Handler in front of next.
func New(e *env.Env, o Options, next http.Handler) *Handler {
	if o.Field == "" {
		o.Field = For
	}
	return &Handler{env: e, opt: o, next: next, warned: map[string]bool{}}
}

// unknown is the address of a client whose address is not known. It is not a loopback address, which would grant
// rights.
var unknown = netip.AddrPortFrom(netip.IPv4Unspecified(), 0).String()

type key struct{}

// Through reports whether a request came through a trusted proxy.
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
		h.warn(peer, "requests come through a proxy on this machine that is not listed: their clients count as "+
			"strangers without TLS; "+
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

// through returns a request of a trusted proxy with the client's address and TLS state.
func (h *Handler) through(r *http.Request, peer netip.Addr) *http.Request {
	address, secure := h.client(r.Header)
	switch {
	case r.Header.Get(h.opt.Field) == "":
		h.warn(peer, "a listed proxy does not name its client: the client counts as a stranger without TLS; have "+
			"the proxy send "+
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
	// The client of a proxy never counts as local: otherwise a header field could grant the rights of a local client.
	if address.IsValid() && !address.IsLoopback() {
		r.RemoteAddr = netip.AddrPortFrom(address, 0).String()
	}
	return r
}

// client returns the rightmost address that is not a trusted proxy's, and whether its connection uses TLS. Addresses
// further left cannot be trusted.
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

// hops returns the hops of a line. A malformed line is one hop without an address.
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

// allSecure reports whether all values of X-Forwarded-Proto are https. They cannot be assigned to single proxies.
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

// peerOf returns the address of the peer, and false on a Unix socket.
func peerOf(r *http.Request) (netip.Addr, bool) {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}, false
	}
	a, err := netip.ParseAddr(host)
	return a.Unmap().WithZone(""), err == nil
}

// names lists the proxy fields that a request has.
func names(header http.Header) string {
	var list []string
	for _, f := range fields {
		if header.Get(f) != "" {
			list = append(list, f)
		}
	}
	return strings.Join(list, " ")
}

// warn logs a message once for each address.
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
