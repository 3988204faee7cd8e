package dns

import (
	"io"
	"net"
	"net/netip"
	"strings"
	"time"
)

const (
	resolvConf = "/etc/resolv.conf"
	// maxServers limits the name servers taken from resolv.conf, as in the system's own resolver.
	maxServers = 3
	// recheck is the time between checks of resolv.conf: a machine may get its name servers after the server has
	// started.
	recheck = 30 * time.Second
	// maxConf is the maximum number of bytes read from resolv.conf.
	maxConf = 64 << 10
)

// host returns the address of "address" or "address:port".
func host(s string) string {
	if h, _, err := net.SplitHostPort(s); err == nil {
		return h
	}
	return strings.Trim(s, "[]")
}

func (r *Resolver) server(s string) server {
	address := s
	if _, _, err := net.SplitHostPort(s); err != nil {
		address = net.JoinHostPort(strings.Trim(s, "[]"), "53")
	}
	out := server{address: address}
	if a, err := netip.ParseAddr(host(address)); err == nil {
		out.trusted = a.IsLoopback()
		for _, t := range r.trusted {
			out.trusted = out.trusted || t == a.Unmap()
		}
	}
	return out
}

// Servers returns the addresses of the name servers, in the order of the configuration.
func (r *Resolver) Servers() []string {
	var out []string
	for _, s := range r.list() {
		out = append(out, s.address)
	}
	return out
}

// list returns the servers to ask. It reads resolv.conf again when the file changes. If that fails, it returns the
// previous list.
func (r *Resolver) list() []server {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.opt.Servers) > 0 {
		return r.servers
	}
	now := r.env.Clock.Now()
	if !r.checked.IsZero() && now.Sub(r.checked) < recheck && len(r.servers) > 0 {
		return r.servers
	}
	r.checked = now
	info, err := r.env.FS.Stat(resolvConf)
	if err == nil && (len(r.servers) == 0 || !info.ModTime().Equal(r.changed)) {
		if list := r.readConf(); len(list) > 0 {
			r.servers, r.changed = list, info.ModTime()
		}
	}
	return r.servers
}

func (r *Resolver) readConf() []server {
	f, err := r.env.FS.Open(resolvConf)
	if err != nil {
		return nil
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxConf))
	if err != nil {
		return nil
	}
	var out []server
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) < 2 || words[0] != "nameserver" || len(out) == maxServers {
			continue
		}
		if _, err := netip.ParseAddr(words[1]); err == nil {
			out = append(out, r.server(words[1]))
		}
	}
	return out
}
