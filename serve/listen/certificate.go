package listen

import (
	"crypto/tls"
	"crypto/x509"

	"doublet/wire/scram"
)

// remembering returns a copy of cfg that records the chosen certificate at the connection.
func remembering(cfg *tls.Config) *tls.Config {
	if cfg == nil {
		return nil
	}
	c := cfg.Clone()
	c.Certificates = nil // otherwise crypto/tls chooses from them without calling GetCertificate
	c.GetCertificate = func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		cert, err := choose(cfg, hello)
		if s, ok := hello.Conn.(*tlsSocket); ok && err == nil {
			s.shown = cert
		}
		return cert, err
	}
	return c
}

// choose selects a certificate as crypto/tls does.
func choose(cfg *tls.Config, hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if cfg.GetCertificate != nil && (len(cfg.Certificates) == 0 || hello.ServerName != "") {
		if cert, err := cfg.GetCertificate(hello); cert != nil || err != nil {
			return cert, err
		}
	}
	for i := range cfg.Certificates {
		if hello.SupportsCertificate(&cfg.Certificates[i]) == nil {
			return &cfg.Certificates[i], nil
		}
	}
	if len(cfg.Certificates) == 0 {
		return nil, nil // crypto/tls reports the error
	}
	return &cfg.Certificates[0], nil
}

// EndPoint returns the channel binding tls-server-end-point of the presented certificate. It returns nil without TLS,
// and for a resumed TLS session, which presents no certificate.
func (t *transport) EndPoint() []byte {
	if t.under == nil || t.under.shown == nil {
		return nil
	}
	shown := t.under.shown
	leaf := shown.Leaf
	if leaf == nil && len(shown.Certificate) > 0 {
		leaf, _ = x509.ParseCertificate(shown.Certificate[0])
	}
	if leaf == nil {
		return nil
	}
	return scram.EndPoint(leaf).Data
}
