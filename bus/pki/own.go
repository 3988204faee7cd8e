package pki

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"doublet/bus"
	"doublet/env"
)

// DomainName is the SNI name with which servers of one domain contact each other on their ordinary ports. A client that
// sends it gets the server's own key and must show its own. Both keys are in the server documents, so no authority is
// needed.
const DomainName = "server.domain.doublet.internal"

// Own is the key that identifies a server to other servers. In a cluster it is the key of the membership.
type Own struct {
	ID          bus.ServerID
	Key         bus.Key
	certificate *tls.Certificate
}

// OpenOwn loads the key of a folder. It returns ErrNone if there is none yet.
func OpenOwn(e *env.Env, dir string) (*Own, error) {
	f := newFolder(e, dir, Options{})
	raw, err := f.read(serverKeyFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNone
	}
	if err == nil {
		f.key, err = decodeKey(raw)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.path(serverKeyFile), err)
	}
	return f.own()
}

// MakeOwn loads the key of a folder, and makes one if there is none.
func MakeOwn(e *env.Env, dir string, o Options) (*Own, error) {
	f := newFolder(e, dir, o)
	if err := f.ownKey(); err != nil {
		return nil, err
	}
	return f.own()
}

func (f *Folder) own() (*Own, error) {
	key, err := keyOfPublic(&f.key.PublicKey)
	if err != nil {
		return nil, err
	}
	o := &Own{ID: ServerID(key), Key: key}
	now := f.env.Clock.Now()
	// Peers compare only the key; the other fields do not matter.
	template := &x509.Certificate{
		SerialNumber: serial(f.env), Subject: pkix.Name{CommonName: o.ID.String()}, NotBefore: now.Add(-backdate),
		NotAfter: now.Add(authorityLife),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth,
			x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true, DNSNames: []string{DomainName},
	}
	der, err := x509.CreateCertificate(f.env.Rand, template, template, f.key.Public(), f.key)
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	o.certificate = &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: f.key, Leaf: leaf}
	return o, err
}

// Client returns the TLS configuration for connections to a server of the domain. It shows our key and accepts only the
// key wanted.
func (o *Own) Client(wanted bus.Key, now func() time.Time, protocols ...string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, ServerName: DomainName, NextProtos: protocols, Time: now,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return o.certificate, nil },
		InsecureSkipVerify:   true, // VerifyConnection accepts only the wanted key
		VerifyConnection: func(s tls.ConnectionState) error {
			if got, ok := peerKey(&s); !ok || got != wanted {
				return ErrOtherKey
			}
			return nil
		},
	}
}

// ErrOtherKey means that the server's key differs from the one in its server document.
var ErrOtherKey = errors.New("answering server's key differs from its document in the directory")

// Server returns cfg extended for connections from servers of the domain: a client that sends DomainName gets our key
// and must show a key. If own returns nil, cfg applies to all clients.
func Server(cfg *tls.Config, own func() *Own) *tls.Config {
	c := cfg.Clone()
	c.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if o := own(); o != nil && hello.ServerName == DomainName {
			return &tls.Config{
				MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{*o.certificate},
				ClientAuth: tls.RequireAnyClientCert,
				NextProtos: cfg.NextProtos, Time: cfg.Time, SessionTicketsDisabled: true,
			}, nil
		}
		if cfg.GetConfigForClient != nil {
			return cfg.GetConfigForClient(hello)
		}
		return nil, nil
	}
	return c
}

// PeerKey returns the key of a client that connected with DomainName. The server documents identify its owner.
func PeerKey(s *tls.ConnectionState) (bus.Key, bool) {
	if s == nil || s.ServerName != DomainName {
		return bus.Key{}, false
	}
	return peerKey(s)
}

func peerKey(s *tls.ConnectionState) (bus.Key, bool) {
	if len(s.PeerCertificates) == 0 {
		return bus.Key{}, false
	}
	return KeyOf(s.PeerCertificates[0]), true
}
