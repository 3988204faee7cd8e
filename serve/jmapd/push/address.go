package push

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

// ErrAddress says that a URL leads to no place that pushes may be sent to.
var ErrAddress = errors.New("push: the URL leads to no server of the public Internet")

// Resolver finds the addresses of a host: a dns.Resolver.
type Resolver interface {
	Addresses(ctx context.Context, name string) ([]netip.Addr, bool, error)
}

// special are the networks that are not of the public Internet, or that lead into others, beside those that
// package netip knows (IANA's registries of special-purpose addresses).
var special = func() (list []netip.Prefix) {
	for _, s := range []string{
		"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4",
		"::/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20", "5f00::/16",
	} {
		list = append(list, netip.MustParsePrefix(s))
	}
	return list
}()

// public says whether an address is one of the public Internet.
func public(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	return a.IsGlobalUnicast() && !a.IsPrivate() && !slices.ContainsFunc(special, func(p netip.Prefix) bool { return p.Contains(a) })
}

// guide finds the way to a push service. What people give as its URL is theirs to choose, so it must not lead to
// what only this server can reach (RFC 8620 section 8.6).
type guide struct {
	env     *env.Env
	dns     Resolver
	private []netip.Prefix // networks that may be sent to although they are not public
}

func (g *guide) allows(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	return public(a) || slices.ContainsFunc(g.private, func(p netip.Prefix) bool { return p.Contains(a) })
}

// maxURL bounds a URL, in bytes.
const maxURL = 2000

// check says whether pushes may be sent to a URL at all. Where its host is, dial looks when it is sent to.
func (g *guide) check(text string) error {
	u, err := url.Parse(text)
	if err != nil || len(text) > maxURL || u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.Opaque != "" || u.Fragment != "" {
		return fmt.Errorf("%w: it is no https URL", ErrAddress)
	}
	for _, c := range []byte(text) {
		if c <= ' ' || c >= 0x7f {
			return fmt.Errorf("%w: it holds what is no part of a URL", ErrAddress)
		}
	}
	if p := u.Port(); p != "" {
		// Below 1024 there is nothing but 443 that a push service would be at, and much else.
		if n, err := strconv.ParseUint(p, 10, 16); err != nil || n != 443 && n < 1024 {
			return fmt.Errorf("%w: port %s", ErrAddress, p)
		}
	}
	if a, err := netip.ParseAddr(u.Hostname()); err == nil && !g.allows(a) {
		return fmt.Errorf("%w: %s", ErrAddress, a)
	}
	return nil
}

// connectTime is how long connecting to one address may take.
const connectTime = 10 * time.Second

// dial connects to a host at one of its addresses that may be sent to. The address is dialled that was looked
// at, so that a name which changes meanwhile leads nowhere else.
func (g *guide) dial(ctx context.Context, network, hostport string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(hostport)
	if err != nil {
		return nil, err
	}
	list, _, err := g.dns.Addresses(ctx, host)
	if err != nil {
		return nil, fmt.Errorf("push: %s: %w", host, err)
	}
	err = fmt.Errorf("%w: %s", ErrAddress, host)
	for _, a := range list[:min(len(list), 4)] {
		if !g.allows(a) {
			continue
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		c, bad := g.env.Dial(network, net.JoinHostPort(a.Unmap().String(), port), connectTime)
		if bad == nil {
			return c, nil
		}
		err = bad
	}
	return nil, err
}
