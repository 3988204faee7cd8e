package reach

import (
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"doublet/env"
)

// TestClient checks that every request of a client goes to an allowed URL, also one that follows a redirect, and that a
// redirect is not followed unless the user of the client asks for it.
func TestClient(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		switch r.URL.Path {
		case "/inside":
			http.Redirect(w, r, "https://10.0.0.1/", http.StatusFound)
		case "/plain":
			http.Redirect(w, r, "http://"+r.Host+"/", http.StatusFound)
		}
	}))
	defer s.Close()
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	e := env.TestRealTime(t).Env
	g := New(e, names{}, []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")})
	o := HTTP{Timeout: 10 * time.Second, Roots: roots}
	c := g.Client(o)
	get := func(c *http.Client, url string) (status int, err error) {
		a, err := c.Get(url)
		if err == nil {
			_, _ = io.Copy(io.Discard, a.Body)
			status, err = a.StatusCode, a.Body.Close()
		}
		return status, err
	}
	if status, err := get(c, s.URL); status != 200 || err != nil {
		t.Errorf("%d, %v", status, err)
	}
	if status, err := get(c, s.URL+"/inside"); status != 302 || err != nil {
		t.Errorf("%d, %v", status, err)
	}
	follows := g.Client(o)
	follows.CheckRedirect = nil
	asked.Store(0)
	for _, url := range []string{s.URL + "/inside", s.URL + "/plain", strings.Replace(s.URL, "https", "http", 1),
		"https://10.0.0.1/", "https://user@" + strings.TrimPrefix(s.URL, "https://")} {
		if _, err := get(follows, url); !errors.Is(err, ErrAddress) {
			t.Errorf("%s: %v", url, err)
		}
	}
	if n := asked.Load(); n != 2 {
		t.Errorf("the server was asked %d times, want 2", n)
	}
}
