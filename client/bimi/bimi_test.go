package bimi

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"doublet/client/reach"
	"doublet/env"
	"doublet/stat"
	"doublet/wire/bimi"
)

const logo = `<svg xmlns="http://www.w3.org/2000/svg" version="1.2" baseProfile="tiny-ps" viewBox="0 0 9 9">` +
	`<title>Brand</title><path d="M0 0h9v9z"/></svg>`

// names has records by name. Every host is this machine.
type names struct {
	mu      sync.Mutex
	records map[string]string
	asked   int
}

func (n *names) TXT(_ context.Context, name string) ([]string, bool, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked++
	if r, ok := n.records[name]; ok {
		return []string{r}, false, nil
	}
	return nil, false, nil
}

func (*names) Addresses(context.Context, string) ([]netip.Addr, bool, error) {
	return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, false, nil
}

// world is a server with logos, and a Cache that may connect to networks.
func world(t *testing.T, allowed ...netip.Prefix) (*Cache, *names, *stat.Tree) {
	t.Helper()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Cookie") != "" || r.Header.Get("Referer") != "" {
			t.Error(r.Header)
		}
		w.Header().Set("Content-Type", "image/svg+xml; charset=utf-8")
		switch r.URL.Path {
		case "/moved.svg":
			http.Redirect(w, r, "/logo.svg", http.StatusFound)
		case "/inner.svg":
			http.Redirect(w, r, "https://10.0.0.1/logo.svg", http.StatusFound)
		case "/plain.svg":
			http.Redirect(w, r, "http://127.0.0.1/logo.svg", http.StatusFound)
		case "/loop.svg":
			http.Redirect(w, r, "/loop.svg", http.StatusFound)
		case "/none.svg":
			http.NotFound(w, r)
		case "/page.svg":
			w.Header().Set("Content-Type", "text/html")
			_, _ = w.Write([]byte(logo))
		case "/large.svg":
			_, _ = w.Write([]byte(strings.Replace(logo, "Brand", strings.Repeat("x", bimi.MaxPicture), 1)))
		case "/script.svg":
			_, _ = w.Write([]byte(strings.Replace(logo, "<path", "<script/><path", 1)))
		default:
			_, _ = w.Write([]byte(logo))
		}
	}))
	t.Cleanup(s.Close)
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	n := &names{records: map[string]string{}}
	for _, name := range []string{"logo", "moved", "inner", "plain", "loop", "none", "page", "large", "script"} {
		n.records[bimi.Name(name+".example")] = "v=BIMI1; l=" + s.URL + "/" + name + ".svg"
	}
	n.records[bimi.Name("bad.example")] = "v=BIMI1; l=http://bad.example/"
	n.records[bimi.Name("declined.example")] = "v=BIMI1; l="
	e := env.TestRealTime(t)
	tree := stat.New(e.Clock)
	return New(e.Env, n, reach.New(e.Env, n, allowed), roots, tree), n, tree
}

var loopback = netip.MustParsePrefix("127.0.0.0/8")

// TestPicture looks up logos of domains, good ones and all others.
func TestPicture(t *testing.T) {
	t.Parallel()
	c, n, _ := world(t, loopback)
	for domain, want := range map[string]bool{
		"logo.example": true, "moved.example": true, "inner.example": false, "plain.example": false,
		"loop.example": false, "none.example": false, "page.example": false, "large.example": false,
		"script.example": false, "bad.example": false, "declined.example": false, "silent.example": false,
	} {
		svg, err := c.Picture(t.Context(), domain)
		if want && (err != nil || string(svg) != logo) || !want && !errors.Is(err, bimi.ErrNone) {
			t.Errorf("%s: %q, %v", domain, svg, err)
		}
	}
	if svg, err := c.Picture(t.Context(), "news.logo.example", "logo.example"); err != nil || string(svg) != logo {
		t.Errorf("organization: %q, %v", svg, err)
	}
	asked := n.asked
	for _, domain := range []string{"logo.example", "none.example", "silent.example"} {
		_, _ = c.Picture(t.Context(), domain)
	}
	if n.asked != asked {
		t.Errorf("%d lookups of what the cache has", n.asked-asked)
	}
}

// TestGuarded: no host inside the network is reached, whatever a domain publishes.
func TestGuarded(t *testing.T) {
	t.Parallel()
	c, _, _ := world(t)
	if svg, err := c.Picture(t.Context(), "logo.example"); !errors.Is(err, bimi.ErrNone) {
		t.Errorf("%q, %v", svg, err)
	}
}

// TestBounds fills the cache, and lets its entries expire.
func TestBounds(t *testing.T) {
	t.Parallel()
	c, n, tree := world(t, loopback)
	_, _ = c.Picture(t.Context(), "logo.example")
	for i := range maxEntries + 10 {
		_, _ = c.Picture(t.Context(), fmt.Sprintf("d%d.example", i))
		_, _ = c.Picture(t.Context(), "logo.example") // used, so it stays
	}
	if c.length() != maxEntries || c.order.Len() != maxEntries {
		t.Errorf("%d entries, %d in order", c.length(), c.order.Len())
	}
	asked := n.asked
	if svg, err := c.Picture(t.Context(), "logo.example"); err != nil || string(svg) != logo || n.asked != asked {
		t.Errorf("%q, %v after %d lookups", svg, err, n.asked-asked)
	}
	if got := tree.Snapshot("Mail.Logos.Cached"); len(got) != 1 || got[0].Value != maxEntries {
		t.Errorf("statistic: %+v", got)
	}
	for range maxAtOnce {
		c.slots <- struct{}{}
	}
	if _, err := c.Picture(t.Context(), "page.example"); !errors.Is(err, ErrBusy) {
		t.Errorf("with all lookups taken: %v", err)
	}
	c.mu.Lock()
	c.entries["logo.example"].Value.(*entry).until = time.Time{}
	c.mu.Unlock()
	if _, err := c.Picture(t.Context(), "logo.example"); !errors.Is(err, ErrBusy) {
		t.Errorf("an entry that has expired: %v", err)
	}
}
