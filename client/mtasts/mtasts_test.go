package mtasts

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"maps"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"doublet/client/dns"
	"doublet/client/dns/zone"
	"doublet/env"
)

var bg = context.Background()

const good = "version: STSv1\r\nmode: enforce\r\nmx: mx.far.example\r\nmx: *.pool.far.example\r\nmax_age: 86400\r\n"

// shifted is the real clock plus an offset that the test sets.
type shifted struct {
	env.Clock
	mu sync.Mutex
	by time.Duration
}

func (c *shifted) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.by)
}

func (f *far) pass(d time.Duration) {
	f.clock.mu.Lock()
	defer f.clock.mu.Unlock()
	f.clock.by += d
}

// far is the policy host of a domain, with its zone.
type far struct {
	*Cache
	t       *testing.T
	kept    table
	zone    *zone.Server
	clock   *shifted
	mu      sync.Mutex
	handler http.HandlerFunc
	asked   int
}

func (f *far) answer(h http.HandlerFunc) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.handler = h
}

func (f *far) text(text string) {
	f.answer(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write([]byte(text))
	})
}

func (f *far) fetches() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked
}

// open starts a policy host with a certificate for name.
func open(t *testing.T, name string) *far {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(1000 * time.Hour), IsCA: true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	f := &far{t: t,
		zone: zone.Start(t, "_mta-sts.far.example. IN TXT \"v=STSv1; id=1;\"\nmta-sts.far.example. IN A 127.0.0.1\n")}
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		f.asked++
		h := f.handler
		f.mu.Unlock()
		if r.URL.Path != "/.well-known/mta-sts.txt" || r.Host != "mta-sts.far.example" {
			t.Errorf("asked for %s at %s", r.URL, r.Host)
		}
		h(w, r)
	}))
	srv.Config.ErrorLog = nil
	srv.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	srv.StartTLS()
	t.Cleanup(srv.Close)
	fix := env.TestRealTime(t)
	f.clock = &shifted{Clock: fix.Clock}
	fix.Env.Clock = f.clock
	roots := x509.NewCertPool()
	roots.AddCert(cert)
	_, port, _ := net.SplitHostPort(srv.Listener.Addr().String())
	f.kept = table{}
	f.Cache = New(fix.Env, Options{
		Keep: f.kept, Resolver: dns.New(fix.Env, dns.Options{Servers: []string{f.zone.Addr()}, Timeout: time.Second,
			Attempts: 1}), Roots: roots, Port: port, Timeout: 5 * time.Second,
	})
	f.text(good)
	return f
}

// table is a Keep in memory.
type table map[string]string

func (t table) Each(_ context.Context, fn func(key, value string)) error {
	for k, v := range maps.Clone(t) {
		fn(k, v)
	}
	return nil
}
func (t table) Put(key, value string) { t[key] = value }
func (t table) Drop(key string)       { delete(t, key) }

// restart returns a new cache with the persisted policies of the old one.
func (f *far) restart() { f.Cache = New(f.Cache.env, f.Cache.opt) }

// TestRestart checks that a policy stays valid across a restart until it expires, whatever happens to its record and
// its host.
func TestRestart(t *testing.T) {
	t.Parallel()
	f := open(t, "mta-sts.far.example")
	hosts := []string{"mx.far.example", "a.pool.far.example", "!pool.far.example", "!mx.evil.example"}
	f.is("first", true, hosts...)
	f.answer(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) })
	f.restart()
	f.is("after a restart", true, hosts...)
	if f.fetches() != 1 {
		t.Errorf("fetched %d times", f.fetches())
	}
	f.zone.Set("mta-sts.far.example. IN A 127.0.0.1\n")
	f.pass(time.Minute)
	f.restart()
	f.is("no record", true, hosts...)
	f.pass(24 * time.Hour)
	f.kept["x.example"], f.kept["y.example"], f.kept["z.example"] = "garbage", "99999999999 id\nversion: STSv9\n",
		"1 id\n"+good
	f.restart()
	f.is("too old", false)
	if len(f.kept) != 0 {
		t.Errorf("%v is still kept", f.kept)
	}
}

func (f *far) is(what string, enforce bool, hosts ...string) {
	f.t.Helper()
	a := f.Policy(bg, "far.example")
	if a.Enforced() != enforce || (a.Policy == nil) != (len(hosts) == 0) {
		f.t.Fatalf("%s: %+v", what, a)
	}
	for _, h := range hosts {
		name, not := strings.CutPrefix(h, "!")
		if a.Fits(name) == not {
			f.t.Errorf("%s: fits(%s) is %v", what, name, !not)
		}
	}
}

func TestPolicyIsKept(t *testing.T) {
	t.Parallel()
	f := open(t, "mta-sts.far.example")
	hosts := []string{"mx.far.example", "MX.far.example.", "a.pool.far.example", "!a.b.pool.far.example",
		"!pool.far.example", "!mx.evil.example"}
	f.is("first", true, hosts...)
	f.is("again", true, hosts...)
	if f.fetches() != 1 {
		t.Errorf("fetched %d times", f.fetches())
	}
	// The record is gone, or the lookup fails: the policy stays valid.
	f.zone.Fail("_mta-sts.far.example", zone.ServFail)
	f.is("no answer", true, hosts...)
	f.zone.Fail("_mta-sts.far.example", zone.None)
	f.zone.Set("mta-sts.far.example. IN A 127.0.0.1\n")
	f.is("no record", true, hosts...)
	f.pass(time.Minute) // the time for which the resolver caches the negative answer
	// A new id causes a fetch. If the fetch fails, the old policy stays.
	f.zone.Set("_mta-sts.far.example. IN TXT \"v=STSv1; id=2\"\nmta-sts.far.example. IN A 127.0.0.1\n")
	f.answer(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
	f.is("new id, no policy", true, hosts...)
	f.is("not at once again", true, hosts...)
	if f.fetches() != 2 {
		t.Errorf("fetched %d times", f.fetches())
	}
	f.text(strings.Replace(good, "enforce", "testing", 1))
	f.pass(retryAfter)
	f.is("testing", false, hosts...)
	f.text(strings.Replace(good, "enforce", "none", 1))
	f.pass(25 * time.Hour)
	f.is("old, fetched again", false, hosts...)
	f.answer(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) })
	f.pass(25 * time.Hour)
	f.is("too old", false)
}

func TestNoPolicy(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]http.HandlerFunc{
		"not found": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) },
		"redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusFound)
		},
		"other type": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = w.Write([]byte(good))
		},
		"too long": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			_, _ = w.Write([]byte(good + strings.Repeat("x: y\n", 20_000)))
		},
		"malformed": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			_, _ = w.Write([]byte("hello"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := open(t, "mta-sts.far.example")
			f.answer(h)
			f.is(name, false)
			f.is(name, false)
			if f.fetches() != 1 {
				t.Errorf("fetched %d times", f.fetches())
			}
		})
	}
	t.Run("certificate of another name", func(t *testing.T) {
		t.Parallel()
		f := open(t, "far.example")
		f.is("certificate", false)
		if f.fetches() != 0 {
			t.Error("asked all the same")
		}
	})
	t.Run("no record", func(t *testing.T) {
		t.Parallel()
		f := open(t, "mta-sts.far.example")
		for _, r := range []string{"v=STSv1", "v=STSv1; id=a-b", "v=STSv2; id=1",
			"v=STSv1; id=1\"\n_mta-sts.far.example. IN TXT \"v=STSv1; id=2"} {
			f.zone.Set("_mta-sts.far.example. IN TXT \"" + r + "\"\nmta-sts.far.example. IN A 127.0.0.1\n")
			f.is(r, false)
		}
		if f.fetches() != 0 {
			t.Error("asked all the same")
		}
	})
}

func TestBounded(t *testing.T) {
	t.Parallel()
	c := New(env.Test(t).Env, Options{Entries: 10})
	for i := range 100 {
		c.keep(strings.Repeat("x", i+1), entry{id: "1"})
	}
	if len(c.entries) != 10 {
		t.Errorf("%d entries", len(c.entries))
	}
}

func TestParsePolicy(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		good:                                   "",
		strings.ReplaceAll(good, "\r\n", "\n"): "",
		good + "future: yes\n":                 "",
		good + "mode: none\n":                  "", // the first value counts
		"mode: enforce\nmx: a.b\nmax_age: 1\n": "missing",
		"version: STSv2\nmode: enforce\nmx: a.b\nmax_age: 1\n":                           "version",
		"version: STSv1\nmode: please\nmx: a.b\nmax_age: 1\n":                            "mode",
		"version: STSv1\nmode: enforce\nmax_age: 1\n":                                    "no mx",
		"version: STSv1\nmode: none\nmax_age: 1\n":                                       "",
		"version: STSv1\nmode: enforce\nmx: a.b\nmax_age: -1\n":                          "max_age",
		"version: STSv1\nmode: enforce\nmax_age: 1\n" + strings.Repeat("mx: a.b\n", 201): "more than",
	} {
		p, err := ParsePolicy(text)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%.60q: %v, %v", text, p, err)
		}
	}
	if p, _ := ParsePolicy("version: STSv1\nmode: none\nmax_age: 4294967295\n"); p.MaxAge != maxAge {
		t.Error(p.MaxAge)
	}
}

func FuzzParsePolicy(f *testing.F) {
	f.Add(good, "mx.far.example")
	f.Add("version: STSv1", ".")
	f.Fuzz(func(t *testing.T, text, host string) {
		p, err := ParsePolicy(text)
		if err != nil {
			return
		}
		if len(p.MX) > maxPatterns || p.MaxAge < 0 || p.MaxAge > maxAge {
			t.Errorf("%+v", p)
		}
		p.Fits(host)
		recordID([]string{text, host})
	})
}
