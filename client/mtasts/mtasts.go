// Package mtasts learns and keeps what domains demand of those who send them mail: which hosts may
// take it, and that TLS with a certificate of their name is used (RFC 8461). Policies are kept for as
// long as they say, over a restart too where there is a Keep.
package mtasts

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"doublet/env"
	"doublet/stat"

	"golang.org/x/sync/singleflight"
)

// Resolver is what is asked of the DNS: client/dns has it.
type Resolver interface {
	TXT(ctx context.Context, name string) ([]string, bool, error)
	Addresses(ctx context.Context, host string) ([]netip.Addr, bool, error)
}

// Options are the settings of a Cache. Zero values take the defaults.
type Options struct {
	Resolver Resolver
	// Roots are the certificate authorities that are trusted; nil: those of the system.
	Roots *x509.CertPool
	// Timeout is how long fetching a policy may take (20 s: the mail waits for it).
	Timeout time.Duration
	// Entries is of how many domains something is remembered (10,000).
	Entries int
	// Port is HTTPS's (443).
	Port string
	// Keep is where policies outlive a restart; nil: nowhere.
	Keep  Keep
	Stats *stat.Tree
}

// Keep is a table of short texts that outlives the process. mail/keep has it.
type Keep interface {
	Each(ctx context.Context, fn func(key, value string)) error
	Put(key, value string)
	Drop(key string)
}

// Cache holds policies. Its methods may be called from any goroutine.
type Cache struct {
	env    *env.Env
	opt    Options
	client *http.Client
	flight singleflight.Group
	loaded sync.Once

	mu      sync.Mutex
	entries map[string]entry

	fetched, failed, testing *stat.Counter
}

// entry is what is known of a domain. One without a policy says that none could be had under this
// id, until it is time to ask again.
type entry struct {
	id      string
	trouble Trouble // why there is no policy under this id
	policy  *Policy
	until   time.Time // the policy holds
	again   time.Time // not fetched before, after a failure
}

// retryAfter is how long a policy that could not be fetched is not asked for again.
const retryAfter = 5 * time.Minute

// New makes a Cache.
func New(e *env.Env, o Options) *Cache {
	if o.Timeout <= 0 {
		o.Timeout = 20 * time.Second
	}
	if o.Entries <= 0 {
		o.Entries = 10_000
	}
	if o.Port == "" {
		o.Port = "443"
	}
	c := &Cache{env: e, opt: o, entries: make(map[string]entry)}
	c.fetched = o.Stats.Counter("Mail.MTASTS.Fetched", "MTA-STS policies fetched")
	c.failed = o.Stats.Counter("Mail.MTASTS.Failed", "MTA-STS policies that could not be fetched")
	c.testing = o.Stats.Counter("Mail.MTASTS.Testing", "times that a policy in testing was met, which demands nothing")
	c.client = &http.Client{
		Timeout: o.Timeout,
		// A redirect is a failure: the policy host speaks for itself.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DialContext:            c.dial,
			TLSClientConfig:        &tls.Config{RootCAs: o.Roots, Time: e.Clock.Now, MinVersion: tls.VersionTLS12},
			DisableKeepAlives:      true,
			MaxResponseHeaderBytes: 32 << 10,
		},
	}
	return c
}

func (c *Cache) dial(ctx context.Context, _, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	list, _, err := c.opt.Resolver.Addresses(ctx, host)
	if err != nil {
		return nil, err
	}
	for _, a := range list[:min(len(list), 4)] {
		var conn net.Conn
		if conn, err = c.env.Dial("tcp", net.JoinHostPort(a.String(), c.opt.Port), c.opt.Timeout/2); err == nil {
			return conn, nil
		}
	}
	return nil, err
}

// Answer is what is known of a domain. Without a Policy it demands nothing.
type Answer struct {
	Policy *Policy
	// Trouble tells why there is no policy although the domain says that it has one.
	Trouble Trouble
}

// Trouble is a reason for which a policy cannot be had.
type Trouble string

// The reasons.
const (
	FetchError Trouble = "fetch"
	WebPKI     Trouble = "certificate"
	Invalid    Trouble = "policy"
)

// Enforced reports whether hosts must fit the policy and show a certificate of their name.
func (a *Answer) Enforced() bool { return a.Policy != nil && a.Policy.Mode == Enforce }

// Fits reports whether a policy names a host. It is false without a policy.
func (a *Answer) Fits(host string) bool { return a.Policy != nil && a.Policy.Fits(host) }

// Policy tells what a domain, as A-labels in lower case, demands now. A policy that could not be fetched is none, and
// one that is kept holds whatever happens to its record (RFC 8461 section 3.3).
//
// Implements: RFC 8461 §5.1 Policy application control flow
func (c *Cache) Policy(ctx context.Context, domain string) Answer {
	a := c.lookup(ctx, domain)
	if a.Policy != nil && a.Policy.Mode == Testing {
		c.testing.Inc()
	}
	return a
}

func (e *entry) answer() Answer { return Answer{e.policy, e.trouble} }

func (c *Cache) lookup(ctx context.Context, domain string) Answer {
	records, _, err := c.opt.Resolver.TXT(ctx, "_mta-sts."+domain)
	id, published := recordID(records)
	c.loaded.Do(c.load)
	now := c.env.Clock.Now()
	c.mu.Lock()
	have := c.entries[domain]
	c.mu.Unlock()
	valid := have.policy != nil && now.Before(have.until)
	switch {
	case err != nil || !published, have.id == id && (valid && have.again.IsZero() || now.Before(have.again)):
		switch {
		case valid:
			return Answer{Policy: have.policy}
		case err == nil && published:
			return Answer{Trouble: have.trouble}
		}
		return Answer{}
	}
	got, _, _ := c.flight.Do(domain, func() (any, error) {
		p, err := c.fetch(ctx, domain)
		next := entry{id: id, policy: p, until: now.Add(p.age())}
		if err != nil {
			c.failed.Inc()
			c.env.Log.Warn("mtasts: policy cannot be had", "domain", domain, "err", err)
			next = entry{id: id, trouble: troubleOf(err), again: now.Add(retryAfter)}
			if valid {
				next.policy, next.until, next.trouble = have.policy, have.until, ""
			}
		} else {
			c.fetched.Inc()
		}
		c.keep(domain, next)
		return next.answer(), nil
	})
	a, _ := got.(Answer)
	return a
}

func troubleOf(err error) Trouble {
	var tlsErr *tls.CertificateVerificationError
	switch {
	case errors.Is(err, errPolicy):
		return Invalid
	case errors.As(err, &tlsErr):
		return WebPKI
	}
	return FetchError
}

func (p *Policy) age() time.Duration {
	if p == nil {
		return 0
	}
	return p.MaxAge
}

// keep remembers an entry. One that holds no longer, or else any other, makes room for it.
func (c *Cache) keep(domain string, e entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.entries[domain]; !ok && len(c.entries) >= c.opt.Entries {
		now, victim, looked := c.env.Clock.Now(), "", 0
		for d, old := range c.entries {
			if victim = d; !now.Before(old.until) {
				break
			}
			if looked++; looked == 32 {
				break
			}
		}
		delete(c.entries, victim)
		if c.opt.Keep != nil {
			c.opt.Keep.Drop(victim)
		}
	}
	c.entries[domain] = e
	if c.opt.Keep != nil && e.policy != nil {
		c.opt.Keep.Put(domain, e.text())
	}
}

// text is an entry as it is kept: when it ends, its id, and the policy as a domain publishes it.
func (e *entry) text() string {
	return fmt.Sprintf("%d %s\n%s\n", e.until.Unix(), e.id, strings.Join(e.policy.Lines(), "\n"))
}

// readEntry reads what text wrote.
func readEntry(s string) (e entry, ok bool) {
	first, policy, _ := strings.Cut(s, "\n")
	until, id, _ := strings.Cut(first, " ")
	sec, err1 := strconv.ParseInt(until, 10, 64)
	p, err2 := ParsePolicy(policy)
	return entry{id: id, policy: &p, until: time.Unix(sec, 0)}, err1 == nil && err2 == nil
}

// load takes in what was kept, and has forgotten what holds no longer.
func (c *Cache) load() {
	if c.opt.Keep == nil {
		return
	}
	now := c.env.Clock.Now()
	err := c.opt.Keep.Each(context.Background(), func(domain, text string) {
		e, ok := readEntry(text)
		c.mu.Lock()
		defer c.mu.Unlock()
		if !ok || !now.Before(e.until) || len(c.entries) >= c.opt.Entries {
			c.opt.Keep.Drop(domain)
			return
		}
		c.entries[domain] = e
	})
	if err != nil {
		c.env.Log.Error("mtasts: kept policies cannot be read", "err", err)
	}
}

// fetch gets a domain's policy.
//
// Implements: RFC 8461 §3.3 HTTPS policy fetching
func (c *Cache) fetch(ctx context.Context, domain string) (*Policy, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://mta-sts."+domain+"/.well-known/mta-sts.txt", nil)
	if err != nil {
		return nil, fmt.Errorf("mtasts: %w", err)
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("mtasts: %w", err)
	}
	defer resp.Body.Close()
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	switch {
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("mtasts: status %d", resp.StatusCode)
	case !strings.EqualFold(kind, "text/plain"):
		return nil, fmt.Errorf("mtasts: content type %.40q", kind)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxPolicyBytes+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("mtasts: %w", err)
	case len(body) > maxPolicyBytes:
		return nil, errors.New("mtasts: policy is too long")
	}
	p, err := ParsePolicy(string(body))
	if err != nil {
		return nil, err
	}
	return &p, nil
}
