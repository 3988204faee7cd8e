package outbound

import (
	"bytes"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"doublet/client/dns"
)

// The values of the fields of a TLSA record (RFC 7218).
const (
	usageTA = 2 // DANE-TA: a CA certificate of the chain
	usageEE = 3 // DANE-EE: the server's own certificate

	selectorCert = 0
	selectorSPKI = 1

	matchFull   = 0
	matchSHA256 = 1
	matchSHA512 = 2
)

// usable returns the associations that SMTP can use. PKIX-TA and PKIX-EE are not usable.
//
// Implements: RFC 7672 §3.1.3 Certificate usages PKIX-TA(0) and PKIX-EE(1)
func usable(list []dns.TLSA) []dns.TLSA {
	var out []dns.TLSA
	for _, t := range list {
		size := map[uint8]int{matchSHA256: sha256.Size, matchSHA512: sha512.Size}[t.Matching]
		switch {
		case t.Usage != usageTA && t.Usage != usageEE, t.Selector > selectorSPKI, t.Matching > matchSHA512,
			len(t.Data) == 0:
		case size != 0 && len(t.Data) != size:
		default:
			out = append(out, t)
		}
	}
	return out
}

func matches(t *dns.TLSA, c *x509.Certificate) bool {
	data := c.Raw
	if t.Selector == selectorSPKI {
		data = c.RawSubjectPublicKeyInfo
	}
	switch t.Matching {
	case matchSHA256:
		sum := sha256.Sum256(data)
		data = sum[:]
	case matchSHA512:
		sum := sha512.Sum512(data)
		data = sum[:]
	}
	return bytes.Equal(data, t.Data)
}

// verifyDANE verifies a certificate chain, the server's certificate first, against associations. DANE-EE ignores names
// and dates. With DANE-TA the chain must lead to the anchor, and the certificate must match one of names.
//
// Implements: RFC 6698 §2.1 TLSA RDATA
// Implements: RFC 7672 §3.1.1 DANE-EE(3), §3.1.2 DANE-TA(2)
// Implements: RFC 7671 §5 Certificate usages
func verifyDANE(list []dns.TLSA, chain []*x509.Certificate, names []string, now time.Time) error {
	if len(chain) == 0 {
		return errors.New("DANE: no certificate")
	}
	roots, anchors := x509.NewCertPool(), 0
	for i := range list {
		t := &list[i]
		if t.Usage == usageEE {
			if matches(t, chain[0]) {
				return nil
			}
			continue
		}
		for _, c := range chain {
			if matches(t, c) {
				roots.AddCert(c)
				anchors++
			}
		}
		if t.Selector == selectorCert && t.Matching == matchFull {
			// The record contains the anchor itself, so the server need not send it.
			if c, err := x509.ParseCertificate(t.Data); err == nil {
				roots.AddCert(c)
				anchors++
			}
		}
	}
	if anchors == 0 {
		return errors.New("DANE: the certificate fits no TLSA record")
	}
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	var last error
	for _, name := range names {
		_, err := chain[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, DNSName: name,
			CurrentTime: now})
		if err == nil {
			return nil
		}
		last = err
	}
	return fmt.Errorf("DANE: %w", last)
}
