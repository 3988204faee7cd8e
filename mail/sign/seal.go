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

// Sealer adds ARC sets to mail of strangers that goes on: forwards and copies of lists. Its methods may be called
// from any goroutine.
type Sealer struct{ s *Signer }

// Sealer makes a Sealer that uses the signer's keys.
func (s *Signer) Sealer() *Sealer { return &Sealer{s} }

// Seal makes an ARC set under a domain's RSA key, to be put before fields and message. fields are other fields that
// go before the message, such as its signatures. host is the authserv-id of the Authentication-Results that the
// message got when it came. Nothing comes back where the domain has no RSA key, where the message has no such field,
// or where RFC 8617 asks for no further set.
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
		return nil, nil // a filter has sealed it here, after it was checked
	}
	m.Prepend(fields)
	h, err := m.AppendSeal(nil, &dkim.Seal{Signer: key, Results: results, Passed: arc == verify.Pass}, x.s.env.Clock.Now())
	if errors.Is(err, dkim.ErrNotSealed) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("seal for %s: %w", domain, err)
	}
	x.s.sealed.Inc()
	return h, nil
}

// sealing gives the first active RSA key of a domain.
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
