// Package sign adds DKIM signatures and ARC seals to outgoing mail, and creates the keys for them. Local mail is not
// signed, because nothing verifies it.
package sign

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"sync"

	"doublet/directory"
	"doublet/env"
	"doublet/note"
	"doublet/stat"
	"doublet/wire/dkim"

	"golang.org/x/net/idna"
)

// The key algorithms.
const (
	RSA     = "rsa"     // 2048 bits, RFC 8301 section 3.2
	Ed25519 = "ed25519" // RFC 8463
)

// Algorithms lists the algorithms of a domain's keys. All receivers verify RSA. Ed25519 is short and fast, and ready
// for the time when RSA is no longer accepted.
var Algorithms = []string{RSA, Ed25519}

// rsaBits is the key size: its record fits into one UDP answer, and large receivers require it.
const rsaBits = 2048

// maxDomains is the maximum number of domains in the key cache.
const maxDomains = 10_000

// Signer signs for the domains of a directory. Its methods may be called from any goroutine.
type Signer struct {
	env *env.Env
	dir *directory.Directory

	mu     sync.RWMutex
	ready  map[string]*ready
	parsed map[[sha256.Size]byte]crypto.Signer

	signed, unsigned, sealed *stat.Counter
}

// ready holds a domain's keys as of a version of the directory.
type ready struct {
	version uint64
	signers []dkim.Signer
}

// New returns a Signer; stats may be nil.
func New(e *env.Env, d *directory.Directory, stats *stat.Tree) *Signer {
	return &Signer{
		env: e, dir: d, ready: map[string]*ready{}, parsed: map[[sha256.Size]byte]crypto.Signer{},
		signed: stats.Counter("Mail.Sign.Signed", "messages signed (DKIM) as they left"),
		sealed: stats.Counter("Mail.Sign.Sealed", "messages of strangers sealed (ARC) as they went on"),
		unsigned: stats.Counter("Mail.Sign.Unsigned",
			"messages that left without a signature, because their author's domain has no keys here"),
	}
}

// Header returns the DKIM-Signature fields for a message with an author in a domain: one for each active key, to be put
// before the message. It returns nil if the domain has no keys or the message no author. message has CRLF lines.
func (s *Signer) Header(ctx context.Context, fromDomain string, message []byte) ([]byte, error) {
	signers, err := s.signers(ctx, fromDomain)
	if err != nil {
		return nil, err
	}
	if len(signers) == 0 {
		s.unsigned.Inc()
		return nil, nil
	}
	h, err := dkim.New(message).AppendSignatures(make([]byte, 0, 1536), signers, s.env.Clock.Now())
	if errors.Is(err, dkim.ErrNoFrom) {
		s.unsigned.Inc()
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("sign for %s: %w", fromDomain, err)
	}
	s.signed.Inc()
	return h, nil
}

// signers returns the active keys of a domain. It reads them again after a change of the directory, and parses only new
// keys.
func (s *Signer) signers(ctx context.Context, domain string) ([]dkim.Signer, error) {
	name, err := directory.NormalDomain(domain)
	if err != nil {
		return nil, nil //nolint:nilerr // what is no domain has no keys
	}
	version := s.dir.Version()
	s.mu.RLock()
	r := s.ready[name]
	s.mu.RUnlock()
	if r != nil && r.version == version {
		return r.signers, nil
	}
	keys, err := s.dir.DKIMKeys.Of(ctx, note.System, name)
	if err != nil {
		return nil, err
	}
	r = &ready{version: version}
	shown, err := idna.Lookup.ToASCII(name)
	if err != nil {
		shown = name
	}
	for i := range keys {
		k := &keys[i]
		if k.State != directory.KeyActive {
			continue
		}
		private, err := s.parse(k.Private)
		if err != nil {
			s.env.Log.Error("signing key is unusable", "domain", name, "selector", k.Selector, "error", err)
			continue
		}
		r.signers = append(r.signers, dkim.Signer{Domain: shown, Selector: k.Selector, Key: private})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.ready) >= maxDomains {
		clear(s.ready) // simpler than tracking the last use: it fills again quickly
	}
	s.ready[name] = r
	return r.signers, nil
}

// parse parses a private key, with a cache.
func (s *Signer) parse(der []byte) (crypto.Signer, error) {
	sum := sha256.Sum256(der)
	s.mu.RLock()
	k := s.parsed[sum]
	s.mu.RUnlock()
	if k != nil {
		return k, nil
	}
	k, err := Parse(der)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.parsed) >= 2*maxDomains {
		clear(s.parsed)
	}
	s.parsed[sum] = k
	return k, nil
}

// Parse parses a private key from the directory (PKCS #8, DER).
func Parse(der []byte) (crypto.Signer, error) {
	key, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, fmt.Errorf("read private key: %w", err)
	}
	switch k := key.(type) {
	case *rsa.PrivateKey:
		return k, nil
	case ed25519.PrivateKey:
		return k, nil
	}
	return nil, fmt.Errorf("key type %T cannot sign mail", key)
}

// Generate generates a private key (PKCS #8, DER). An RSA key takes a fraction of a second.
func Generate(algorithm string) ([]byte, error) {
	var key any
	var err error
	switch algorithm {
	case RSA:
		key, err = rsa.GenerateKey(rand.Reader, rsaBits)
	case Ed25519:
		_, key, err = ed25519.GenerateKey(rand.Reader)
	default:
		return nil, fmt.Errorf("%w: %.20q is no algorithm of keys: rsa or ed25519", directory.ErrInvalid, algorithm)
	}
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	return x509.MarshalPKCS8PrivateKey(key)
}

// Record returns the TXT record of a key, and its DNS name.
func Record(k *directory.DKIMKey) (name, text string, err error) {
	private, err := Parse(k.Private)
	if err != nil {
		return "", "", fmt.Errorf("key %s of %s: %w", k.Selector, k.Domain, err)
	}
	if text, err = dkim.Record(private.Public()); err != nil {
		return "", "", err
	}
	domain, err := idna.Lookup.ToASCII(k.Domain)
	if err != nil {
		domain = k.Domain
	}
	return k.Selector + "._domainkey." + domain, text, nil
}
