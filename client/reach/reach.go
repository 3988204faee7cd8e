// Package reach connects to hosts that a third party names, such as the push service of a subscriber. It allows only
// addresses of the public Internet and of networks in the settings. So nobody can make the server connect to hosts that
// only it can reach.
package reach

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"time"

	"doublet/env"
)

// ErrAddress means that a URL's host has no allowed address, or that the URL is not allowed.
var ErrAddress = errors.New("URL does not lead to a public Internet address")

// Resolver resolves host names. A dns.Resolver implements it.
type Resolver interface {
	Addresses(ctx context.Context, name string) ([]netip.Addr, bool, error)
}

// special holds the networks that are not in the public Internet or lead to other networks, in addition to those that
// package netip knows (IANA's registries of special-purpose addresses).
var special = func() (list []netip.Prefix) {
	for _, s := range []string{
		"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15",
		"198.51.100.0/24",
		"203.0.113.0/24", "240.0.0.0/4",
		"::/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32",
		"2002::/16", "3fff::/20", "5f00::/16", "fec0::/10",
	} {
		list = append(list, netip.MustParsePrefix(s))
	}
	return list
}()

// Public reports whether an address is in the public Internet.
func Public(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	return a.IsGlobalUnicast() && !a.IsPrivate() && !slices.ContainsFunc(special,
		func(p netip.Prefix) bool { return p.Contains(a) })
}

// Guard checks and connects to hosts that a third party names. It is safe for concurrent use.
type Guard struct {
	env     *env.Env
	dns     Resolver
	allowed []netip.Prefix
}

// New returns a Guard. allowed lists networks that are allowed although they are not public.
func New(e *env.Env, dns Resolver, allowed []netip.Prefix) *Guard { return &Guard{e, dns, allowed} }

// Allows reports whether an address is allowed.
func (g *Guard) Allows(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	return Public(a) || slices.ContainsFunc(g.allowed, func(p netip.Prefix) bool { return p.Contains(a) })
}

// maxURL is the maximum length of a URL in bytes.
const maxURL = 2000

// Check returns an error if a URL is not allowed. Dial checks the addresses of host names.
func (g *Guard) Check(text string) error {
	u, err := url.Parse(text)
	if err != nil || len(text) > maxURL || u.Scheme != "https" || u.Hostname() == "" || u.User != nil ||
		u.Opaque != "" || u.Fragment != "" {
		return fmt.Errorf("%w: it is no https URL", ErrAddress)
	}
	for _, c := range []byte(text) {
		if c <= ' ' || c >= 0x7f {
			return fmt.Errorf("%w: it has characters that a URL cannot hold", ErrAddress)
		}
	}
	if p := u.Port(); p != "" {
		// Below 1024, only port 443 serves HTTPS, and many ports serve other protocols.
		if n, err := strconv.ParseUint(p, 10, 16); err != nil || n != 443 && n < 1024 {
			return fmt.Errorf("%w: port %s", ErrAddress, p)
		}
	}
	if a, err := netip.ParseAddr(u.Hostname()); err == nil && !g.Allows(a) {
		return fmt.Errorf("%w: %s", ErrAddress, a)
	}
	return nil
}

const (
	// connectTime is the timeout of connecting to one address.
	connectTime = 10 * time.Second
	// tries is the maximum number of a host's addresses to try.
	tries = 4
)

// Find returns the allowed addresses of a host, among the first addresses that Dial tries. It returns ErrAddress if
// there are none.
func (g *Guard) Find(ctx context.Context, host string) ([]netip.Addr, error) {
	list := []netip.Addr{}
	if a, err := netip.ParseAddr(host); err == nil {
		list = append(list, a)
	} else if list, _, err = g.dns.Addresses(ctx, host); err != nil {
		return nil, fmt.Errorf("%s: %w", host, err)
	}
	var out []netip.Addr
	for _, a := range list[:min(len(list), tries)] {
		if g.Allows(a) {
			out = append(out, a.Unmap())
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%w: %s", ErrAddress, host)
	}
	return out, nil
}

// Dial connects to a host at one of its allowed addresses. It dials the address that it has checked, so a DNS record
// that changes meanwhile has no effect.
func (g *Guard) Dial(ctx context.Context, network, hostport string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(hostport)
	if err != nil {
		return nil, err
	}
	list, err := g.Find(ctx, host)
	for _, a := range list {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		c, bad := g.env.Dial(network, net.JoinHostPort(a.String(), port), connectTime)
		if bad == nil {
			return c, nil
		}
		err = bad
	}
	return nil, err
}
