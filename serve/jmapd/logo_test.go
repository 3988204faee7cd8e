package jmapd

import (
	"context"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	logos "doublet/client/bimi"
	"doublet/client/reach"
	"doublet/env"
	"doublet/stat"
)

// logoNames publishes the logo of brand.example.
type logoNames struct {
	noHosts
	record string
}

func (n logoNames) TXT(_ context.Context, name string) ([]string, bool, error) {
	if name != "default._bimi.brand.example" {
		return nil, false, nil
	}
	return []string{n.record}, false, nil
}

// TestLogo reads the logos of senders: of a message that DMARC proves, and of others.
func TestLogo(t *testing.T) {
	t.Parallel()
	const svg = `<svg xmlns="http://www.w3.org/2000/svg" version="1.2" baseProfile="tiny-ps"><title>Brand</title></svg>`
	asked := 0
	site := httptest.NewTLSServer(http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) {
		asked++
		out.Header().Set("Content-Type", "image/svg+xml")
		_, _ = out.Write([]byte(svg))
	}))
	t.Cleanup(site.Close)
	roots := x509.NewCertPool()
	roots.AddCert(site.Certificate())
	real := env.Real(slog.New(slog.DiscardHandler))
	names := logoNames{record: "v=BIMI1; l=" + site.URL + "/logo.svg"}
	w := open(t, settings{})
	w.server.opt.Hostname = "mx.example.com"
	p := &player{t: t, w: w, who: "alice", vars: map[string]string{"account": w.account("alice")}}
	p.folders()
	put := func(header string) (id string) {
		t.Helper()
		p.play("logo", 0, "mail INBOX\n| "+strings.ReplaceAll(header, "\r\n", "\n| ")+"Subject: s\n|\n| Text")
		return p.vars[fmt.Sprintf("mail%d", p.mails)]
	}
	const passed = "Authentication-Results: mx.example.com;\r\n" +
		" dmarc=pass (p=reject applied=none) header.from=brand.example\r\n" +
		"From: news@brand.example\r\n"
	id := put(passed)
	path := func(id string) string { return "/jmap/logo/" + p.vars["account"] + "/" + id }
	if out := w.do("alice", "GET", path(id), "", nil); out.Code != http.StatusNotFound {
		t.Errorf("switched off: %d", out.Code)
	}
	w.server.opt.Logos = logos.New(real, names, reach.New(real, noHosts{}, []netip.Prefix{
		netip.MustParsePrefix("127.0.0.0/8")}), roots, stat.New(real.Clock))
	w.server.Handle("GET "+PathLogo, logo(w.server))
	for range 2 {
		out := w.do("alice", "GET", path(id), "", nil)
		h := out.Header()
		if out.Code != http.StatusOK || out.Body.String() != svg || h.Get("Content-Type") != "image/svg+xml" ||
			!strings.HasPrefix(h.Get("Content-Security-Policy"), "sandbox; default-src 'none'") ||
			h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%d %v %q", out.Code, h, out.Body)
		}
	}
	if asked != 1 {
		t.Errorf("%d downloads", asked)
	}
	for name, c := range map[string]struct{ who, path string }{
		"another's message":  {"bob", path(id)},
		"no such message":    {"alice", path("Mxyz")},
		"no such account":    {"alice", "/jmap/logo/a0/" + id},
		"results of another": {"alice", path(put(strings.Replace(passed, "mx.example.com", "evil.example", 1)))},
		"not proven":         {"alice", path(put("From: news@brand.example\r\n"))},
		"without a logo":     {"alice", path(put(strings.ReplaceAll(passed, "brand.example", "plain.example")))},
	} {
		if out := w.do(c.who, "GET", c.path, "", nil); out.Code != http.StatusNotFound {
			t.Errorf("%s: %d", name, out.Code)
		}
	}
}
