package webcal

import (
	"context"
	"crypto/x509"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"doublet/client/reach"
	"doublet/env"
)

// names resolves all names to an address of this machine.
type names struct{}

func (names) Addresses(context.Context, string) ([]netip.Addr, bool, error) {
	return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, false, nil
}

// serve starts a server with a certificate, and returns its URL and a Client that may connect to networks.
func serve(t *testing.T, h http.HandlerFunc, allowed ...string) (string, *Client) {
	t.Helper()
	s := httptest.NewTLSServer(h)
	t.Cleanup(s.Close)
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())
	var networks []netip.Prefix
	for _, a := range allowed {
		networks = append(networks, netip.MustParsePrefix(a))
	}
	e := env.TestRealTime(t).Env
	return s.URL, New(reach.New(e, names{}, networks), pool)
}

func TestGet(t *testing.T) {
	t.Parallel()
	url, c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("Cookie") != "" || r.Header.Get("Authorization") != "" || r.Header.Get("Referer") != "":
			t.Error(r.Header)
		case r.URL.Path == "/moved":
			http.Redirect(w, r, "/feed", http.StatusFound)
		case r.URL.Path == "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		case r.URL.Path == "/plain":
			http.Redirect(w, r, "http://127.0.0.1/feed", http.StatusFound)
		case r.URL.Path == "/inner":
			http.Redirect(w, r, "https://10.0.0.1/feed", http.StatusFound)
		case r.URL.Path == "/large":
			_, _ = w.Write(make([]byte, MaxSize+1))
		case r.URL.Path == "/none":
			http.NotFound(w, r)
		case r.Header.Get("If-None-Match") == `"1"`:
			w.WriteHeader(http.StatusNotModified)
		default:
			w.Header().Set("ETag", `"1"`)
			_, _ = w.Write([]byte("BEGIN:VCALENDAR"))
		}
	}, "127.0.0.0/8")
	for _, path := range []string{"/feed", "/moved"} {
		a, err := c.Get(context.Background(), url+path, "", "")
		if err != nil || string(a.Text) != "BEGIN:VCALENDAR" || a.ETag != `"1"` {
			t.Fatal(path, a, err)
		}
	}
	if a, err := c.Get(context.Background(), url+"/feed", `"1"`, ""); err != nil || !a.Unchanged || a.ETag != `"1"` {
		t.Error(a, err)
	}
	var refused *Refused
	if _, err := c.Get(context.Background(), url+"/none", "", ""); !errors.As(err, &refused) || refused.Status != 404 {
		t.Error(err)
	}
	if _, err := c.Get(context.Background(), url+"/large", "", ""); !errors.Is(err, ErrTooLarge) {
		t.Error(err)
	}
	if _, err := c.Get(context.Background(), url+"/loop", "", ""); err == nil || !strings.Contains(err.Error(),
		"redirects") {
		t.Error(err)
	}
	for _, path := range []string{"/plain", "/inner"} {
		if _, err := c.Get(context.Background(), url+path, "", ""); !errors.Is(err, reach.ErrAddress) {
			t.Error(path, err)
		}
	}
}

// TestPrivate checks that a Client connects to no private address, whatever name leads there.
func TestPrivate(t *testing.T) {
	t.Parallel()
	url, c := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("connected") })
	port := url[strings.LastIndexByte(url, ':'):]
	for _, u := range []string{url, "https://localhost" + port, "https://far.example" + port, "http://far.example/",
		"https://u:p@far.example/", "file:///etc/passwd", "https://far.example:25/"} {
		if _, err := c.Get(context.Background(), u, "", ""); !errors.Is(err, reach.ErrAddress) {
			t.Error(u, err)
		}
	}
	for text, want := range map[string]string{" webcal://far.example/x?y#z ": "https://far.example/x?y",
		"WEBCALS://far.example/": "https://far.example/", "https://far.example/a": "https://far.example/a"} {
		if got, err := c.URL(text); got != want || err != nil {
			t.Error(got, err)
		}
	}
	if _, err := c.URL("webcal:far.example"); !errors.Is(err, reach.ErrAddress) {
		t.Error(err)
	}
}
