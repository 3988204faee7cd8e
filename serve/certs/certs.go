// Package certs provides the certificates of all doors: from the administrator's files, from an ACME authority with
// automatic renewal, or self-signed. A handshake never waits for any of this: it reads an immutable table that is
// replaced as a whole.
//
// Expiring certificates are renewed, and warned about days before. Expiry never closes a door. The server presents even
// an expired certificate: mail servers that encrypt without verification continue, and people see the reason for the
// failure.
package certs

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"doublet/env"
	"doublet/stat"
)

// Options are the sources of certificates and other settings.
type Options struct {
	// Name is the server's name. Its certificate is presented to a client that asks for an unknown name or none.
	Name string
	// Dir is the folder for the self-signed certificate and those from ACME.
	Dir string
	// Certificate and Key are PEM files. Set both or neither.
	Certificate, Key string
	// Folder holds further certificates: NAME.pem with NAME.key, or NAME/fullchain.pem with NAME/privkey.pem.
	Folder string
	// ACME is nil if no authority is used.
	ACME *ACME
	// Warn is the time before a certificate's expiry at which warnings begin (default 14 days).
	Warn time.Duration
	// WritePrivate atomically writes a file that only the server's account may read. Nil writes with env.FS, for tests.
	WritePrivate func(path string, data []byte) error
	Stats        *stat.Tree
}

// The sources of certificates.
const (
	fromFile   = "file"
	fromACME   = "acme"
	fromServer = "self-signed"
)

// entry is one certificate that handshakes can present.
type entry struct {
	cert   *tls.Certificate
	source string
	where  string // path of its file
}

func (e *entry) names() []string {
	names := e.cert.Leaf.DNSNames
	if len(names) == 0 && e.cert.Leaf.Subject.CommonName != "" {
		names = []string{e.cert.Leaf.Subject.CommonName}
	}
	return names
}

func (e *entry) ends() time.Time { return e.cert.Leaf.NotAfter }

// table holds the certificates for handshakes. It is never changed, only replaced.
type table struct {
	byName   map[string]*entry // lower case; a wildcard is stored as *.example.org
	fallback *entry
	all      []*entry
}

// Provider provides the certificates.
type Provider struct {
	env   *env.Env
	opts  Options
	stats statistics
	table atomic.Pointer[table]
	tls   *tls.Config
	web   *tls.Config
	wake  chan struct{} // starts a round of Run

	challenges challenges

	mu      sync.Mutex // guards the fields below
	main    *entry     // Certificate, or nil
	files   []*entry   // Folder
	own     *entry     // the self-signed one, or nil
	managed map[string]*managed
	seen    map[string]time.Time // files and their modification times
	told    map[string]time.Time // certificates with a warning, and its time

	issuing sync.Mutex // one order at a time
}

type statistics struct {
	reloaded, renewed, failed *stat.Counter
}

// Open reads or creates what the first handshake needs. It does not contact the authority; Run does.
func Open(e *env.Env, o Options) (*Provider, error) {
	if o.Warn <= 0 {
		o.Warn = 14 * 24 * time.Hour
	}
	if (o.Certificate == "") != (o.Key == "") {
		return nil, errors.New("certs: set both certificate and key")
	}
	o.Name = canonical(o.Name)
	p := &Provider{
		env: e, opts: o, wake: make(chan struct{}, 1),
		managed: map[string]*managed{}, seen: map[string]time.Time{}, told: map[string]time.Time{},
	}
	if o.WritePrivate == nil {
		p.opts.WritePrivate = p.writeFile
	}
	if o.ACME != nil {
		if err := o.ACME.check(); err != nil {
			return nil, err
		}
		p.loadManaged()
	}
	if err := p.Reload(); err != nil {
		return nil, err
	}
	p.tls = &tls.Config{GetCertificate: p.certificate, MinVersion: tls.VersionTLS12, CipherSuites: suites()}
	p.web = p.tls.Clone()
	p.web.NextProtos = []string{"h2", "http/1.1"}
	p.web.GetConfigForClient = p.challenges.config
	p.count(o.Stats)
	return p, nil
}

// suites returns the allowed cipher suites of TLS 1.2: those with forward secrecy and authenticated encryption. TLS 1.3
// has no others.
func suites() []uint16 {
	return []uint16{
		tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
		tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
		tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
	}
}

// Config returns the configuration for the mail doors. All of them share it, and must not change it: its session ticket
// keys are shared, and crypto/tls rotates them daily.
func (p *Provider) Config() *tls.Config { return p.tls }

// Web returns the configuration for HTTP: Config with HTTP/2 and TLS-ALPN-01 challenges.
func (p *Provider) Web() *tls.Config { return p.web }

// certificate chooses a certificate by the name that the client asks for.
func (p *Provider) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	return p.table.Load().pick(canonical(hello.ServerName)).cert, nil
}

func (t *table) pick(name string) *entry {
	if e := t.byName[name]; e != nil {
		return e
	}
	if _, above, ok := strings.Cut(name, "."); ok {
		if e := t.byName["*."+above]; e != nil {
			return e
		}
	}
	return t.fallback
}

func canonical(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }

// Reload reads the files again. After an error nothing changes.
func (p *Provider) Reload() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reload()
}

// reload is Reload; the caller holds mu.
func (p *Provider) reload() error {
	seen := map[string]time.Time{}
	var main *entry
	var err error
	if p.opts.Certificate != "" {
		if main, err = p.readPair(p.opts.Certificate, p.opts.Key, seen); err != nil {
			return err
		}
	}
	files, err := p.readFolder(seen)
	if err != nil {
		return err
	}
	p.main, p.files, p.seen = main, files, seen
	if err := p.keepOwn(false); err != nil {
		return err
	}
	p.rebuild()
	return nil
}

// rebuild replaces the table. Files have priority over ACME, and ACME over the self-signed certificate. The caller
// holds mu.
func (p *Provider) rebuild() {
	t := &table{byName: map[string]*entry{}}
	add := func(e *entry) {
		t.all = append(t.all, e)
		for _, n := range e.names() {
			t.byName[canonical(n)] = e
		}
	}
	if p.own != nil {
		add(p.own)
	}
	for _, name := range slices.Sorted(maps.Keys(p.managed)) {
		if m := p.managed[name]; m.entry != nil {
			add(m.entry)
		}
	}
	// Of two files for one name, the one that expires later takes precedence.
	files := slices.Clone(p.files)
	slices.SortStableFunc(files, func(a, b *entry) int { return a.ends().Compare(b.ends()) })
	for _, e := range files {
		add(e)
	}
	if p.main != nil {
		add(p.main)
	}
	switch {
	case p.main != nil:
		t.fallback = p.main
	case t.byName[p.opts.Name] != nil:
		t.fallback = t.byName[p.opts.Name]
	case p.own != nil:
		t.fallback = p.own
	default:
		t.fallback = t.all[0]
	}
	p.table.Store(t)
}

// Valid returns an error if the certificate of the server's name is expired or not yet valid. Load balancers see it.
func (p *Provider) Valid() error {
	t := p.table.Load()
	leaf, now := t.pick(p.opts.Name).cert.Leaf, p.env.Clock.Now()
	if now.After(leaf.NotAfter) {
		return fmt.Errorf("certificate of %s expired on %s", p.opts.Name, leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	if now.Before(leaf.NotBefore) {
		return fmt.Errorf("certificate of %s is not valid before %s", p.opts.Name,
			leaf.NotBefore.UTC().Format(time.RFC3339))
	}
	return nil
}

func (p *Provider) count(t *stat.Tree) {
	p.stats = statistics{
		reloaded: t.Counter("TLS.Certificates.Reloaded", "certificate files read anew because they had changed"),
		renewed: t.Counter("TLS.Certificates.Renewed",
			"certificates got from the ACME authority or made by the server"),
		failed: t.Counter("TLS.Certificates.Failed", "attempts to get or read a certificate that failed"),
	}
	t.GaugeFunc("TLS.Certificates.Count", "certificates that can be shown",
		func() float64 { return float64(len(p.table.Load().all)) })
	t.GaugeFunc("TLS.Certificates.DaysLeft", "days until the first of the certificates ends; negative afterwards",
		func() float64 {
			now, least := p.env.Clock.Now(), time.Duration(1<<63-1)
			for _, e := range p.table.Load().all {
				least = min(least, e.ends().Sub(now))
			}
			return least.Hours() / 24
		})
	t.GaugeFunc("TLS.Certificates.Expiring", "certificates that end within tls.warn_before, or have ended",
		func() float64 {
			n := 0
			for _, e := range p.table.Load().all {
				if e.ends().Sub(p.env.Clock.Now()) < p.opts.Warn {
					n++
				}
			}
			return float64(n)
		})
}

// look is the interval of Run's rounds.
const look = time.Minute

// Run maintains the certificates until ctx ends: it reads changed files, renews certificates and logs warnings.
func (p *Provider) Run(ctx context.Context) error {
	for {
		p.look(ctx)
		select {
		case <-p.env.Clock.After(look):
		case <-p.wake:
		case <-ctx.Done():
			return nil
		}
	}
}

// Look starts a round of Run at once, because the names have changed or a door was opened.
func (p *Provider) Look() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// look runs one round.
func (p *Provider) look(ctx context.Context) {
	p.mu.Lock()
	if p.changed() {
		if err := p.reload(); err != nil {
			p.stats.failed.Inc()
			p.env.Log.Error("cannot read changed certificate files: the previous certificates stay in use",
				"error", err)
		} else {
			p.stats.reloaded.Inc()
			p.env.Log.Info("certificate files reloaded")
		}
	}
	if err := p.keepOwn(false); err != nil {
		p.stats.failed.Inc()
		p.env.Log.Error("cannot renew the self-signed certificate", "error", err)
	} else {
		p.rebuild()
	}
	p.warn()
	p.mu.Unlock()
	if p.opts.ACME != nil {
		p.renewDue(ctx)
	}
}

// warn logs certificates that expire soon, once a day. The caller holds mu.
func (p *Provider) warn() {
	now := p.env.Clock.Now()
	told := map[string]time.Time{}
	for _, e := range p.table.Load().all {
		left := e.ends().Sub(now)
		if left >= p.opts.Warn {
			continue
		}
		key := e.where + e.cert.Leaf.SerialNumber.String()
		told[key] = p.told[key]
		if now.Sub(told[key]) < 24*time.Hour {
			continue
		}
		told[key] = now
		attrs := []any{"names", strings.Join(e.names(), " "), "until", e.ends().UTC(), "from", e.source,
			"file", e.where}
		if left <= 0 {
			p.env.Log.Error("certificate expired: mail programs reject it", attrs...)
		} else {
			p.env.Log.Warn("certificate expires soon", append(attrs, "days", int(left.Hours()/24))...)
		}
	}
	p.told = told
}
