// Package pki identifies the servers of a cluster. It manages the cluster's own authority, the certificates of its
// servers, and the tokens with which servers join.
//
// A server's identity is the URI in its certificate: urn:doublet:server: and the UNID of its server document. The
// cluster's authority signs the certificate. Host name and address may change. The server document holds the
// certificate's key too, so a copy of the authority's key is not enough to pass for a member. The files are in the
// folder cluster of the data folder, with mode 0600:
//
//	authority.pem  the authority's certificate: it makes the server a member of a cluster
//	authority.key  its key, on servers that may admit others
//	server.pem     this server's certificate
//	server.key     its key, which renewals keep
//	tokens.json    the tokens issued, as hashes; domain-tokens.json has those of a domain
//	members.json   the last known members, to contact before the directory is readable
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/url"
	"strings"
	"time"

	"doublet/bus"
	"doublet/env"
	"doublet/note"
)

const (
	// tlsName is in every server's certificate, and TLS verifies it. The URI is the identity.
	tlsName   = "server.cluster.doublet.internal"
	uriPrefix = "urn:doublet:server:"

	authorityLife = 30 * 365 * 24 * time.Hour
	// backdate is the time by which a certificate's validity starts early, so that clocks may differ.
	backdate = 24 * time.Hour
	// DefaultLife is the default validity period of a server's certificate. The server renews it in the last third.
	DefaultLife = 90 * 24 * time.Hour
	// maxName is the maximum length of the names of clusters and servers in certificates (RFC 5280, ub-common-name).
	maxName = 64
)

// Errors of membership and certificates.
var (
	// ErrNone means that the folder has no cluster.
	ErrNone = errors.New("this server is in no cluster")
	// ErrExists means that the folder has a cluster already.
	ErrExists = errors.New("this server is in a cluster already")
	// ErrOtherCluster means that another authority issued the certificate.
	ErrOtherCluster = errors.New("certificate was not issued by this cluster")
	// ErrExpired means that a certificate has expired or is not valid yet. A wrong clock may be the cause.
	ErrExpired = errors.New("certificate expired or not yet valid")
	// ErrNoServer means that a certificate has no server's identity.
	ErrNoServer = errors.New("certificate names no server")
	// ErrNoKey means that this server does not hold the authority's key.
	ErrNoKey = errors.New("this server does not hold the key of the cluster's authority: ask one that does")
)

// authority signs certificates; key is nil if only the certificate is known.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// fingerprint returns the SHA-256 of the authority's certificate.
func (a *authority) fingerprint() note.Digest { return sha256.Sum256(a.cert.Raw) }

func newAuthority(e *env.Env, cluster string) (*authority, error) {
	if err := checkName("cluster", cluster); err != nil {
		return nil, err
	}
	key, err := newKey(e)
	if err != nil {
		return nil, err
	}
	now := e.Clock.Now()
	template := &x509.Certificate{
		SerialNumber: serial(e), Subject: pkix.Name{CommonName: cluster,
			Organization: []string{"Doublet cluster authority"}},
		NotBefore: now.Add(-backdate), NotAfter: now.Add(authorityLife),
		IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	der, err := x509.CreateCertificate(e.Rand, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	return &authority{cert: cert, key: key}, err
}

// issue makes a certificate for a server with the given key.
func (a *authority) issue(e *env.Env, key *ecdsa.PublicKey, id bus.ServerID, name string,
	life time.Duration) ([]byte, error) {
	if a.key == nil {
		return nil, ErrNoKey
	}
	if err := checkName("server", name); err != nil {
		return nil, err
	}
	now := e.Clock.Now()
	ends := now.Add(life)
	if ends.After(a.cert.NotAfter) {
		ends = a.cert.NotAfter
	}
	template := &x509.Certificate{
		SerialNumber: serial(e), Subject: pkix.Name{CommonName: name,
			Organization: []string{a.cert.Subject.CommonName}},
		NotBefore: now.Add(-backdate), NotAfter: ends,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth,
			x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true, DNSNames: []string{tlsName},
		URIs: []*url.URL{{Scheme: "urn", Opaque: strings.TrimPrefix(uriPrefix, "urn:") + id.String()}},
	}
	return x509.CreateCertificate(e.Rand, template, a.cert, key, a.key)
}

func newKey(e *env.Env) (*ecdsa.PrivateKey, error) {
	return ecdsa.GenerateKey(elliptic.P256(), e.Rand)
}

func serial(e *env.Env) *big.Int {
	var b [15]byte
	e.Fill(b[:])
	return new(big.Int).SetBytes(b[:])
}

func checkName(of, name string) error {
	if name == "" || len(name) > maxName || strings.ContainsFunc(name,
		func(r rune) bool { return r < ' ' || r == 0x7f || r == 0xfffd }) {
		return fmt.Errorf("%q is no name of a %s: 1 to %d bytes of text", name, of, maxName)
	}
	return nil
}

// KeyOf returns the key of a certificate.
func KeyOf(cert *x509.Certificate) bus.Key { return sha256.Sum256(cert.RawSubjectPublicKeyInfo) }

// ServerID returns the UNID of the server document for a key. It depends only on the key, so a join can be repeated.
func ServerID(key bus.Key) bus.ServerID { return note.DeriveUNID([]byte("server"), key[:]) }

// Identity holds the contents of a server's certificate.
type Identity struct {
	ID    bus.ServerID
	Name  string
	Key   bus.Key
	Until time.Time
}

func identityOf(cert *x509.Certificate) (Identity, error) {
	if len(cert.URIs) != 1 {
		return Identity{}, ErrNoServer
	}
	word, ok := strings.CutPrefix(cert.URIs[0].String(), uriPrefix)
	if !ok {
		return Identity{}, ErrNoServer
	}
	id, err := note.ParseUNID(word)
	if err != nil || id.IsZero() {
		return Identity{}, ErrNoServer
	}
	return Identity{ID: id, Name: cert.Subject.CommonName, Key: KeyOf(cert), Until: cert.NotAfter}, nil
}

// Explain wraps a certificate error in one of this package's errors. err comes from a TLS handshake or from the first
// read after it; other errors are returned unchanged.
func Explain(err error) error {
	var unknown x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	var alert tls.AlertError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &unknown):
		return fmt.Errorf("%w: %w", ErrOtherCluster, err)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return fmt.Errorf("%w, or a clock is off: %w", ErrExpired, err)
	case errors.As(err, &alert):
		// The other side rejected our certificate (RFC 8446 section 6.2).
		switch alert {
		case 45: // certificate_expired
			return fmt.Errorf("peer rejected our certificate: %w, or a clock is off: %w", ErrExpired, err)
		case 48: // unknown_ca
			return fmt.Errorf("peer rejected our certificate: %w: %w", ErrOtherCluster, err)
		}
	}
	return err
}

func encodePEM(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return encodePEM("PRIVATE KEY", der), nil
}

func decodePEM(kind string, raw []byte) ([]byte, error) {
	block, rest := pem.Decode(raw)
	if block == nil || block.Type != kind || len(strings.TrimSpace(string(rest))) > 0 {
		return nil, fmt.Errorf("no single %s in PEM", kind)
	}
	return block.Bytes, nil
}

func decodeCertificate(raw []byte) (*x509.Certificate, error) {
	der, err := decodePEM("CERTIFICATE", raw)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

func decodeKey(raw []byte) (*ecdsa.PrivateKey, error) {
	der, err := decodePEM("PRIVATE KEY", raw)
	if err != nil {
		return nil, err
	}
	key, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return nil, err
	}
	ec, ok := key.(*ecdsa.PrivateKey)
	if !ok || ec.Curve != elliptic.P256() {
		return nil, errors.New("key is not ECDSA P-256")
	}
	return ec, nil
}

// keyOfPublic returns the Key of a public key without a certificate.
func keyOfPublic(key *ecdsa.PublicKey) (bus.Key, error) {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return bus.Key{}, err
	}
	return sha256.Sum256(der), nil
}
