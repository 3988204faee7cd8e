package listen

import (
	"crypto/tls"
	"crypto/x509"
	"net"

	"doublet/wire/scram"
)

// tlsSocket remembers, for one handshake, which certificate was shown: crypto/tls does not tell.
type tlsSocket struct {
	net.Conn
	shown *tls.Certificate
}

// remembering is cfg with a choice of certificates that leaves the chosen one at the connection.
func remembering(cfg *tls.Config) *tls.Config {
	if cfg == nil {
		return nil
	}
	c := cfg.Clone()
	c.Certificates = nil // else they are chosen from without asking
	c.GetCertificate = func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		cert, err := choose(cfg, hello)
		if s, ok := hello.Conn.(*tlsSocket); ok && err == nil {
			s.shown = cert
		}
		return cert, err
	}
	return c
}

// choose is what crypto/tls does.
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
		return nil, nil // crypto/tls has an error for that
	}
	return &cfg.Certificates[0], nil
}

// EndPoint is the channel binding tls-server-end-point of the certificate that was shown, nil where
// none was: without TLS, and in a session that was resumed.
func (c *Conn) EndPoint() []byte {
	if c.under == nil || c.under.shown == nil {
		return nil
	}
	shown := c.under.shown
	leaf := shown.Leaf
	if leaf == nil && len(shown.Certificate) > 0 {
		leaf, _ = x509.ParseCertificate(shown.Certificate[0])
	}
	if leaf == nil {
		return nil
	}
	return scram.EndPoint(leaf).Data
}
