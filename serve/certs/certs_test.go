package certs

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"math/big"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"doublet/env"
	"doublet/stat"
)

const day = 24 * time.Hour

// pair makes a certificate for names that is valid from an hour ago for the time good.
func pair(t *testing.T, now time.Time, good time.Duration, names ...string) (cert, key []byte) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	serial, _ := rand.Int(rand.Reader, big.NewInt(1<<60))
	template := &x509.Certificate{SerialNumber: serial, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(good),
		DNSNames: names}
	der, err := x509.CreateCertificate(rand.Reader, template, template, k.Public(), k)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := keyPEM(k)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), secret
}

func write(t *testing.T, f *env.Fixture, path string, data []byte) {
	t.Helper()
	p := &Provider{env: f.Env}
	if err := f.FS.MkdirAll(f.FS.PathDir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := p.writeFile(path, data); err != nil {
		t.Fatal(err)
	}
}

func writePair(t *testing.T, f *env.Fixture, cert, key string, good time.Duration, names ...string) {
	t.Helper()
	c, k := pair(t, f.Clock.Now(), good, names...)
	write(t, f, key, k)
	write(t, f, cert, c)
}

// shown returns the result of a handshake for a name.
func shown(t *testing.T, p *Provider, cfg *tls.Config, name string, client *tls.Config) (*tls.ConnectionState, error) {
	t.Helper()
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	client = client.Clone()
	client.ServerName, client.InsecureSkipVerify = name, true
	server := tls.Server(a, cfg)
	done := make(chan error, 1)
	go func() { done <- server.Handshake() }()
	c := tls.Client(b, client)
	if err := c.Handshake(); err != nil {
		b.Close()
		<-done
		return nil, err
	}
	state := c.ConnectionState()
	return &state, nil
}

func mustShow(t *testing.T, p *Provider, name string) *x509.Certificate {
	t.Helper()
	s, err := shown(t, p, p.Config(), name, &tls.Config{})
	if err != nil {
		t.Fatalf("handshake for %q: %v", name, err)
	}
	return s.PeerCertificates[0]
}

func open(t *testing.T, f *env.Fixture, o Options) *Provider {
	t.Helper()
	o.Stats = stat.New(f.Clock)
	p, err := Open(f.Env, o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func newDir(t *testing.T) *env.Fixture {
	t.Helper()
	f := env.Test(t)
	if err := f.FS.MkdirAll("data", 0o700); err != nil {
		t.Fatal(err)
	}
	return f
}

func TestSelfSigned(t *testing.T) {
	t.Parallel()
	f := newDir(t)
	p := open(t, f, Options{Name: "MX.example.org.", Dir: "data"})
	first := mustShow(t, p, "")
	if err := first.VerifyHostname("mx.example.org"); err != nil {
		t.Error(err)
	}
	// A second server reads it: all doors, after every start, present the same certificate.
	if again := mustShow(t, open(t, f, Options{Name: "mx.example.org", Dir: "data"}),
		"elsewhere.example"); !again.Equal(first) {
		t.Error("a second start made another certificate")
	}
	// It is renewed while the server runs, a month before its expiry, and keeps its key.
	f.Time.Advance(ownFor - 40*day)
	p.look(context.Background())
	if !mustShow(t, p, "").Equal(first) {
		t.Error("renewed 40 days before its end")
	}
	f.Time.Advance(15 * day)
	p.look(context.Background())
	renewed := mustShow(t, p, "")
	if renewed.Equal(first) || !renewed.NotAfter.After(first.NotAfter) {
		t.Error("not renewed 25 days before its end")
	}
	if !bytes.Equal(renewed.RawSubjectPublicKeyInfo, first.RawSubjectPublicKeyInfo) {
		t.Error("renewed with another key")
	}
	if err := p.Renew(context.Background(), "", true); err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(mustShow(t, p, "").RawSubjectPublicKeyInfo, first.RawSubjectPublicKeyInfo) {
		t.Error("--new-key kept the key")
	}
	if err := p.Renew(context.Background(), "other.example", false); err == nil {
		t.Error("renewed what is not there")
	}
}

func TestSNI(t *testing.T) {
	t.Parallel()
	f := newDir(t)
	writePair(t, f, "etc/main.pem", "etc/main.key", 90*day, "mx.example.org")
	writePair(t, f, "more/b.pem", "more/b.key", 90*day, "mail.example.com", "*.example.net")
	writePair(t, f, "more/old.pem", "more/old.key", 9*day, "mail.example.com")
	writePair(t, f, "more/live/fullchain.pem", "more/live/privkey.pem", 90*day, "mail.example.edu")
	write(t, f, "more/README", []byte("read me"))
	write(t, f, "more/intermediate.pem", []byte("no key beside it"))
	p := open(t, f, Options{Name: "mx.example.org", Dir: "data", Certificate: "etc/main.pem", Key: "etc/main.key",
		Folder: "more"})
	for name, want := range map[string]string{
		"": "mx.example.org", "mx.example.org": "mx.example.org", "MAIL.example.COM": "mail.example.com",
		"a.example.net":   "mail.example.com",
		"a.b.example.net": "mx.example.org", "example.net": "mx.example.org", "mail.example.edu": "mail.example.edu",
		"nobody.example": "mx.example.org",
	} {
		if got := mustShow(t, p, name); got.DNSNames[0] != want || got.NotAfter.Before(f.Clock.Now().Add(30*day)) {
			t.Errorf("%q is shown %v until %v, want %s", name, got.DNSNames, got.NotAfter, want)
		}
	}
	if p.own != nil {
		t.Error("a self-signed certificate beside one of the administrator's")
	}
}

// TestCiphers checks that all cipher suites have forward secrecy and authenticated encryption.
func TestCiphers(t *testing.T) {
	t.Parallel()
	p := open(t, newDir(t), Options{Name: "mx.example.org", Dir: "data"})
	for _, c := range []*tls.Config{
		{MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10},
		{MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA,
			tls.TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA}},
		{MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_RSA_WITH_AES_128_GCM_SHA256}},
	} {
		if s, err := shown(t, p, p.Config(), "", c); err == nil {
			t.Errorf("%s with %s was taken", tls.VersionName(s.Version), tls.CipherSuiteName(s.CipherSuite))
		}
	}
	for _, v := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		if _, err := shown(t, p, p.Config(), "", &tls.Config{MaxVersion: v}); err != nil {
			t.Errorf("%s: %v", tls.VersionName(v), err)
		}
	}
}

// TestFilesChange checks that a renewal by another program is detected; a broken file is not used.
func TestFilesChange(t *testing.T) {
	t.Parallel()
	f := newDir(t)
	writePair(t, f, "a.pem", "a.key", 30*day, "mx.example.org")
	p := open(t, f, Options{Name: "mx.example.org", Dir: "data", Certificate: "a.pem", Key: "a.key"})
	first := mustShow(t, p, "")
	write(t, f, "a.pem", []byte("half a fi"))
	p.look(context.Background())
	if !mustShow(t, p, "").Equal(first) || p.stats.failed.Value() != 1 {
		t.Error("a broken file took the certificate away")
	}
	if err := p.Reload(); err == nil {
		t.Error("no word about a broken file")
	}
	if err := f.FS.Remove("a.pem"); err != nil {
		t.Fatal(err)
	}
	p.look(context.Background())
	if !mustShow(t, p, "").Equal(first) {
		t.Error("a missing file took the certificate away")
	}
	writePair(t, f, "a.pem", "a.key", 90*day, "mx.example.org")
	p.look(context.Background())
	if got := mustShow(t, p, ""); got.Equal(first) || p.stats.reloaded.Value() != 1 {
		t.Error("the new certificate is not shown")
	}
	p.look(context.Background())
	if p.stats.reloaded.Value() != 1 {
		t.Error("read again though nothing has changed")
	}
	if _, err := Open(f.Env, Options{Name: "x", Dir: "data", Certificate: "missing.pem", Key: "a.key"}); err == nil {
		t.Error("a server starts without the certificate that it was told to show")
	}
	if _, err := Open(f.Env, Options{Name: "x", Dir: "data", Certificate: "a.pem"}); err == nil {
		t.Error("a certificate without a key")
	}
}

// TestExpires checks that a certificate is warned about once a day, for days before it expires, and the doors stay
// open.
func TestExpires(t *testing.T) {
	t.Parallel()
	f := newDir(t)
	var log bytes.Buffer
	f.Log = slog.New(slog.NewTextHandler(&log, nil))
	writePair(t, f, "a.pem", "a.key", 20*day, "mx.example.org")
	p := open(t, f, Options{Name: "mx.example.org", Dir: "data", Certificate: "a.pem", Key: "a.key", Warn: 14 * day})
	entries := func() (days, expiring float64) {
		for _, e := range p.opts.Stats.Snapshot("TLS.Certificates") {
			switch e.Name {
			case "TLS.Certificates.DaysLeft":
				days = e.Value
			case "TLS.Certificates.Expiring":
				expiring = e.Value
			}
		}
		return days, expiring
	}
	p.look(context.Background())
	if days, expiring := entries(); log.Len() > 0 || days != 20 || expiring != 0 {
		t.Errorf("20 days before: %s, %v days, %v", &log, days, expiring)
	}
	f.Time.Advance(10 * day)
	for range 3 {
		p.look(context.Background())
		f.Time.Advance(time.Hour)
	}
	if _, expiring := entries(); strings.Count(log.String(), "certificate expires soon") != 1 ||
		!strings.Contains(log.String(), "mx.example.org") || expiring != 1 {
		t.Errorf("10 days before: %s, %v", &log, expiring)
	}
	f.Time.Advance(day)
	p.look(context.Background())
	if n := strings.Count(log.String(), "certificate expires soon"); n != 2 {
		t.Errorf("a day later %d warnings", n)
	}
	if err := p.Valid(); err != nil {
		t.Error(err)
	}
	f.Time.Advance(10 * day)
	p.look(context.Background())
	if !strings.Contains(log.String(), "level=ERROR msg=\"certificate expired") {
		t.Errorf("after its end: %s", &log)
	}
	if err := p.Valid(); err == nil {
		t.Error("an expired certificate is called valid")
	}
	if got := mustShow(t, p, ""); got.DNSNames[0] != "mx.example.org" {
		t.Error("the door closed with its certificate")
	}
}

func TestShow(t *testing.T) {
	t.Parallel()
	f := newDir(t)
	p := open(t, f, Options{Name: "mx.example.org", Dir: "data"})
	list := p.Show()
	if len(list) != 1 || !slices.Contains(list[0].Names, "mx.example.org") || list[0].From != fromServer ||
		!list[0].Default || list[0].Days != 365 || len(list[0].SPKI) != 64 {
		t.Errorf("%+v", list)
	}
}

func TestPlausible(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"mx.example.org": true, "*.example.org": true, "xn--bcher-kva.example": true,
		"": false, "localhost": false, "192.0.2.1": false, "a..b": false, "-a.example": false, "a-.example": false,
		"../../etc": false, "a/b.example": false, "a_b.example": false,
		"*.*.example.org": false, "mx.example.org.": false, strings.Repeat("a", 64) + ".example": false,
		strings.Repeat("a.", 130) + "example": false, "Ä.example": false,
	} {
		if plausible(name) != want {
			t.Errorf("plausible(%q) = %v", name, !want)
		}
	}
}
