package sign

import (
	"context"
	"crypto/rsa"
	"errors"
	"fmt"

	"doublet/mail/verify"
	"doublet/wire/dkim"
	"doublet/wire/mime"
)

// Sealer adds ARC sets to incoming mail that is forwarded or sent to a mailing list. Its methods may be called from any
// goroutine.
type Sealer struct{ s *Signer }

// Sealer returns a Sealer that uses the signer's keys.
func (s *Signer) Sealer() *Sealer { return &Sealer{s} }

// Seal returns an ARC set, signed with a domain's RSA key, to be put before fields and message. fields are other fields
// that go before the message, such as its signatures. host is the authserv-id of the Authentication-Results fields that
// were added when the message came in. Seal returns nil if the domain has no RSA key, if the message has no such field,
// or if RFC 8617 forbids another set.
//
// Implements: RFC 8617 §5.1 Sealer actions
func (x *Sealer) Seal(ctx context.Context, domain, host string, fields, message []byte) ([]byte, error) {
	key, ok, err := x.s.sealing(ctx, domain)
	if err != nil || !ok {
		return nil, err
	}
	results, arc, ok := verify.Stored(message[:mime.HeaderEnd(message)], host)
	if !ok {
		return nil, nil
	}
	m := dkim.New(message)
	if arc == "" && m.Chain().Len() > 0 {
		return nil, nil // a filter on this server has sealed it after the verification
	}
	m.Prepend(fields)
	h, err := m.AppendSeal(nil, &dkim.Seal{Signer: key, Results: results, Passed: arc == verify.Pass},
		x.s.env.Clock.Now())
	if errors.Is(err, dkim.ErrNotSealed) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("seal for %s: %w", domain, err)
	}
	x.s.sealed.Inc()
	return h, nil
}

// sealing returns the first active RSA key of a domain.
func (s *Signer) sealing(ctx context.Context, domain string) (dkim.Signer, bool, error) {
	list, err := s.signers(ctx, domain)
	if err != nil {
		return dkim.Signer{}, false, err
	}
	for _, k := range list {
		if _, ok := k.Key.(*rsa.PrivateKey); ok {
			return k, true, nil
		}
	}
	return dkim.Signer{}, false, nil
}
