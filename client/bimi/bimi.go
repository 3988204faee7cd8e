// Package bimi fetches and caches the logos that domains publish (BIMI). They are what a domain says of itself: no
// certificate proves that the logo is the domain's to use.
package bimi

import (
	"container/list"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"sync"
	"time"

	"doublet/client/reach"
	"doublet/env"
	"doublet/stat"
	"doublet/wire/bimi"

	"golang.org/x/sync/singleflight"
)

const (
	// within is the timeout of a lookup with its redirects.
	within = 15 * time.Second
	// maxRedirects is the maximum number of redirects that a request follows.
	maxRedirects = 3
	// maxAtOnce is the maximum number of lookups at the same time.
	maxAtOnce = 8
	// maxEntries bounds the domains in the cache, which has at most this many times bimi.MaxPicture bytes.
	maxEntries = 1000
	// life and lifeOfNone are the times after which a logo, and the lack of one, are looked up again.
	life       = 24 * time.Hour
	lifeOfNone = time.Hour
)

// ErrBusy means that too many lookups are in progress.
var ErrBusy = errors.New("too many lookups of logos, try again later")

// Resolver reads the records of domains. client/dns implements it.
type Resolver interface {
	TXT(ctx context.Context, name string) ([]string, bool, error)
}

// Cache looks logos up. It connects only to hosts that its Guard allows, over https. It is safe for concurrent use.
type Cache struct {
	env    *env.Env
	dns    Resolver
	http   *http.Client
	slots  chan struct{}
	flight singleflight.Group

	mu      sync.Mutex
	entries map[string]*list.Element // of *entry, by domain
	order   *list.List               // the entry used last is first

	hits, fetched, failed *stat.Counter
}

// entry is the state of a domain. picture is nil if it has no logo that can be shown.
type entry struct {
	domain  string
	picture []byte
	until   time.Time
}

// New returns a Cache. roots verifies the certificates of servers; if nil, the system's roots are used.
func New(e *env.Env, dns Resolver, guard *reach.Guard, roots *x509.CertPool, stats *stat.Tree) *Cache {
	c := &Cache{env: e, dns: dns, slots: make(chan struct{}, maxAtOnce),
		entries: make(map[string]*list.Element), order: list.New(),
		hits:    stats.Counter("Mail.Logos.Hits", "logos of senders that the cache had, or knew not to exist"),
		fetched: stats.Counter("Mail.Logos.Fetched", "logos of senders fetched (BIMI)"),
		failed:  stats.Counter("Mail.Logos.Failed", "logos of senders that could not be fetched, or were refused"),
	}
	stats.GaugeFunc("Mail.Logos.Cached", "domains in the cache of logos", func() float64 { return float64(c.length()) })
	c.http = guard.Client(reach.HTTP{Timeout: within, Roots: roots})
	c.http.CheckRedirect = func(r *http.Request, via []*http.Request) error {
		if len(via) > maxRedirects {
			return errors.New("too many redirects")
		}
		r.Header.Del("Referer")
		return nil
	}
	return c
}

func (c *Cache) length() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.entries)
}

// Picture returns the logo of the first of domains that has one: an SVG that bimi.Check accepts. The error is
// bimi.ErrNone if there is none that can be shown, and ErrBusy if it is not looked up now. The caller must not change
// the picture.
func (c *Cache) Picture(ctx context.Context, domains ...string) ([]byte, error) {
	for _, domain := range domains {
		e := c.cached(domain)
		if e == nil {
			// One lookup answers all who wait for it; it does not end with the request of the first of them.
			got, err, _ := c.flight.Do(domain,
				func() (any, error) { return c.look(context.WithoutCancel(ctx), domain) })
			if err != nil {
				return nil, err
			}
			e = got.(*entry)
		} else {
			c.hits.Inc()
		}
		if e.picture != nil {
			return e.picture, nil
		}
	}
	return nil, bimi.ErrNone
}

// cached returns the entry of a domain, or nil without a current one.
func (c *Cache) cached(domain string) *entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.entries[domain]
	if at == nil || !c.env.Clock.Now().Before(at.Value.(*entry).until) {
		return nil
	}
	c.order.MoveToFront(at)
	return at.Value.(*entry)
}

// look looks a domain up and keeps the result. A failure counts as no logo for a while, so that no domain makes the
// server try again with each message.
func (c *Cache) look(ctx context.Context, domain string) (*entry, error) {
	select {
	case c.slots <- struct{}{}:
		defer func() { <-c.slots }()
	default:
		return nil, ErrBusy
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	e := &entry{domain: domain}
	var err error
	e.picture, err = c.fetch(ctx, domain)
	now := c.env.Clock.Now()
	switch {
	case err == nil:
		c.fetched.Inc()
		e.until = now.Add(life)
	default:
		e.until = now.Add(lifeOfNone)
		if !errors.Is(err, bimi.ErrNone) {
			c.failed.Inc()
			c.env.Log.Info("bimi: no logo", "domain", domain, "err", err)
		}
	}
	c.keep(e)
	return e, nil
}

// keep puts an entry into the cache, in place of the one that was not used for longest if it is full.
func (c *Cache) keep(e *entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := c.entries[e.domain]; old != nil {
		c.order.Remove(old)
	}
	c.entries[e.domain] = c.order.PushFront(e)
	if len(c.entries) > maxEntries {
		last := c.order.Back()
		delete(c.entries, c.order.Remove(last).(*entry).domain)
	}
}

// fetch reads the record of a domain and downloads its logo.
func (c *Cache) fetch(ctx context.Context, domain string) ([]byte, error) {
	records, _, err := c.dns.TXT(ctx, bimi.Name(domain))
	if err != nil {
		return nil, err
	}
	location, err := bimi.Location(records)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, location, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("User-Agent", "Doublet")
	r.Header.Set("Accept", "image/svg+xml")
	out, err := c.http.Do(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = out.Body.Close() }()
	kind, _, _ := mime.ParseMediaType(out.Header.Get("Content-Type"))
	switch {
	case out.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("server answers %d", out.StatusCode)
	case kind != "image/svg+xml":
		return nil, fmt.Errorf("content type %.40q", kind)
	}
	svg, err := io.ReadAll(io.LimitReader(out.Body, bimi.MaxPicture+1))
	if err == nil {
		err = bimi.Check(svg)
	}
	if err != nil {
		return nil, err
	}
	return svg, nil
}

// Serve writes a logo as a picture: opened by itself it is a document without scripts, of no origin.
func Serve(w http.ResponseWriter, svg []byte) {
	h := w.Header()
	h.Set("Content-Type", "image/svg+xml")
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "private, max-age=3600")
	_, _ = w.Write(svg)
}
