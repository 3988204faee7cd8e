// Package dns asks the domain name system: the one resolver of a server, which everything asks that
// needs a name. It is a stub: a recursive resolver (the servers of the configuration, or those of
// /etc/resolv.conf) does the walking, and is not believed blindly: an answer to another question is
// dropped, what does not belong to the name asked is passed over, chains and counts are bounded.
//
// Every question returns records, whether they are secure (DNSSEC, by the word of a resolver that
// is trusted), and an error of one of two kinds: ErrNotFound, which is an answer, and
// ErrTemporary, after which one asks again later.
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
	// ErrNotFound says that the name does not exist, or has no records of the type asked for.
	ErrNotFound = errors.New("no such record")
	// ErrTemporary says that there is no answer now: servers failed, were silent or lied.
	ErrTemporary = errors.New("name server trouble")
)

// Bounds of what an answer may be.
const (
	// MaxRecords is how many records of an answer are used.
	MaxRecords = 100
	// MaxMX is how many mail exchangers of a domain are used, the most preferred ones.
	MaxMX = 20
	// maxChain bounds how many aliases (CNAME) are followed.
	maxChain = 8
	// maxTime is after how long no further alias is followed.
	maxTime = 30 * time.Second
	// maxTextBytes bounds one TXT record.
	maxTextBytes = 16 << 10
)

// Bounds of how long an answer is kept. A failure is kept for the least time that RFC 9520 asks for,
// so that a burst of mail to a broken domain asks once a second.
const (
	maxTTL         = 24 * time.Hour
	maxNegativeTTL = 15 * time.Minute
	failureTTL     = time.Second
)

// Options are a Resolver's settings.
type Options struct {
	// Servers are resolvers, each an address or address:port. None: those of /etc/resolv.conf, read
	// again when the file changes.
	Servers []string
	// Trusted are those of the resolvers (addresses) whose word about DNSSEC counts. Loopback always
	// does.
	Trusted []string
	// Timeout is how long one server is waited for; 0: 3 seconds.
	Timeout time.Duration
	// Attempts is how often all servers are asked; 0: twice.
	Attempts int
	// CacheEntries bounds the answers that are kept, of 1 KB on average; 0: 20,000.
	CacheEntries int
	// Stats receives DNS.*; it may be nil.
	Stats *stat.Tree
}

// MX is a mail exchanger. Host "." means that the domain takes no mail (RFC 7505).
type MX struct {
	Pref uint16
	Host string
}

// TLSA is a certificate association (RFC 6698).
type TLSA struct {
	Usage, Selector, Matching uint8
	Data                      []byte
}

// SRV is where a service is (RFC 2782).
type SRV struct {
	Priority, Weight, Port uint16
	Target                 string
}

// CAA is a permission to issue certificates (RFC 8659).
type CAA struct {
	Flag       uint8
	Tag, Value string
}

// Resolver asks. Its methods may be called from any goroutine. Names are A-labels in any case, with
// or without a final dot; those that come back are in lower case and without one. The records of an
// answer are shared with the cache: they are not to be changed.
type Resolver struct {
	env     *env.Env
	opt     Options
	trusted []netip.Addr
	cache   *cache
	flight  singleflight.Group
	// first is the place in the list of the server that answered last.
	first atomic.Uint32

	mu      sync.Mutex
	servers []server
	checked time.Time // when resolv.conf was looked at
	changed time.Time // its modification time

	queries, hits, failed, dropped *stat.Counter
}

// server is one resolver.
type server struct {
	address string
	trusted bool
}

// New makes a resolver. It asks nothing yet.
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

// MX returns a domain's mail exchangers, the most preferred first, at most MaxMX. A domain that
// takes no mail has one, whose host is ".".
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

// Addresses returns a host's addresses, IPv6 before IPv4. They are secure where both answers are. An
// address literal is its own answer, and localhost is this machine
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
	// One family that is there serves, but what is not there is known only when both say so.
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

// AAAA returns a host's IPv6 addresses. One that stands for an IPv4 address is passed over.
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

// TXT returns a name's texts, the strings of each record joined.
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

// PTR returns the names that an address says it has. Nothing proves that they are its own: look
// them up.
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

// SRV returns where a service such as _imaps._tcp.example.com is, by priority, then weight.
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

// CAA returns who may issue certificates for a name. It does not climb to the domain above.
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

// CNAME returns what a name is an alias of: the first step, not the end of a chain.
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

// plain is a name in the form that callers get: lower case, no final dot, but "." itself.
func plain(name string) string {
	if name == "." {
		return name
	}
	return lower(strings.TrimSuffix(name, "."))
}

// lower folds ASCII alone: the bytes of a name are no text.
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
