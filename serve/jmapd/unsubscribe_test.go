package jmapd

import (
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"doublet/client/oneclick"
	"doublet/client/reach"
	"doublet/env"
)

// noHosts resolves no host name.
type noHosts struct{}

func (noHosts) Addresses(context.Context, string) ([]netip.Addr, bool, error) { return nil, false, nil }

// TestUnsubscribe leaves lists by one request: to a server that accepts it, one that does not, one that redirects, and
// one whose address the server must not reach.
func TestUnsubscribe(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var got []string
	list := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		got = append(got, r.Method+" "+r.URL.String()+" "+r.Header.Get("Content-Type")+" "+string(body)+
			r.Header.Get("Cookie"))
		mu.Unlock()
		switch r.URL.Path {
		case "/gone":
			w.WriteHeader(http.StatusGone)
		case "/moved":
			http.Redirect(w, r, "/left", http.StatusFound)
		}
	}))
	t.Cleanup(list.Close)
	roots := x509.NewCertPool()
	roots.AddCert(list.Certificate())
	w := open(t, settings{})
	real := env.Real(slog.New(slog.DiscardHandler))
	allowed := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	w.server.opt.Hostname = "mx.example.com"
	message := func(url string) string {
		return "Authentication-Results: mx.example.com; dkim=pass header.d=list.example header.s=s1\r\n" +
			"DKIM-Signature: v=1; a=rsa-sha256; d=list.example; s=s1; c=relaxed/relaxed;\r\n" +
			" h=From:List-Unsubscribe:List-Unsubscribe-Post;\r\n" +
			" bh=47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=; b=YWJj\r\n" +
			"From: news@list.example\r\nSubject: News\r\nList-Unsubscribe: <" + url + ">\r\n" +
			"List-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n\r\nNews\r\n"
	}
	p := &player{t: t, w: w, who: "alice", vars: map[string]string{"account": w.account("alice")}}
	p.folders()
	ask := func(raw, want string) {
		t.Helper()
		p.play("unsubscribe", 0, "mail INBOX\n| "+strings.ReplaceAll(strings.TrimSuffix(raw, "\r\n"), "\r\n", "\n| "))
		p.play("unsubscribe", 0, fmt.Sprintf(
			`C: [["Email/unsubscribe",{"accountId":"${account}","emailId":"${mail%d}"},"0"]]`, p.mails)+"\nS: "+want)
	}
	const left = `[["Email/unsubscribe",{"accountId":"*","emailId":"*"},"0"]]`
	refused := func(kind string) string { return `[["error",{"type":"` + kind + `","description":"*"},"0"]]` }
	w.server.opt.Lists = oneclick.New(reach.New(real, noHosts{}, allowed), roots)
	ask(message(list.URL+"/left?who=alice"), left)
	ask(message(list.URL+"/gone"), refused("listRefused"))
	ask(message(list.URL+"/moved"), refused("listRefused"))
	ask(strings.Replace(message(list.URL+"/unproven"), "dkim=pass", "dkim=fail", 1), refused("noOneClick"))
	ask(message("https://unknown.example/"), refused("noOneClick"))
	w.server.opt.Lists = oneclick.New(reach.New(real, noHosts{}, nil), roots)
	ask(message(list.URL+"/private"), refused("noOneClick"))
	p.play("unsubscribe", 0, `C: [["Email/unsubscribe",{"accountId":"${account}","emailId":"Mxyz"},"0"]]`+
		"\n"+`S: [["error",{"type":"notFound"},"0"]]`)
	mu.Lock()
	defer mu.Unlock()
	const sent = " application/x-www-form-urlencoded List-Unsubscribe=One-Click"
	want := []string{"POST /left?who=alice" + sent, "POST /gone" + sent, "POST /moved" + sent}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%q", got)
	}
}
