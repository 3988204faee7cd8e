package certs

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"slices"
	"time"
)

// The self-signed certificate in the data folder. A renewal keeps the key, so that records of the key (TLSA, mail
// programs) stay valid.
const (
	ownFile    = "selfsigned.pem"
	ownKeyFile = "selfsigned.key"
	ownFor     = 365 * 24 * time.Hour
	ownRenew   = 30 * 24 * time.Hour // before its expiry
)

// keepOwn makes or renews the self-signed certificate, unless another certificate covers the server's name. fresh
// forces a new one. The caller holds mu.
func (p *Provider) keepOwn(fresh bool) error {
	if p.main != nil || p.covered(p.opts.Name) {
		p.own = nil
		return nil
	}
	cert, key := p.env.FS.PathJoin(p.opts.Dir, ownFile), p.env.FS.PathJoin(p.opts.Dir, ownKeyFile)
	now := p.env.Clock.Now()
	good := func(e *entry) bool {
		leaf := e.cert.Leaf
		return leaf.NotAfter.After(now.Add(ownRenew)) && !leaf.NotBefore.After(now) &&
			slices.Contains(leaf.DNSNames, p.opts.Name)
	}
	if p.own != nil && good(p.own) && !fresh {
		return nil
	}
	old, err := p.readPair(cert, key, map[string]time.Time{})
	if err == nil && good(old) && !fresh {
		old.source = fromServer
		p.own = old
		return nil
	}
	var signer crypto.Signer
	if err == nil {
		signer, _ = old.cert.PrivateKey.(crypto.Signer)
	}
	if err := p.makeOwn(cert, key, signer, now); err != nil {
		return fmt.Errorf("make a self-signed certificate: %w", err)
	}
	if p.own, err = p.readPair(cert, key, map[string]time.Time{}); err != nil {
		return fmt.Errorf("self-signed: %w", err)
	}
	p.own.source = fromServer
	p.stats.renewedOne()
	p.env.Log.Info("created a self-signed certificate: mail programs will warn about it", "file", cert, "until",
		p.own.ends().UTC())
	return nil
}

func (s *statistics) renewedOne() {
	if s.renewed != nil { // nil before Open has made them
		s.renewed.Inc()
	}
}

// covered reports whether a file or ACME has a certificate for a name. The caller holds mu.
func (p *Provider) covered(name string) bool {
	if m := p.managed[name]; m != nil && m.entry != nil {
		return true
	}
	return p.inFiles(name)
}

func (p *Provider) inFiles(name string) bool {
	if p.main != nil && p.main.cert.Leaf.VerifyHostname(name) == nil {
		return true
	}
	return slices.ContainsFunc(p.files, func(e *entry) bool { return e.cert.Leaf.VerifyHostname(name) == nil })
}

func (p *Provider) makeOwn(certFile, keyFile string, key crypto.Signer, now time.Time) error {
	if key == nil {
		fresh, err := ecdsa.GenerateKey(elliptic.P256(), p.env.Rand)
		if err != nil {
			return err
		}
		key = fresh
	}
	var serial [15]byte
	p.env.Fill(serial[:])
	names := []string{p.opts.Name}
	if p.opts.Name != "localhost" {
		names = append(names, "localhost")
	}
	template := &x509.Certificate{
		SerialNumber: new(big.Int).SetBytes(serial[:]), Subject: pkix.Name{CommonName: p.opts.Name,
			Organization: []string{"Doublet, self-signed"}},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(ownFor),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true, DNSNames: names, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	cert, err := x509.CreateCertificate(p.env.Rand, template, template, key.Public(), key)
	if err != nil {
		return err
	}
	secret, err := keyPEM(key)
	if err != nil {
		return err
	}
	// Write the key first: a crash between the two writes leaves a pair that does not load, and is made again.
	if err := p.opts.WritePrivate(keyFile, secret); err != nil {
		return err
	}
	return p.opts.WritePrivate(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}))
}

func keyPEM(key crypto.Signer) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}
