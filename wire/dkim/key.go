package dkim

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"fmt"
)

// ParseKey parses the TXT records at a Signature's KeyName.
//
// Implements: RFC 6376 §3.6.1 Textual representation of a key record, §3.6.2 DNS binding
// Implements: RFC 8463 §4 Ed25519 keys
func ParseKey(records []string) (*Key, error) {
	if len(records) != 1 {
		return nil, fmt.Errorf("%w: %d key records", ErrPermanent, len(records))
	}
	if len(records[0]) > maxKeyRecord {
		return nil, fmt.Errorf("%w: the key record is too long", ErrPermanent)
	}
	t, err := parseTags(records[0])
	if err != nil {
		return nil, fmt.Errorf("key record: %w", err)
	}
	if t.has("v") && (t.get("v") != "DKIM1" || t[0].name != "v") {
		return nil, fmt.Errorf("%w: the key record is of another version", ErrPermanent)
	}
	if !t.has("p") {
		return nil, fmt.Errorf("%w: the key record has no key", ErrPermanent)
	}
	p := squeeze(t.get("p"))
	if p == "" {
		return nil, fmt.Errorf("%w: the key was revoked", ErrPermanent)
	}
	der, err := base64.StdEncoding.DecodeString(p)
	if err != nil {
		return nil, fmt.Errorf("%w: the key is not base64", ErrPermanent)
	}
	flags := squeeze(t.get("t"))
	k := &Key{hashes: squeeze(t.get("h")), service: squeeze(t.get("s")), Testing: contains(flags, "y"),
		Strict: contains(flags, "s")}
	switch squeeze(t.get("k")) {
	case "", "rsa":
		return k, k.parseRSA(der)
	case "ed25519":
		if len(der) != ed25519.PublicKeySize {
			return nil, fmt.Errorf("%w: the key is not of Ed25519", ErrPermanent)
		}
		k.ed = ed25519.PublicKey(der)
		return k, nil
	}
	return nil, fmt.Errorf("%w: the key is of an unknown kind", ErrPermanent)
}

func (k *Key) parseRSA(der []byte) error {
	// Both forms are in use: RFC 6376 erratum 3017.
	if key, err := x509.ParsePKIXPublicKey(der); err == nil {
		k.rsa, _ = key.(*rsa.PublicKey)
	} else if key, err := x509.ParsePKCS1PublicKey(der); err == nil {
		k.rsa = key
	}
	switch {
	case k.rsa == nil:
		return fmt.Errorf("%w: the key cannot be read", ErrPermanent)
	case k.rsa.N.BitLen() < minRSABits:
		return fmt.Errorf("%w: the key is too short", ErrPermanent)
	case k.rsa.N.BitLen() > maxRSABits:
		return fmt.Errorf("%w: the key is too long", ErrPermanent)
	}
	return nil
}

// Record returns the text of the key record for a public key (*rsa.PublicKey or ed25519.PublicKey).
func Record(public crypto.PublicKey) (string, error) {
	switch k := public.(type) {
	case *rsa.PublicKey:
		der, err := x509.MarshalPKIXPublicKey(k)
		if err != nil {
			return "", fmt.Errorf("dkim: public key: %w", err)
		}
		return "v=DKIM1; k=rsa; p=" + base64.StdEncoding.EncodeToString(der), nil
	case ed25519.PublicKey:
		return "v=DKIM1; k=ed25519; p=" + base64.StdEncoding.EncodeToString(k), nil
	}
	return "", fmt.Errorf("dkim: no record for a %T", public)
}
