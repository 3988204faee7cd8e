package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// The self-signed certificate in the data folder.
const (
	selfSigned    = "selfsigned.pem"
	selfSignedKey = "selfsigned.key"
	selfSignedFor = 365 * 24 * time.Hour
)

// loadPair reads a certificate and its key.
func loadPair(certificate, key string) (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("certificate %s with key %s: %w", certificate, key, err)
	}
	return &pair, nil
}

// tlsConfig is Go's defaults with the certificate that was loaded last.
func (h *house) tlsConfig() (*tls.Config, error) {
	if err := h.loadCertificate(); err != nil {
		return nil, err
	}
	return &tls.Config{
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return h.cert.Load(), nil }, MinVersion: tls.VersionTLS12,
	}, nil
}

// loadCertificate reads the certificate anew: handshakes from now on show it. After an error they
// show the one before.
func (h *house) loadCertificate() error {
	pair, err := h.certificate()
	if err != nil {
		return err
	}
	h.cert.Store(pair)
	return nil
}

// reload is what SIGHUP asks for.
func (h *house) reload() {
	if err := h.loadCertificate(); err != nil {
		h.env.Log.Error("the certificate was not read anew: the one before stays", "error", err)
		return
	}
	leaf := h.cert.Load().Leaf
	h.env.Log.Info("the certificate was read anew; other settings hold until the next start", "subject", leaf.Subject.String(), "until", leaf.NotAfter)
}

// certificate is what the doors show: the one that the configuration names, or a self-signed one,
// which is made where there is none that is good for a week more.
func (h *house) certificate() (*tls.Certificate, error) {
	if c := h.cfg.TLS; c.Certificate != "" {
		return loadPair(c.Certificate, c.Key)
	}
	cert, key := filepath.Join(h.cfg.Data.Dir, selfSigned), filepath.Join(h.cfg.Data.Dir, selfSignedKey)
	now := h.env.Clock.Now()
	pair, err := loadPair(cert, key)
	if err == nil && pair.Leaf.NotAfter.After(now.Add(7*24*time.Hour)) && slices.Contains(pair.Leaf.DNSNames, h.cfg.Server.Name) {
		return pair, nil
	}
	if err := makeCertificate(cert, key, h.cfg.Server.Name, now); err != nil {
		return nil, fmt.Errorf("make a self-signed certificate: %w", err)
	}
	if pair, err = loadPair(cert, key); err != nil {
		return nil, fmt.Errorf("self-signed: %w", err)
	}
	h.env.Log.Info("made a self-signed certificate: mail programs will ask whether to trust it", "file", cert)
	return pair, nil
}

func makeCertificate(certFile, keyFile, name string, now time.Time) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return err
	}
	names := []string{name}
	if name != "localhost" {
		names = append(names, "localhost")
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name, Organization: []string{"Doublet, self-signed"}},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(selfSignedFor),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true, DNSNames: names, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	// The key first: a crash between the two leaves a pair that does not load, and is made again.
	if err := os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600); err != nil {
		return err
	}
	return os.WriteFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), 0o644)
}
