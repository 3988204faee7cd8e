package verify

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"

	"doublet/client/dns"
	"doublet/wire/smtp"
)

// listing is an entry of a client in a block list.
type listing struct {
	zone, text string
}

// Listed returns the rejection of a client that is in a block list. It returns nil if the client is not listed, or if
// the setting is not Reject. It is called at RCPT, so that postmaster and abuse can be exempt: a list may be wrong, and
// a listed sender must be able to complain.
//
// Implements: RFC 5782 §2 Structure of an IP address DNSBL or DNSWL
func (v *Verifier) Listed(ctx context.Context, ip netip.Addr) *smtp.Reply {
	if len(v.opt.Blocklists) == 0 || v.opt.Blocked != Reject || v.Exempt(ip) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, v.opt.Timeout)
	defer cancel()
	l, ok := v.blocked(ctx, ip.Unmap().WithZone(""))
	if !ok {
		return nil
	}
	v.listed.Inc()
	text := "Blocked: " + ip.Unmap().String() + " is listed by " + l.zone
	if l.text != "" {
		text += "; " + l.text
	}
	return smtp.NewReply(554, 5, 7, 1, printable(text, 400))
}

// blocked queries all lists concurrently. It ignores lists that fail.
func (v *Verifier) blocked(ctx context.Context, ip netip.Addr) (listing, bool) {
	found := make([]string, len(v.opt.Blocklists))
	name := string(appendReversed(make([]byte, 0, 80), ip))
	var wg sync.WaitGroup
	for i, zone := range v.opt.Blocklists {
		ask := func() {
			if v.isListed(ctx, name+zone) {
				found[i] = zone
			}
		}
		if i == len(v.opt.Blocklists)-1 {
			ask()
			break
		}
		wg.Add(1)
		v.env.Go("verify blocklist", func() {
			defer wg.Done()
			ask()
		})
	}
	wg.Wait()
	for _, zone := range found {
		if zone == "" {
			continue
		}
		l := listing{zone: zone}
		if texts, _, err := v.dns.TXT(ctx, name+zone); err == nil {
			l.text = texts[0]
		}
		return l, true
	}
	return listing{}, false
}

// listedNet contains the valid answers of a list. errorNet contains the error answers, for example for too many queries
// or queries through a public resolver. Any other answer is invalid: an abandoned domain may answer the same address to
// every query.
var (
	listedNet = netip.MustParsePrefix("127.0.0.0/8")
	errorNet  = netip.MustParsePrefix("127.255.255.0/24")
)

// meansListed reports whether an answer of a list is a valid one.
func meansListed(a netip.Addr) bool { return listedNet.Contains(a) && !errorNet.Contains(a) }

// ListedIn reports whether a block list lists an address, with the reason that it publishes.
//
// Implements: RFC 5782 §2 Structure of an IP address DNSBL or DNSWL
func ListedIn(ctx context.Context, resolver *dns.Resolver, ip netip.Addr, zone string) (reason string, listed bool,
	err error) {
	name := string(appendReversed(make([]byte, 0, 80), ip.Unmap().WithZone(""))) + zone
	addresses, _, err := resolver.A(ctx, name)
	if errors.Is(err, dns.ErrNotFound) {
		return "", false, nil
	}
	if err != nil || !slices.ContainsFunc(addresses, meansListed) {
		return "", false, err
	}
	if texts, _, err := resolver.TXT(ctx, name); err == nil && len(texts) > 0 {
		reason = printable(texts[0], 400)
	}
	return reason, true, nil
}

func (v *Verifier) isListed(ctx context.Context, name string) bool {
	addresses, _, err := v.dns.A(ctx, name)
	if err != nil {
		if !errors.Is(err, dns.ErrNotFound) {
			v.env.Log.Warn("block list unreachable", "name", name, "error", err)
		}
		return false
	}
	for _, a := range addresses {
		if !meansListed(a) {
			v.env.Log.Warn("block list rejects our queries", "name", name, "answer", a.String())
			continue
		}
		return true
	}
	return false
}

// printable limits a foreign text to most bytes and replaces control and non-ASCII bytes.
func printable(s string, most int) string {
	b := []byte(s[:min(len(s), most)])
	for i, c := range b {
		if c < ' ' || c >= 0x7f {
			b[i] = '?'
		}
	}
	return string(b)
}
