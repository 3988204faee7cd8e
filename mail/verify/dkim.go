package verify

import (
	"context"
	"errors"
	"strings"
	"sync"

	"doublet/client/dns"
	"doublet/wire/dkim"
)

// maxSignatures is the maximum number of signatures that are verified, from the top of the message.
const maxSignatures = 10

// dkim verifies the message's signatures. It looks up their keys concurrently.
//
// Implements: RFC 6376 §6 Verifier actions
func (v *Verifier) dkim(ctx context.Context, m *dkim.Message) []DKIM {
	signatures := m.Signatures(maxSignatures)
	if len(signatures) == 0 {
		return nil
	}
	out := make([]DKIM, len(signatures))
	keys := make([]*dkim.Key, len(signatures))
	errs := make([]error, len(signatures))
	get := func(i int) { keys[i], errs[i] = v.key(ctx, signatures[i]) }
	var wg sync.WaitGroup
	for i := 1; i < len(signatures); i++ {
		wg.Add(1)
		v.env.Go("verify dkim", func() {
			defer wg.Done()
			get(i)
		})
	}
	get(0)
	wg.Wait()
	now := v.env.Clock.Now()
	for i, s := range signatures {
		out[i] = DKIM{Domain: s.Domain, Selector: s.Selector, Algorithm: s.Algorithm, Identity: s.Identity,
			Start: s.Start, Result: Pass}
		err := errs[i]
		if err == nil {
			out[i].Testing = keys[i].Testing
			err = m.Verify(s, keys[i], now)
		}
		if err == nil {
			continue
		}
		switch {
		case errors.Is(err, dns.ErrTemporary):
			out[i].Result, out[i].Reason = TempError, "the key cannot be looked up"
		case errors.Is(err, dns.ErrNotFound):
			out[i].Result, out[i].Reason = PermError, "there is no key"
		case errors.Is(err, dkim.ErrPolicy):
			out[i].Result, out[i].Reason = Policy, reason(err, dkim.ErrPolicy)
		case errors.Is(err, dkim.ErrFail):
			out[i].Result, out[i].Reason = Fail, reason(err, dkim.ErrFail)
		default:
			out[i].Result, out[i].Reason = PermError, reason(err, dkim.ErrPermanent)
		}
	}
	return out
}

func (v *Verifier) key(ctx context.Context, s *dkim.Signature) (*dkim.Key, error) {
	if s.Err != nil {
		return nil, s.Err
	}
	records, _, err := v.dns.TXT(ctx, s.KeyName())
	if err != nil {
		return nil, err
	}
	return dkim.ParseKey(records)
}

// reason returns the text of an error without its kind.
func reason(err, kind error) string {
	text := err.Error()
	if _, behind, found := strings.Cut(text, kind.Error()+": "); found {
		return behind
	}
	return text
}
