// Package mtasts fetches and caches MTA-STS policies (RFC 8461). A policy names the hosts that may receive a domain's
// mail, and requires TLS with a certificate for the host's name. Policies are cached for their lifetime, and persist
// across restarts if there is a Keep.
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

// Resolver is the DNS interface of a Cache. client/dns implements it.
type Resolver interface {
	TXT(ctx context.Context, name string) ([]string, bool, error)
	Addresses(ctx context.Context, host string) ([]netip.Addr, bool, error)
}

// Options are the settings of a Cache. Zero values mean the defaults.
type Options struct {
	Resolver Resolver
	// Roots are the trusted certificate authorities; nil means those of the system.
	Roots *x509.CertPool
	// Timeout is the time limit for fetching a policy (20 s, because mail waits for it).
	Timeout time.Duration
	// Entries is the maximum number of domains in the cache (10,000).
	Entries int
	// Port is the HTTPS port (443).
	Port string
	// Keep persists policies across restarts; nil means that they are not persisted.
	Keep  Keep
	Stats *stat.Tree
}

// Keep is a persistent table of short texts. mail/keep implements it.
type Keep interface {
	Each(ctx context.Context, fn func(key, value string)) error
	Put(key, value string)
	Drop(key string)
}

// Cache caches policies. Its methods may be called from any goroutine.
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

// entry is the cached state of a domain. An entry without a policy records that the policy with this id could not be
// fetched, and when to retry.
type entry struct {
	id      string
	trouble Trouble // why the policy with this id could not be fetched
	policy  *Policy
	until   time.Time // when the policy expires
	again   time.Time // the earliest retry after a failed fetch; zero after a success
}

// retryAfter is the time between a failed fetch of a policy and the next attempt.
const retryAfter = 5 * time.Minute

// New returns a Cache.
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
		// A redirect is a failure: RFC 8461 section 3.3 forbids senders to follow it.
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

// Answer is the result of a lookup. An Answer without a Policy demands nothing.
type Answer struct {
	Policy *Policy
	// Trouble is the reason why there is no policy although the domain's TXT record announces one.
	Trouble Trouble
}

// Trouble is a reason why a policy could not be fetched or used.
type Trouble string

// The reasons.
const (
	FetchError Trouble = "fetch"
	WebPKI     Trouble = "certificate"
	Invalid    Trouble = "policy"
)

// Enforced reports whether hosts must match the policy and present a certificate for their name.
func (a *Answer) Enforced() bool { return a.Policy != nil && a.Policy.Mode == Enforce }

// Fits reports whether the policy names a host. It returns false without a policy.
func (a *Answer) Fits(host string) bool { return a.Policy != nil && a.Policy.Fits(host) }

// Policy returns the current policy of a domain, given as A-labels in lower case. If a policy cannot be fetched, the
// Answer has none. A cached policy stays valid until it expires, whatever happens to its TXT record (RFC 8461 section
// 3.3).
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
			c.env.Log.Warn("mtasts: cannot fetch a policy", "domain", domain, "err", err)
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

// keep adds an entry to the cache. If the cache is full, it evicts an expired entry if one is among the first 32, else
// any other.
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

// text returns the persistent form of an entry: its expiry time, its id, and the policy as a domain publishes it.
func (e *entry) text() string {
	return fmt.Sprintf("%d %s\n%s\n", e.until.Unix(), e.id, strings.Join(e.policy.Lines(), "\n"))
}

// readEntry parses the result of text.
func readEntry(s string) (e entry, ok bool) {
	first, policy, _ := strings.Cut(s, "\n")
	until, id, _ := strings.Cut(first, " ")
	sec, err1 := strconv.ParseInt(until, 10, 64)
	p, err2 := ParsePolicy(policy)
	return entry{id: id, policy: &p, until: time.Unix(sec, 0)}, err1 == nil && err2 == nil
}

// load reads the persisted policies, and deletes those that have expired.
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
		c.env.Log.Error("mtasts: cannot read cached policies", "err", err)
	}
}

// fetch downloads a domain's policy.
//
// Implements: RFC 8461 §3.3 HTTPS policy fetching
func (c *Cache) fetch(ctx context.Context, domain string) (*Policy, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet,
		"https://mta-sts."+domain+"/.well-known/mta-sts.txt", nil)
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
