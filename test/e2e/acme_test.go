package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	web "net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"doublet/env"
	"doublet/serve/certs"
	"doublet/stat"
)

// acmeWorld returns the environment and options of a certificate provider for a real authority, with a file system on
// disk and a clock that the test advances.
func acmeWorld(t *testing.T, a *authority, names ...string) (*env.Fixture, certs.Options) {
	t.Helper()
	f := env.Test(t)
	f.FS = env.Real(f.Log).FS
	f.Time.Advance(time.Since(env.TestStart)) // the authority uses the real clock
	raw, err := os.ReadFile(a.root)
	roots := x509.NewCertPool()
	if err != nil || !roots.AppendCertsFromPEM(raw) {
		t.Fatal(err)
	}
	return f, certs.Options{
		Name: names[0], Dir: t.TempDir(), Stats: stat.New(f.Clock),
		ACME: &certs.ACME{
			Directory: a.directory, Email: "postmaster@example.org", Roots: roots, Agent: "doublet-test",
			Names: func(context.Context) ([]string, error) { return names, nil },
			Lookup: func(_ context.Context, host string) ([]netip.Addr, error) {
				if strings.HasPrefix(host, "not-there.") {
					return nil, errors.New("no such name")
				}
				return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
			},
		},
	}
}

// doorsOf opens the two doors that the authority connects to.
func doorsOf(t *testing.T, a *authority, p *certs.Provider) {
	t.Helper()
	plain, err := net.Listen("tcp", "127.0.0.1:"+a.http)
	if err != nil {
		t.Fatal(err)
	}
	secure, err := tls.Listen("tcp", "127.0.0.1:"+a.tls, p.Web())
	if err != nil {
		t.Fatal(err)
	}
	srv := &web.Server{Handler: web.HandlerFunc(func(w web.ResponseWriter, r *web.Request) {
		if !p.ServeChallenge(w, r) {
			web.NotFound(w, r)
		}
	})}
	go func() { _ = srv.Serve(plain) }()
	go func() { _ = srv.Serve(secure) }()
	t.Cleanup(func() { _ = srv.Close() })
}

// leaf returns the certificate that a client sees if it asks for a name.
func leaf(t *testing.T, a *authority, name string) *x509.Certificate {
	t.Helper()
	c, err := tls.Dial("tcp", "127.0.0.1:"+a.tls, &tls.Config{ServerName: name, InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return c.ConnectionState().PeerCertificates[0]
}

func TestACME(t *testing.T) {
	t.Parallel()
	a := pebble(t)
	for _, c := range []struct {
		challenge string
		names     []string
		set       func(*certs.ACME)
	}{
		{"http-01", []string{"mx.example.org", "mta-sts.example.org"}, func(o *certs.ACME) { o.HTTP = true }},
		{"tls-alpn-01", []string{"mx.example.com"}, func(o *certs.ACME) { o.ALPN = true }},
		{"dns-01", []string{"mx.example.net", "*.example.net"}, func(o *certs.ACME) {
			o.DNS = func(_ context.Context, action, name, value string) error {
				if action == "add" {
					return a.dns("/set-txt", map[string]any{"host": name + ".", "value": value})
				}
				return a.dns("/clear-txt", map[string]any{"host": name + "."})
			}
		}},
	} {
		t.Run(c.challenge, func(t *testing.T) {
			f, o := acmeWorld(t, a, c.names...)
			c.set(o.ACME)
			p, err := certs.Open(f.Env, o)
			if err != nil {
				t.Fatal(err)
			}
			doorsOf(t, a, p)
			// The server does not wait for the authority: until it has answered, a self-signed certificate is used.
			before := leaf(t, a, c.names[0])
			if before.VerifyHostname(c.names[0]) != nil || before.Issuer.String() != before.Subject.String() {
				t.Errorf("before: %v", before.Subject)
			}
			for _, n := range c.names {
				if err := p.Renew(t.Context(), n, false); err != nil {
					t.Fatalf("%s: %v\n%s", n, err, a.out)
				}
			}
			roots, inter := a.issuer(), intermediates(t, a, p, c.names[0])
			for _, n := range c.names {
				n = strings.Replace(n, "*", "any", 1)
				if _, err := leaf(t, a, n).Verify(x509.VerifyOptions{DNSName: n, Roots: roots, Intermediates: inter,
					CurrentTime: f.Clock.Now().Add(time.Minute)}); err != nil {
					t.Errorf("%s: %v", n, err)
				}
			}
			first := leaf(t, a, c.names[0])
			// Renewed again, with the same key. A second start loads everything without the authority.
			if err := p.Renew(t.Context(), c.names[0], false); err != nil {
				t.Fatal(err)
			}
			second := leaf(t, a, c.names[0])
			if second.SerialNumber.Cmp(first.SerialNumber) == 0 ||
				string(second.RawSubjectPublicKeyInfo) != string(first.RawSubjectPublicKeyInfo) {
				t.Error("renewed: the same certificate, or another key")
			}
			o.ACME.Directory = "https://127.0.0.1:1/dir"
			again, err := certs.Open(f.Env, o)
			if err != nil {
				t.Fatal(err)
			}
			if got := again.Leaf(c.names[0]); !got.Equal(second) {
				t.Error("a second start does not show what was got")
			}
			info, err := os.Stat(filepath.Join(o.Dir, "acme", "account.key"))
			if err != nil || info.Size() == 0 {
				t.Errorf("account key: %v", err)
			}
		})
	}
}

// intermediates returns the intermediate certificates that the server sends.
func intermediates(t *testing.T, a *authority, _ *certs.Provider, name string) *x509.CertPool {
	t.Helper()
	c, err := tls.Dial("tcp", "127.0.0.1:"+a.tls, &tls.Config{ServerName: name, InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	pool := x509.NewCertPool()
	for _, cert := range c.ConnectionState().PeerCertificates[1:] {
		pool.AddCert(cert)
	}
	return pool
}

// TestACMEByItself checks that the task requests the wanted certificates, omits names that are not in DNS, retries
// after a failure, and renews after two thirds of the lifetime.
func TestACMEByItself(t *testing.T) {
	t.Parallel()
	a := pebble(t)
	f, o := acmeWorld(t, a, "mx.example.org", "not-there.example.org", "localhost", "autoconfig.example.org")
	o.ACME.HTTP = true
	p, err := certs.Open(f.Env, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = p.Run(ctx) }()
	defer func() { cancel(); <-done }()
	state := func(name string) (from string, failed bool, serial string) {
		for _, c := range p.Show() {
			if c.Names[0] == name {
				l := p.Leaf(name)
				return c.From, c.Error != "", l.SerialNumber.String()
			}
		}
		return "", false, ""
	}
	until := func(what string, ok func() bool) {
		t.Helper()
		for deadline := time.Now().Add(60 * time.Second); !ok(); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s: %+v", what, p.Show())
			}
		}
	}
	// The door is still closed: the first attempt fails, and the server continues.
	until("a failure", func() bool { _, failed, _ := state("autoconfig.example.org"); return failed })
	doorsOf(t, a, p)
	f.Time.Advance(30 * time.Minute)
	until("a certificate", func() bool {
		from, failed, _ := state("autoconfig.example.org")
		if from == "acme" && !failed {
			_, failed, _ = state("mx.example.org")
			return !failed && p.Leaf("mx.example.org").Issuer.CommonName != "mx.example.org"
		}
		return false
	})
	for _, n := range []string{"not-there.example.org", "localhost"} {
		if _, failed, _ := state(n); !failed {
			t.Errorf("%s was asked for", n)
		}
	}
	_, _, first := state("mx.example.org")
	l := p.Leaf("mx.example.org")
	f.Time.Advance(l.NotAfter.Sub(l.NotBefore) * 7 / 10)
	until("a renewal", func() bool { _, _, now := state("mx.example.org"); return now != first })
}
