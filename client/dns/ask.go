package dns

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/miekg/dns"
)

// answer is the cached answer to a question.
type answer struct {
	records any // []T of the question's type
	secure  bool
	err     error
	expires time.Time
	size    int // approximate size of the records in bytes
}

// raw is the answer of the servers: the records of the name at the end of the alias chain.
type raw struct {
	found  []dns.RR
	secure bool
	ttl    time.Duration
}

// question is the key of the cache.
type question struct {
	name string // lower case, without a final dot
	kind uint16
}

// fresh is the context key that disables reading from the cache.
type fresh struct{}

// Fresh returns a context whose questions are not answered from the cache. It is for callers that have just published a
// record and check that it is visible. The answers are cached as usual.
func Fresh(ctx context.Context) context.Context { return context.WithValue(ctx, fresh{}, true) }

// ask answers a question from the cache or from the servers. take converts the records for the caller. If take returns
// no records, the answer is ErrNotFound.
func ask[T any](ctx context.Context, r *Resolver, name string, kind uint16,
	take func([]dns.RR) []T) ([]T, bool, error) {
	q := question{plain(name), kind}
	if !validName(q.name) {
		return nil, false, fmt.Errorf("dns: %.100q is not a name: %w", name, ErrNotFound)
	}
	key, cached := q.key(), ctx.Value(fresh{}) == nil
	if !cached {
		key += " fresh"
	}
	if a, ok := r.cache.get(q, r.env.Clock.Now()); ok && cached {
		r.hits.Inc()
		records, _ := a.records.([]T)
		return records, a.secure, a.err
	}
	// Concurrent callers with the same question share one answer. It is fetched even if the first caller's context
	// ends; resolve has its own time limit.
	done := r.flight.DoChan(key, func() (any, error) {
		// Another call may have got the answer after the look at the cache.
		if a, ok := r.cache.get(q, r.env.Clock.Now()); ok && cached {
			return a, nil
		}
		a := answer{expires: r.env.Clock.Now().Add(failureTTL)}
		got, err := r.resolve(q)
		now := r.env.Clock.Now()
		switch {
		case err == nil:
			records := take(got.found)
			for _, rr := range got.found {
				a.size += dns.Len(rr)
			}
			if a.records, a.secure = records, got.secure; len(records) == 0 {
				a.err = notFound(q)
			}
			a.expires = now.Add(got.ttl)
		case errors.Is(err, ErrNotFound):
			a.err, a.secure, a.expires = err, got.secure, now.Add(got.ttl)
		default:
			r.failed.Inc()
			a.err, a.expires = err, now.Add(failureTTL)
		}
		r.cache.put(q, a, now)
		return a, nil
	})
	select {
	case <-ctx.Done():
		return nil, false, fmt.Errorf("dns: %s %s: %w: %w", typeName(kind), q.name, ErrTemporary, ctx.Err())
	case result := <-done:
		a, _ := result.Val.(answer)
		records, _ := a.records.([]T)
		return records, a.secure, a.err
	}
}

func (q question) key() string { return typeName(q.kind) + " " + q.name }

func typeName(kind uint16) string { return dns.TypeToString[kind] }

func notFound(q question) error {
	return fmt.Errorf("dns: %s %s: %w", typeName(q.kind), q.name, ErrNotFound)
}

// validName reports whether a name can be looked up: it has labels of 1 to 63 bytes, at most 253 bytes in all, and no
// bytes that need an escape in the text form of names.
func validName(name string) bool {
	if name == "" || len(name) > 253 {
		return false
	}
	label := 0
	for i := 0; i < len(name); i++ {
		switch c := name[i]; {
		case c == '.':
			if label == 0 {
				return false
			}
			label = 0
		case c <= ' ' || c >= 0x7f || c == '\\' || c == '"' || c == '(' || c == ')' || c == ';' || c == '@' || c == '$':
			return false
		default:
			if label++; label > 63 {
				return false
			}
		}
	}
	return label > 0
}

// resolve asks the servers and follows aliases. One reply usually contains most of a chain; if the end is missing,
// resolve asks for the next name.
func (r *Resolver) resolve(q question) (raw, error) {
	out := raw{secure: true, ttl: maxTTL}
	name := dns.Fqdn(q.name)
	steps := 0
	until := r.env.Clock.Now().Add(maxTime)
	for {
		if r.env.Clock.Now().After(until) {
			return raw{}, fmt.Errorf("dns: %s %s: %w: too many aliases", typeName(q.kind), q.name, ErrTemporary)
		}
		reply, trusted, err := r.exchange(name, q.kind)
		if err != nil {
			return raw{}, fmt.Errorf("dns: %s %s: %w", typeName(q.kind), q.name, err)
		}
		out.secure = out.secure && trusted && reply.AuthenticatedData
		end, err := follow(reply, lower(name), q.kind, &out, &steps)
		if err != nil {
			return raw{}, fmt.Errorf("dns: %s %s: %w", typeName(q.kind), q.name, err)
		}
		if len(out.found) > 0 {
			return out, nil
		}
		if reply.Rcode == dns.RcodeNameError || end == lower(name) {
			out.ttl = min(out.ttl, negativeTTL(reply))
			return out, notFound(q)
		}
		name = end
	}
}

// follow follows the aliases in a reply from name on, adds the records at the end of the chain to out, and returns the
// last name. It ignores records of names that are not in the chain.
func follow(reply *dns.Msg, name string, kind uint16, out *raw, steps *int) (string, error) {
	for {
		next := ""
		for _, rr := range reply.Answer {
			h := rr.Header()
			if h.Class != dns.ClassINET || lower(h.Name) != name {
				continue
			}
			if h.Rrtype == kind {
				// MX records are chosen by preference, so all of them are read; the size of a message bounds their
				// number.
				if len(out.found) < MaxRecords || kind == dns.TypeMX {
					out.found = append(out.found, rr)
				}
				out.ttl = min(out.ttl, time.Duration(h.Ttl)*time.Second)
			} else if c, ok := rr.(*dns.CNAME); ok && next == "" {
				next = lower(c.Target)
				out.ttl = min(out.ttl, time.Duration(h.Ttl)*time.Second)
			}
		}
		if len(out.found) > 0 || next == "" {
			return name, nil
		}
		if *steps++; *steps > maxChain {
			return "", fmt.Errorf("%w: more than %d aliases", ErrTemporary, maxChain)
		}
		name = next
	}
}

// negativeTTL returns how long a negative answer is cached: the TTL from the zone's SOA record (RFC 2308 §5), bounded.
// A negative answer without SOA is cached as briefly as a failure, so that a burst of mail still asks only once.
func negativeTTL(reply *dns.Msg) time.Duration {
	for _, rr := range reply.Ns {
		if soa, ok := rr.(*dns.SOA); ok {
			return min(time.Duration(min(soa.Minttl, soa.Hdr.Ttl))*time.Second, maxNegativeTTL)
		}
	}
	return failureTTL
}

// unescape joins the strings of a TXT record, and decodes the escapes \DDD and \c that the DNS library puts into them.
func unescape(parts []string) string {
	n, plain := 0, true
	for _, p := range parts {
		n += len(p)
		for i := 0; i < len(p) && plain; i++ {
			plain = p[i] != '\\'
		}
	}
	if plain && len(parts) == 1 {
		return parts[0]
	}
	out := make([]byte, 0, n)
	for _, p := range parts {
		for i := 0; i < len(p); i++ {
			c := p[i]
			if c != '\\' || i+1 == len(p) {
				out = append(out, c)
				continue
			}
			i++
			if i+2 < len(p) && digit(p[i]) && digit(p[i+1]) && digit(p[i+2]) {
				out = append(out, (p[i]-'0')*100+(p[i+1]-'0')*10+p[i+2]-'0')
				i += 2
				continue
			}
			out = append(out, p[i])
		}
	}
	return string(out)
}

func digit(c byte) bool { return '0' <= c && c <= '9' }
