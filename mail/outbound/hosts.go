package outbound

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"

	"doublet/client/dns"

	"golang.org/x/net/idna"
)

// host is a server that accepts a target's mail.
type host struct {
	name string
	pref uint16
	// secure is set if DNSSEC authenticates every lookup from the domain to this name.
	secure bool
	// mx is set if the name comes from an MX record.
	mx bool
	// address is set for an address literal.
	address netip.Addr
}

// Limits of one attempt to connect.
const (
	maxHosts     = 10
	maxAddresses = 10
)

// hosts returns the servers of a target in the order in which to try them.
//
// Implements: RFC 5321 §5.1 Locating the target host
// Implements: RFC 7505 §3 Null MX
func (m *Mailer) hosts(ctx context.Context, t *Target) ([]host, *Failure) {
	if t.Host != "" {
		if a, err := netip.ParseAddr(strings.Trim(t.Host, "[]")); err == nil {
			return []host{{name: a.String(), address: a}}, nil
		}
		return []host{{name: strings.ToLower(t.Host), secure: true}}, nil
	}
	if strings.HasPrefix(t.Domain, "[") {
		a, err := netip.ParseAddr(strings.TrimPrefix(strings.ToLower(strings.Trim(t.Domain, "[]")), "ipv6:"))
		if err != nil {
			return nil, permanent(550, 1, 2, "Not an address: "+t.Domain)
		}
		return []host{{name: a.String(), address: a}}, nil
	}
	list, secure, err := m.opt.Resolver.MX(ctx, t.Domain)
	switch {
	case errors.Is(err, dns.ErrNotFound):
		// A domain without MX records is its own mail server if it has addresses.
		return []host{{name: t.Domain, secure: secure}}, nil
	case err != nil:
		return nil, temporary(4, 3, "Name servers do not tell who takes the mail of "+t.Domain)
	case len(list) == 1 && (list[0].Host == "." || list[0].Host == ""):
		return nil, permanent(556, 1, 10, "Domain "+t.Domain+" takes no mail")
	}
	out := make([]host, 0, len(list))
	for _, mx := range list {
		if name := strings.TrimSuffix(strings.ToLower(mx.Host), "."); name != "" {
			out = append(out, host{name: name, pref: mx.Pref, secure: secure, mx: true})
		}
	}
	return m.ordered(t, out)
}

// ordered sorts the hosts by preference, in random order within one preference. If this server is in the list, it drops
// this server and all hosts that are not preferred over it, because mail must not loop back.
func (m *Mailer) ordered(t *Target, list []host) ([]host, *Failure) {
	for i := len(list) - 1; i > 0; i-- {
		j := int(m.env.Uint64() % uint64(i+1))
		list[i], list[j] = list[j], list[i]
	}
	slices.SortStableFunc(list, func(a, b host) int { return int(a.pref) - int(b.pref) })
	own := slices.IndexFunc(list, func(h host) bool { return strings.EqualFold(h.name, m.opt.Hostname) })
	if own >= 0 {
		pref := list[own].pref
		list = slices.DeleteFunc(list, func(h host) bool { return h.pref >= pref })
		if len(list) == 0 {
			return nil, looped(t.Domain)
		}
	}
	if len(list) == 0 {
		return nil, permanent(550, 1, 2, "Domain "+t.Domain+" names no mail server")
	}
	return list[:min(len(list), maxHosts)], nil
}

func looped(domain string) *Failure {
	return permanent(554, 4, 6, "Mail for "+domain+" comes back to this server")
}

// addresses returns a host's addresses, IPv6 and IPv4 alternating, so that a family that does not work costs one
// timeout. secure is set if DNSSEC authenticates them.
func (m *Mailer) addresses(ctx context.Context, h *host) (list []netip.Addr, secure bool, err error) {
	if h.address.IsValid() {
		return []netip.Addr{h.address}, false, nil
	}
	list, secure, err = m.opt.Resolver.Addresses(ctx, h.name)
	if err != nil {
		return nil, secure, err
	}
	var four, six []netip.Addr
	for _, a := range list {
		if a.Unmap().Is4() {
			four = append(four, a.Unmap())
		} else {
			six = append(six, a)
		}
	}
	out := make([]netip.Addr, 0, len(list))
	for i := range max(len(four), len(six)) {
		if i < len(six) {
			out = append(out, six[i])
		}
		if i < len(four) {
			out = append(out, four[i])
		}
	}
	return out[:min(len(out), maxAddresses)], secure, nil
}

// Domain returns the canonical form of a domain for destinations: A-labels in lower case, or an address literal in
// lower case. ok is false if the domain cannot be looked up.
func Domain(domain string) (string, bool) {
	if strings.HasPrefix(domain, "[") {
		return strings.ToLower(domain), true
	}
	plain := true
	for i := range len(domain) {
		plain = plain && domain[i] < 0x80
	}
	if plain {
		return strings.ToLower(domain), domain != ""
	}
	a, err := idna.Lookup.ToASCII(domain)
	return strings.ToLower(a), err == nil && a != ""
}
