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

// DomainName is what TLS is asked for (SNI) by servers of the same domain at each other's ordinary doors. Whoever asks for it
// is shown the server's own key, and asked for his: both stand in the server documents, and no authority is needed.
const DomainName = "server.domain.doublet.internal"

// Own is a server's own key, by which other servers know it: the one of its membership where it is in a cluster.
type Own struct {
	ID          bus.ServerID
	Key         bus.Key
	certificate *tls.Certificate
}

// OpenOwn reads the key of a folder. ErrNone: there is none yet.
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

// MakeOwn is OpenOwn that makes the key where there is none.
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
	// Nobody looks at what it says beside the key, which is compared.
	template := &x509.Certificate{
		SerialNumber: serial(f.env), Subject: pkix.Name{CommonName: o.ID.String()}, NotBefore: now.Add(-backdate), NotAfter: now.Add(authorityLife),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
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

// Client is how to speak TLS to a server of the domain: with our key, and to none that has another than wanted.
func (o *Own) Client(wanted bus.Key, now func() time.Time, protocols ...string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, ServerName: DomainName, NextProtos: protocols, Time: now,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return o.certificate, nil },
		InsecureSkipVerify:   true, // in favour of the one key that is meant
		VerifyConnection: func(s tls.ConnectionState) error {
			if got, ok := peerKey(&s); !ok || got != wanted {
				return ErrOtherKey
			}
			return nil
		},
	}
}

// ErrOtherKey says that whoever answers does not have the key of the server document.
var ErrOtherKey = errors.New("the server that answers has another key than its document in the directory")

// Server is cfg for a door that servers of the domain come to as well: who asks for DomainName is shown our key and must
// have one. own may give nil: then cfg is all there is.
func Server(cfg *tls.Config, own func() *Own) *tls.Config {
	c := cfg.Clone()
	c.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if o := own(); o != nil && hello.ServerName == DomainName {
			return &tls.Config{
				MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{*o.certificate}, ClientAuth: tls.RequireAnyClientCert,
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

// PeerKey is the key of whoever came to a door by DomainName. Whose it is, the server documents say.
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
