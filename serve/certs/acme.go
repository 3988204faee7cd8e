package certs

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"doublet/env"

	"github.com/mholt/acmez/v3"
	"github.com/mholt/acmez/v3/acme"
)

// ACME holds the settings of the ACME authority and of the ways to prove control of a name.
//
// Implements: RFC 8555 Automatic certificate management environment (ACME), as client
type ACME struct {
	// Directory is the authority's directory URL. Email is the contact address for the authority, or empty.
	Directory, Email string
	// KeyID and MACKey bind the ACME account to an existing account, if the authority requires it.
	KeyID, MACKey string
	// Roots are the trusted roots for the authority's own https; nil: those of the system.
	Roots *x509.CertPool
	// Names lists the names that need a certificate, one each: the server's and those of the domains.
	Names func(ctx context.Context) ([]string, error)
	// HTTP reports that the authority can reach the http door at port 80. ALPN reports that it can reach the https door
	// at port 443.
	HTTP, ALPN bool
	// DNS adds a TXT record to the public zone (action add) or removes it (remove), and returns when the change is
	// visible; nil: no DNS-01.
	DNS func(ctx context.Context, action, name, value string) error
	// Lookup resolves a name to addresses; nil: the system's resolver. No certificate is requested for a name without
	// addresses.
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)
	// Agent is the User-Agent sent to the authority.
	Agent string
}

var errNoChallenge = errors.New("ACME needs the http or https door, or a DNS-01 command, to prove control of the names")

func (a *ACME) check() error {
	u, err := url.Parse(a.Directory)
	switch {
	case err != nil || u.Scheme != "https" || u.Host == "":
		return fmt.Errorf("ACME directory %q: not an https URL", a.Directory)
	case !a.HTTP && !a.ALPN && a.DNS == nil:
		return errNoChallenge
	case (a.KeyID == "") != (a.MACKey == ""):
		return errors.New("ACME account binding: set both key id and MAC key")
	}
	return nil
}

// managed is the state of a name with a certificate from ACME.
type managed struct {
	entry    *entry    // nil: none yet
	renewAt  time.Time // of entry
	askAgain time.Time // next request for the authority's suggested renewal time (ARI)
	notUntil time.Time // after a failure
	failures int
	err      error // of the last attempt, nil after a good one
}

// The delay after a failure doubles, because authorities limit failures (Let's Encrypt allows five an hour).
const (
	firstWait = 15 * time.Minute
	mostWait  = 12 * time.Hour
	// obtainTime is the timeout for one order, including the DNS command.
	obtainTime = 10 * time.Minute
	// ariEvery is the interval at which the authority is asked for its suggested renewal time.
	ariEvery = 6 * time.Hour
	// maxNames is the maximum number of names in one round.
	maxNames = 10_000
)

func (p *Provider) acmeDir() string { return p.env.FS.PathJoin(p.opts.Dir, "acme") }

// acmeFile returns the file with the key and the chain of a name. One file holds both, so that they always match.
func (p *Provider) acmeFile(name string) string {
	return p.env.FS.PathJoin(p.acmeDir(), strings.Replace(name, "*", "_", 1)+".pem")
}

// plausible reports whether a public authority could issue a certificate for a name. Only such a name is used as a file
// name.
func plausible(name string) bool {
	rest := strings.TrimPrefix(name, "*.")
	if len(name) > 253 || !strings.Contains(rest, ".") || net.ParseIP(rest) != nil {
		return false
	}
	for label := range strings.SplitSeq(rest, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for _, c := range []byte(label) {
			if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
				return false
			}
		}
	}
	return true
}

// loadManaged reads the certificates that earlier runs obtained.
func (p *Provider) loadManaged() {
	names, err := p.env.FS.List(p.acmeDir())
	if err != nil {
		return // none yet
	}
	for _, file := range names {
		name, ok := strings.CutSuffix(file, ".pem")
		name = strings.Replace(name, "_", "*", 1)
		if !ok || !plausible(name) {
			continue
		}
		path := p.acmeFile(name)
		e, err := p.readPair(path, path, map[string]time.Time{})
		if err != nil {
			p.env.Log.Error("ACME: certificate does not load, requesting a new one", "name", name, "error", err)
			continue
		}
		e.source = fromACME
		p.managed[name] = &managed{entry: e, renewAt: renewAt(e.cert.Leaf)}
	}
}

// renewAt returns the time when two thirds of a certificate's life are over. It is up to a thirtieth of the life
// earlier for some names, to spread the renewals.
func renewAt(leaf *x509.Certificate) time.Time {
	life := leaf.NotAfter.Sub(leaf.NotBefore)
	early := life / 30 / 256 * time.Duration(leaf.SerialNumber.Uint64()&0xff)
	return leaf.NotBefore.Add(life*2/3 - early)
}

// renewDue obtains missing and due certificates, one after another.
func (p *Provider) renewDue(ctx context.Context) {
	names, err := p.wanted(ctx)
	if err != nil {
		p.env.Log.Error("cannot list the names for certificates", "error", err)
		return
	}
	for _, name := range names {
		if ctx.Err() != nil {
			return
		}
		p.askWish(ctx, name)
		if p.due(ctx, name) {
			_ = p.obtain(ctx, name, false) // logged and counted there
		}
	}
}

// wanted returns the plausible names that ACME must manage, without duplicates and names with a certificate file.
func (p *Provider) wanted(ctx context.Context) ([]string, error) {
	all, err := p.opts.ACME.Names(ctx)
	if err != nil {
		return nil, err
	}
	all = all[:min(len(all), maxNames)]
	p.mu.Lock()
	defer p.mu.Unlock()
	var names []string
	seen := map[string]bool{}
	for _, name := range all {
		name = canonical(name)
		if seen[name] || p.inFiles(name) {
			continue
		}
		seen[name] = true
		if p.managed[name] == nil {
			p.managed[name] = &managed{}
			if !plausible(name) {
				p.managed[name].err = errors.New("no public authority issues certificates for such a name")
				p.env.Log.Warn("ACME: no certificate requested, because the name is not public", "name", name)
			}
		}
		if plausible(name) {
			names = append(names, name)
		}
	}
	// Drop names that are no longer wanted when their certificate has expired.
	for name, m := range p.managed {
		if !seen[name] && (m.entry == nil || p.env.Clock.Now().After(m.entry.ends())) {
			delete(p.managed, name)
		}
	}
	return names, nil
}

// due reports whether a certificate has to be obtained now.
func (p *Provider) due(ctx context.Context, name string) bool {
	p.mu.Lock()
	m, now := p.managed[name], p.env.Clock.Now()
	yes := m != nil && !now.Before(m.notUntil) && (m.entry == nil || !now.Before(m.renewAt))
	fresh := yes && m.entry == nil
	p.mu.Unlock()
	// Names other than the server's own are guesses (mta-sts, autoconfig): skip those without an address in DNS.
	if !fresh || name == p.opts.Name || p.opts.ACME.Lookup == nil || strings.HasPrefix(name, "*.") {
		return yes
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if at, err := p.opts.ACME.Lookup(ctx, name); err != nil || len(at) == 0 {
		p.mu.Lock()
		m.err, m.notUntil = errors.New("name has no address in DNS: no certificate requested"), now.Add(firstWait)
		p.mu.Unlock()
		return false
	}
	return true
}

// askWish asks the authority when it suggests to renew a certificate. That may be earlier than our own time, for
// example before it revokes certificates.
//
// Implements: RFC 9773 ACME Renewal Information
func (p *Provider) askWish(ctx context.Context, name string) {
	p.mu.Lock()
	m, now := p.managed[name], p.env.Clock.Now()
	if m == nil || m.entry == nil || now.Before(m.askAgain) || !now.Before(m.renewAt) {
		p.mu.Unlock()
		return
	}
	m.askAgain = now.Add(ariEvery)
	leaf := m.entry.cert.Leaf
	p.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	info, err := p.client().GetRenewalInfo(ctx, leaf)
	if err != nil || info.SelectedTime.IsZero() {
		return // no suggestion: keep our own time
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if m.entry.cert.Leaf == leaf && info.SelectedTime.Before(m.renewAt) {
		m.renewAt = info.SelectedTime
	}
}

// obtain gets a certificate for a name and makes handshakes use it.
func (p *Provider) obtain(ctx context.Context, name string, newKey bool) error {
	p.issuing.Lock()
	defer p.issuing.Unlock()
	ctx, cancel := context.WithTimeout(ctx, obtainTime)
	defer cancel()
	e, err := p.order(ctx, name, newKey)
	p.mu.Lock()
	defer p.mu.Unlock()
	m := p.managed[name]
	if m == nil {
		m = &managed{}
		p.managed[name] = m
	}
	if err != nil {
		wait := min(firstWait<<min(m.failures, 10), mostWait)
		m.err, m.failures, m.notUntil = err, m.failures+1, p.env.Clock.Now().Add(wait)
		p.stats.failed.Inc()
		p.env.Log.Error("ACME: no certificate", "name", name, "error", err, "next", m.notUntil.UTC())
		return fmt.Errorf("certificate for %s: %w", name, err)
	}
	*m = managed{entry: e, renewAt: renewAt(e.cert.Leaf), askAgain: p.env.Clock.Now().Add(ariEvery)}
	p.stats.renewed.Inc()
	err = p.keepOwn(false)
	p.rebuild()
	p.env.Log.Info("ACME: certificate received", "name", name, "until", e.ends().UTC(), "issuer",
		e.cert.Leaf.Issuer.String())
	return err
}

// order orders a certificate from the authority.
func (p *Provider) order(ctx context.Context, name string, newKey bool) (*entry, error) {
	client := p.client()
	account, err := p.account(ctx, client.Client)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	var old *entry
	failures := 0
	if m := p.managed[name]; m != nil {
		old, failures = m.entry, m.failures
	}
	p.mu.Unlock()
	key, err := p.keyFor(old, newKey)
	if err != nil {
		return nil, err
	}
	csr, err := acmez.NewCSR(key, []string{name})
	if err != nil {
		return nil, err
	}
	params, err := acmez.OrderParametersFromCSR(account, csr)
	if err != nil {
		return nil, err
	}
	if old != nil && failures == 0 && p.env.Clock.Now().Before(old.ends()) {
		params.Replaces = old.cert.Leaf
	}
	chains, err := client.ObtainCertificate(ctx, params)
	if err != nil {
		return nil, err
	}
	if len(chains) == 0 {
		return nil, errors.New("authority issued no certificate")
	}
	secret, err := keyPEM(key)
	if err != nil {
		return nil, err
	}
	if err := p.env.FS.MkdirAll(p.acmeDir(), 0o700); err != nil {
		return nil, err
	}
	path := p.acmeFile(name)
	both := append(secret, chains[0].ChainPEM...)
	pair, err := tls.X509KeyPair(both, both)
	if err != nil {
		return nil, err
	}
	if err := p.opts.WritePrivate(path, both); err != nil {
		return nil, err
	}
	return &entry{cert: &pair, source: fromACME, where: path}, nil
}

// keyFor returns the name's existing key, so that TLSA records with it stay valid, or a new one.
func (p *Provider) keyFor(old *entry, fresh bool) (crypto.Signer, error) {
	if old != nil && !fresh {
		if key, ok := old.cert.PrivateKey.(crypto.Signer); ok {
			return key, nil
		}
	}
	return ecdsa.GenerateKey(elliptic.P256(), p.env.Rand)
}

func (p *Provider) client() *acmez.Client {
	a := p.opts.ACME
	c := &acmez.Client{
		Client: &acme.Client{
			Directory: a.Directory, UserAgent: a.Agent,
			HTTPClient: &http.Client{Timeout: time.Minute, Transport: &http.Transport{
				DialContext: a.dial(p.env), TLSClientConfig: &tls.Config{RootCAs: a.Roots,
					MinVersion: tls.VersionTLS12}, TLSHandshakeTimeout: 20 * time.Second,
				ResponseHeaderTimeout: time.Minute, DisableKeepAlives: true, ForceAttemptHTTP2: false,
			}},
		},
		ChallengeSolvers: map[string]acmez.Solver{},
	}
	if a.HTTP {
		c.ChallengeSolvers[acme.ChallengeTypeHTTP01] = overHTTP{&p.challenges}
	}
	if a.ALPN {
		c.ChallengeSolvers[acme.ChallengeTypeTLSALPN01] = overALPN{&p.challenges}
	}
	if a.DNS != nil {
		c.ChallengeSolvers[acme.ChallengeTypeDNS01] = overDNS{a.DNS}
	}
	return c
}

// dial returns a dial function that resolves names with the server's own resolver.
func (a *ACME) dial(e *env.Env) func(ctx context.Context, network, address string) (net.Conn, error) {
	const patience = 20 * time.Second
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err
		}
		if _, err := netip.ParseAddr(host); err == nil || a.Lookup == nil || host == "localhost" {
			return e.Dial(network, address, patience)
		}
		at, err := a.Lookup(ctx, host)
		if err != nil {
			return nil, err
		}
		err = fmt.Errorf("%s has no address", host)
		for _, ip := range at[:min(len(at), 4)] {
			var c net.Conn
			if c, err = e.Dial(network, net.JoinHostPort(ip.String(), port), patience); err == nil {
				return c, nil
			}
		}
		return nil, err
	}
}

// kept is the stored form of the ACME account. The key is in another file.
type kept struct {
	Directory string       `json:"directory"`
	Account   acme.Account `json:"account"`
}

// account returns the ACME account: the stored one, or a new one. The caller holds issuing.
func (p *Provider) account(ctx context.Context, client *acme.Client) (acme.Account, error) {
	a := p.opts.ACME
	dir := p.acmeDir()
	keyFile, file := p.env.FS.PathJoin(dir, "account.key"), p.env.FS.PathJoin(dir, "account.json")
	key, err := p.accountKey(keyFile)
	if err != nil {
		return acme.Account{}, err
	}
	if raw, err := p.readFile(file, map[string]time.Time{}); err == nil {
		var k kept
		if json.Unmarshal(raw, &k) == nil && k.Directory == a.Directory && k.Account.Location != "" &&
			slices.Equal(k.Account.Contact, a.contact()) {
			k.Account.PrivateKey = key
			return k.Account, nil
		}
	}
	account := acme.Account{Contact: a.contact(), TermsOfServiceAgreed: true, PrivateKey: key}
	if a.KeyID != "" {
		if err := account.SetExternalAccountBinding(ctx, client,
			acme.EAB{KeyID: a.KeyID, MACKey: a.MACKey}); err != nil {
			return account, fmt.Errorf("bind the ACME account: %w", err)
		}
	}
	if account, err = client.NewAccount(ctx, account); err != nil {
		return account, fmt.Errorf("ACME account: %w", err)
	}
	account.Contact = a.contact() // an authority may not return it
	raw, err := json.Marshal(kept{a.Directory, account})
	if err != nil {
		return account, err
	}
	return account, p.opts.WritePrivate(file, raw)
}

func (a *ACME) contact() []string {
	if a.Email == "" {
		return nil
	}
	return []string{"mailto:" + a.Email}
}

func (p *Provider) accountKey(path string) (crypto.Signer, error) {
	if raw, err := p.readFile(path, map[string]time.Time{}); err == nil {
		block, _ := pem.Decode(raw)
		if block == nil {
			return nil, fmt.Errorf("%s: no PEM", path)
		}
		key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if signer, ok := key.(crypto.Signer); ok {
			return signer, nil
		}
		return nil, fmt.Errorf("%s: no key that signs", path)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), p.env.Rand)
	if err != nil {
		return nil, err
	}
	if err := p.env.FS.MkdirAll(p.acmeDir(), 0o700); err != nil {
		return nil, err
	}
	secret, err := keyPEM(key)
	if err != nil {
		return nil, err
	}
	return key, p.opts.WritePrivate(path, secret)
}
