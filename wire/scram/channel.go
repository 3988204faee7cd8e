package scram

import (
	"crypto/sha256"
	"crypto/sha512"
	"crypto/tls"
	"crypto/x509"
)

// exporterLabel is the label of RFC 9266 section 2.
const exporterLabel = "EXPORTER-Channel-Binding"

// Exporter returns the channel binding of a TLS connection. Only its two ends know it; the server's key alone is not
// enough. ok is false for connections before TLS 1.3, because their keys may not depend on the whole handshake.
//
// Implements: RFC 9266 §2 tls-exporter
func Exporter(state *tls.ConnectionState) (b Binding, ok bool) {
	if state == nil || state.Version < tls.VersionTLS13 {
		return b, false
	}
	data, err := state.ExportKeyingMaterial(exporterLabel, nil, 32)
	return Binding{TLSExporter, data}, err == nil
}

// EndPoint returns the channel binding of a server's certificate. It proves only that the peer has the certificate's
// key.
//
// Implements: RFC 5929 §4 tls-server-end-point
func EndPoint(cert *x509.Certificate) Binding {
	var sum []byte
	switch cert.SignatureAlgorithm {
	case x509.SHA384WithRSA, x509.ECDSAWithSHA384, x509.SHA384WithRSAPSS:
		s := sha512.Sum384(cert.Raw)
		sum = s[:]
	case x509.SHA512WithRSA, x509.ECDSAWithSHA512, x509.SHA512WithRSAPSS:
		s := sha512.Sum512(cert.Raw)
		sum = s[:]
	default: // MD5 and SHA-1 are replaced by SHA-256; Ed25519 names no hash
		s := sha256.Sum256(cert.Raw)
		sum = s[:]
	}
	return Binding{TLSServerEndPoint, sum}
}
