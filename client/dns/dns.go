// Package dns is the DNS resolver of the server; all other packages use it for lookups. It is a stub resolver: it asks
// recursive resolvers, those of the configuration or of /etc/resolv.conf. It does not trust them blindly: it drops
// replies to other questions, ignores records that do not belong to the name, and limits chains and counts.
//
// Every lookup returns records and a secure flag. The flag reports DNSSEC validation, and is set only if a trusted
// resolver reported it. Errors are of two kinds: ErrNotFound, which is an answer, and ErrTemporary, which means that
// the caller may retry later.
//
// Implements: RFC 1035 §7 Resolver implementation
package dns

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"doublet/env"
	"doublet/stat"

	"github.com/miekg/dns"
	"golang.org/x/sync/singleflight"
)

// The kinds of error.
var (
	// ErrNotFound means that the name does not exist or has no records of the requested type.
	ErrNotFound = errors.New("no such record")
	// ErrTemporary means that there is no answer now: the servers failed, timed out, or sent invalid replies.
	ErrTemporary = errors.New("name server trouble")
)

// Limits of an answer.
const (
	// MaxRecords is the maximum number of records of an answer that are used. It does not apply to MX records.
	MaxRecords = 100
	// MaxMX is the maximum number of MX records of a domain that are used: those with the best preference.
	MaxMX = 20
	// maxChain is the maximum number of aliases (CNAME) that are followed.
	maxChain = 8
	// maxTime is the time after which no further alias is followed.
	maxTime = 30 * time.Second
	// maxTextBytes is the maximum size of one TXT record. Larger records are ignored.
	maxTextBytes = 16 << 10
)

// Limits of the cache times. A failure is cached for the least time that RFC 9520 allows, so that a burst of mail to a
// broken domain asks once a second.
const (
	maxTTL         = 24 * time.Hour
	maxNegativeTTL = 15 * time.Minute
	failureTTL     = time.Second
)

// Options are the settings of a Resolver.
type Options struct {
	// Servers are the recursive resolvers, each an address or address:port. If it is empty, those of /etc/resolv.conf
	// are used; the file is read again when it changes.
	Servers []string
	// Trusted lists the addresses of resolvers whose DNSSEC validation is trusted. Loopback addresses always are.
	Trusted []string
	// Timeout is the wait for one server; 0 means 3 seconds.
	Timeout time.Duration
	// Attempts is the number of rounds over all servers; 0 means 2.
	Attempts int
	// CacheEntries is the maximum number of cached answers, with 1 KB on average; 0 means 20,000.
	CacheEntries int
	// Stats receives the DNS.* statistics; it may be nil.
	Stats *stat.Tree
}

// MX is a mail exchanger. Host "." means that the domain accepts no mail (RFC 7505).
type MX struct {
	Pref uint16
	Host string
}

// TLSA is a certificate association (RFC 6698).
type TLSA struct {
	Usage, Selector, Matching uint8
	Data                      []byte
}

// SRV is the location of a service (RFC 2782).
type SRV struct {
	Priority, Weight, Port uint16
	Target                 string
}

// CAA is a permission to issue certificates (RFC 8659).
type CAA struct {
	Flag       uint8
	Tag, Value string
}

// Resolver looks up names. Its methods may be called from any goroutine. Names are A-labels in any case, with or
// without a final dot; returned names are in lower case without a final dot. Callers must not change the returned
// records, because they share them with the cache.
type Resolver struct {
	env     *env.Env
	opt     Options
	trusted []netip.Addr
	cache   *cache
	flight  singleflight.Group
	// first is the index of the server that answered last.
	first atomic.Uint32

	mu      sync.Mutex
	servers []server
	checked time.Time // when resolv.conf was last checked
	changed time.Time // its modification time

	queries, hits, failed, dropped *stat.Counter
}

// server is a recursive resolver.
type server struct {
	address string
	trusted bool
}

// New returns a resolver. It sends no queries yet.
func New(e *env.Env, o Options) *Resolver {
	if o.Timeout <= 0 {
		o.Timeout = 3 * time.Second
	}
	if o.Attempts <= 0 {
		o.Attempts = 2
	}
	if o.CacheEntries <= 0 {
		o.CacheEntries = 20_000
	}
	r := &Resolver{
		env: e, opt: o, cache: newCache(o.CacheEntries),
		queries: o.Stats.Counter("DNS.Queries", "questions sent to name servers"),
		hits:    o.Stats.Counter("DNS.CacheHits", "questions answered from memory"),
		failed:  o.Stats.Counter("DNS.Failed", "questions that no name server answered"),
		dropped: o.Stats.Counter("DNS.Dropped", "answers dropped: another id, another question, not readable"),
	}
	o.Stats.GaugeFunc("DNS.CacheEntries", "answers in memory", func() float64 { return float64(r.cache.len()) })
	for _, t := range o.Trusted {
		if a, err := netip.ParseAddr(host(t)); err == nil {
			r.trusted = append(r.trusted, a.Unmap())
		}
	}
	for _, s := range o.Servers {
		r.servers = append(r.servers, r.server(s))
	}
	return r
}

// MX returns a domain's mail exchangers by preference, at most MaxMX. A domain that accepts no mail has a single one
// with the host ".".
func (r *Resolver) MX(ctx context.Context, domain string) ([]MX, bool, error) {
	return ask(ctx, r, domain, dns.TypeMX, func(found []dns.RR) []MX {
		var out []MX
		for _, rr := range found {
			if mx, ok := rr.(*dns.MX); ok {
				out = append(out, MX{mx.Preference, plain(mx.Mx)})
			}
		}
		slices.SortStableFunc(out, func(a, b MX) int { return int(a.Pref) - int(b.Pref) })
		return slices.Clone(out[:min(len(out), MaxMX)])
	})
}

// Addresses returns a host's addresses, IPv6 before IPv4. They are secure if the answer of each family that has
// addresses is secure. For an address literal Addresses returns that address, and for localhost the loopback addresses
// (RFC 6761).
func (r *Resolver) Addresses(ctx context.Context, name string) ([]netip.Addr, bool, error) {
	if a, err := netip.ParseAddr(name); err == nil {
		return []netip.Addr{a.Unmap()}, true, nil
	}
	if strings.EqualFold(strings.TrimSuffix(name, "."), "localhost") {
		return []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.IPv6Loopback()}, true, nil
	}
	var six []netip.Addr
	var secure6 bool
	var err6 error
	asked := make(chan struct{})
	if _, known := r.cache.get(question{plain(name), dns.TypeAAAA}, r.env.Clock.Now()); known {
		six, secure6, err6 = r.AAAA(ctx, name)
		close(asked)
	} else {
		r.env.Go("dns", func() {
			defer close(asked)
			six, secure6, err6 = r.AAAA(ctx, name)
		})
	}
	four, secure4, err4 := r.A(ctx, name)
	<-asked
	all := slices.Concat(six, four)
	// The addresses of one family suffice. A host has no address only if both families say so.
	switch {
	case len(all) > 0:
		return all, (secure4 || len(four) == 0) && (secure6 || len(six) == 0), nil
	case errors.Is(err4, ErrTemporary):
		return nil, false, err4
	case errors.Is(err6, ErrTemporary):
		return nil, false, err6
	}
	return nil, secure4 && secure6, err4
}

// A returns a host's IPv4 addresses.
func (r *Resolver) A(ctx context.Context, name string) ([]netip.Addr, bool, error) {
	return ask(ctx, r, name, dns.TypeA, func(found []dns.RR) []netip.Addr {
		var out []netip.Addr
		for _, rr := range found {
			if a, ok := rr.(*dns.A); ok {
				if ip, ok := netip.AddrFromSlice(a.A.To4()); ok {
					out = append(out, ip)
				}
			}
		}
		return out
	})
}

// AAAA returns a host's IPv6 addresses. It ignores IPv4-mapped addresses.
func (r *Resolver) AAAA(ctx context.Context, name string) ([]netip.Addr, bool, error) {
	return ask(ctx, r, name, dns.TypeAAAA, func(found []dns.RR) []netip.Addr {
		var out []netip.Addr
		for _, rr := range found {
			if a, ok := rr.(*dns.AAAA); ok {
				if ip, ok := netip.AddrFromSlice(a.AAAA); ok && !ip.Is4In6() {
					out = append(out, ip)
				}
			}
		}
		return out
	})
}

// TXT returns the TXT records of a name. The strings of each record are joined.
func (r *Resolver) TXT(ctx context.Context, name string) ([]string, bool, error) {
	return ask(ctx, r, name, dns.TypeTXT, func(found []dns.RR) []string {
		var out []string
		for _, rr := range found {
			if t, ok := rr.(*dns.TXT); ok {
				if text := unescape(t.Txt); len(text) <= maxTextBytes {
					out = append(out, text)
				}
			}
		}
		return out
	})
}

// PTR returns the names in the reverse record of an address. The owner of the address chooses them freely, so callers
// must verify them with a forward lookup.
func (r *Resolver) PTR(ctx context.Context, address netip.Addr) ([]string, bool, error) {
	name, err := dns.ReverseAddr(address.Unmap().WithZone("").String())
	if err != nil {
		return nil, false, fmt.Errorf("dns: reverse of %s: %w", address, ErrNotFound)
	}
	return ask(ctx, r, name, dns.TypePTR, func(found []dns.RR) []string {
		var out []string
		for _, rr := range found {
			if p, ok := rr.(*dns.PTR); ok {
				out = append(out, plain(p.Ptr))
			}
		}
		return out
	})
}

// TLSA returns the certificate associations of a name such as _25._tcp.mail.example.com.
func (r *Resolver) TLSA(ctx context.Context, name string) ([]TLSA, bool, error) {
	return ask(ctx, r, name, dns.TypeTLSA, func(found []dns.RR) []TLSA {
		var out []TLSA
		for _, rr := range found {
			if t, ok := rr.(*dns.TLSA); ok {
				if data, err := unhex(t.Certificate); err == nil {
					out = append(out, TLSA{t.Usage, t.Selector, t.MatchingType, data})
				}
			}
		}
		return out
	})
}

// SRV returns the locations of a service such as _imaps._tcp.example.com, by priority, then by descending weight.
func (r *Resolver) SRV(ctx context.Context, name string) ([]SRV, bool, error) {
	return ask(ctx, r, name, dns.TypeSRV, func(found []dns.RR) []SRV {
		var out []SRV
		for _, rr := range found {
			if s, ok := rr.(*dns.SRV); ok {
				out = append(out, SRV{s.Priority, s.Weight, s.Port, plain(s.Target)})
			}
		}
		slices.SortStableFunc(out, func(a, b SRV) int {
			if a.Priority != b.Priority {
				return int(a.Priority) - int(b.Priority)
			}
			return int(b.Weight) - int(a.Weight)
		})
		return out
	})
}

// CAA returns the CAA records of a name. It does not look at parent domains.
func (r *Resolver) CAA(ctx context.Context, name string) ([]CAA, bool, error) {
	return ask(ctx, r, name, dns.TypeCAA, func(found []dns.RR) []CAA {
		var out []CAA
		for _, rr := range found {
			if c, ok := rr.(*dns.CAA); ok {
				out = append(out, CAA{c.Flag, strings.ToLower(c.Tag), c.Value})
			}
		}
		return out
	})
}

// CNAME returns the direct alias target of a name. It does not follow a chain.
func (r *Resolver) CNAME(ctx context.Context, name string) (string, bool, error) {
	found, secure, err := ask(ctx, r, name, dns.TypeCNAME, func(found []dns.RR) []string {
		for _, rr := range found {
			if c, ok := rr.(*dns.CNAME); ok {
				return []string{plain(c.Target)}
			}
		}
		return nil
	})
	if err != nil {
		return "", secure, err
	}
	return found[0], secure, nil
}

// plain returns a name in the form for callers: lower case without a final dot. "." stays as it is.
func plain(name string) string {
	if name == "." {
		return name
	}
	return lower(strings.TrimSuffix(name, "."))
}

// lower converts ASCII letters to lower case. Other bytes of a name are not text and stay as they are.
func lower(s string) string {
	for i := 0; i < len(s); i++ {
		if 'A' <= s[i] && s[i] <= 'Z' {
			b := []byte(s)
			for j := i; j < len(b); j++ {
				if 'A' <= b[j] && b[j] <= 'Z' {
					b[j] |= 0x20
				}
			}
			return string(b)
		}
	}
	return s
}
