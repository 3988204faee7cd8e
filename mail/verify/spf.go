package verify

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"

	"doublet/client/dns"

	"blitiri.com.ar/go/spf"
)

// spf checks the domain of MAIL FROM and the HELO name. If the sender is null, the HELO name takes its place.
//
// Implements: RFC 7208 §2.3 The "HELO" identity, §2.4 The "MAIL FROM" identity
func (v *Verifier) spf(ctx context.Context, c Client) (from, helo SPF) {
	r := resolver{ctx, v.dns}
	helo = SPF{Result: None, Domain: c.Helo, Helo: true}
	// A name without a dot or an address literal is not a domain: section 2.3 says not to check it.
	if strings.Contains(strings.TrimSuffix(c.Helo, "."), ".") && !strings.ContainsAny(c.Helo, "[]:@") {
		helo.Result = r.check(c.IP, c.Helo, "postmaster@"+c.Helo)
	}
	domain := c.From.Domain
	if c.From.IsNull() || domain == "" {
		return helo, helo
	}
	if domain[0] == '[' {
		return SPF{Result: None, Domain: domain}, helo
	}
	ascii, err := asciiDomain(domain)
	if err != nil {
		return SPF{Result: None, Domain: domain}, helo
	}
	return SPF{Result: r.check(c.IP, c.Helo, c.From.Local+"@"+ascii), Domain: ascii}, helo
}

// resolver adapts the server's resolver to the SPF library: its errors are *net.DNSError.
type resolver struct {
	ctx context.Context
	dns *dns.Resolver
}

// check evaluates one identity, with the limits of RFC 7208 section 4.6.4: at most 10 lookups, 2 of them without
// result, and 10 MX records.
//
// Implements: RFC 7208 §4 The check_host() function
func (r resolver) check(ip netip.Addr, helo, sender string) Result {
	result, _ := spf.CheckHostWithSender(ip.AsSlice(), helo, sender, spf.WithContext(r.ctx), spf.WithResolver(r))
	return Result(result)
}

// CheckSPF returns the SPF result that a receiver gets for mail from an address.
func CheckSPF(ctx context.Context, r *dns.Resolver, ip netip.Addr, helo, sender string) Result {
	return resolver{ctx, r}.check(ip, helo, sender)
}

func dnsError(name string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, dns.ErrNotFound):
		return &net.DNSError{Err: "no such record", Name: name, IsNotFound: true}
	}
	return &net.DNSError{Err: "name server trouble", Name: name, IsTemporary: true}
}

// LookupTXT implements spf.DNSResolver. An invalid SPF record is a permanent error, which becomes permerror.
func (r resolver) LookupTXT(ctx context.Context, name string) ([]string, error) {
	records, _, err := r.dns.TXT(ctx, name)
	for _, text := range records {
		// The library stops parsing at the deciding term, so check the whole record first.
		if isSPF(text) && !ValidSPF(text) {
			return nil, &net.DNSError{Err: "bad SPF record", Name: name}
		}
	}
	return records, dnsError(name, err)
}

// LookupMX implements spf.DNSResolver.
func (r resolver) LookupMX(ctx context.Context, name string) ([]*net.MX, error) {
	records, _, err := r.dns.MX(ctx, name)
	out := make([]*net.MX, len(records))
	for i, mx := range records {
		out[i] = &net.MX{Host: mx.Host, Pref: mx.Pref}
	}
	return out, dnsError(name, err)
}

// LookupIPAddr implements spf.DNSResolver.
func (r resolver) LookupIPAddr(ctx context.Context, host string) ([]net.IPAddr, error) {
	if _, err := netip.ParseAddr(host); err == nil {
		return nil, dnsError(host, dns.ErrNotFound) // the resolver accepts address literals, but SPF allows only names
	}
	records, _, err := r.dns.Addresses(ctx, host)
	out := make([]net.IPAddr, len(records))
	for i, a := range records {
		out[i] = net.IPAddr{IP: a.AsSlice()}
	}
	return out, dnsError(host, err)
}

// LookupAddr implements spf.DNSResolver.
func (r resolver) LookupAddr(ctx context.Context, address string) ([]string, error) {
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return nil, dnsError(address, dns.ErrNotFound)
	}
	records, _, err := r.dns.PTR(ctx, ip.Unmap())
	return records, dnsError(address, err)
}
