package lite

import (
	"context"
	"crypto/x509"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"doublet/client/bimi"
	"doublet/client/reach"
	"doublet/env"
	"doublet/stat"
)

// logoNames publishes one record for every domain but plain.example.
type logoNames struct {
	noHosts
	record string
}

func (n logoNames) TXT(_ context.Context, name string) ([]string, bool, error) {
	if name == "default._bimi.plain.example" {
		return nil, false, nil
	}
	return []string{n.record}, false, nil
}

// TestLogo shows the logo of a sender beside mail that DMARC proves, where the settings allow it.
func TestLogo(t *testing.T) {
	t.Parallel()
	const svg = `<svg xmlns="http://www.w3.org/2000/svg" version="1.2" baseProfile="tiny-ps"><title>Brand</title></svg>`
	site := httptest.NewTLSServer(http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) {
		out.Header().Set("Content-Type", "image/svg+xml")
		_, _ = out.Write([]byte(svg))
	}))
	t.Cleanup(site.Close)
	roots := x509.NewCertPool()
	roots.AddCert(site.Certificate())
	w := open(t, 0)
	w.lite.opt.Hostname = "mx.example.com"
	const passed = "Authentication-Results: mx.example.com;\n" +
		" dmarc=pass (p=reject applied=none) header.from=brand.example\n" +
		"From: news@brand.example\nSubject: Proven\n\nNews\n"
	proven := w.put("alice", "INBOX", passed)
	doubtful := w.put("alice", "INBOX", strings.Replace(passed, "dmarc=pass", "dmarc=fail", 1))
	plain := w.put("alice", "INBOX", strings.ReplaceAll(passed, "brand.example", "plain.example"))
	const picture = `<img class="logo" src="/lite/logo?`
	b := w.signed("alice")
	b.get(pathRead + "?m=" + proven)
	b.want(200, "<h1><bdi>Proven")
	b.lacks(picture) // switched off
	b.get(pathLogo + "?m=" + proven)
	b.want(404)
	real := env.Real(slog.New(slog.DiscardHandler))
	w.lite.opt.Logos = bimi.New(real, logoNames{record: "v=BIMI1; l=" + site.URL + "/logo.svg"},
		reach.New(real, noHosts{}, []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}), roots, stat.New(real.Clock))
	b.get(pathRead + "?m=" + proven)
	b.want(200, picture)
	b.get(pathLogo + "?m=" + proven)
	b.want(200, svg)
	if got := b.header.Get("Content-Security-Policy"); got != "sandbox; default-src 'none'" {
		t.Errorf("policy %q", got)
	}
	b.get(pathRead + "?m=" + doubtful)
	b.lacks(picture)
	for _, id := range []string{doubtful, plain} {
		b.get(pathLogo + "?m=" + id)
		b.want(404)
	}
	bob := w.signed("bob")
	bob.get(pathLogo + "?m=" + proven)
	bob.want(404)
}
