package dkim

import (
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// ErrNotSealed means that a message gets no ARC set. Either the last set of its chain records a failure, or the chain
// has reached its maximum length, or the message cannot be signed.
var ErrNotSealed = errors.New("dkim: message cannot be sealed")

// Seal describes an ARC set to make.
type Seal struct {
	// Signer must have an RSA key, because validators that know only RSA would treat the chain as broken.
	Signer Signer
	// Results is the content of Authentication-Results on arrival, from the authserv-id on.
	Results string
	// Passed reports whether the chain passed on arrival. It is ignored for a message without a chain.
	Passed bool
}

// Prepend adds complete header fields before the message's own. It keeps the hashes of the body.
func (m *Message) Prepend(fields []byte) {
	m.fields = append(New(fields).fields, m.fields...)
}

// AppendSeal appends an ARC set, which the caller must put before the message. All other changes to the message, such
// as another signature, must be made before.
//
// Implements: RFC 8617 §5.1 Sealer actions
func (m *Message) AppendSeal(dst []byte, s *Seal, now time.Time) ([]byte, error) {
	if _, ok := s.Signer.Key.(*rsa.PrivateKey); !ok {
		return dst, fmt.Errorf("%w: the key is not RSA", ErrNotSealed)
	}
	names, err := m.toSign()
	if err != nil {
		return dst, fmt.Errorf("%w: %w", ErrNotSealed, err)
	}
	c := m.Chain()
	instance, cv, err := c.next(s.Passed)
	if err != nil {
		return dst, err
	}
	number := strconv.Itoa(instance)
	results := []byte("ARC-Authentication-Results: i=" + number + "; " + s.Results + "\r\n")
	message, err := m.arcMessage(s, number, names, now)
	if err != nil {
		return dst, err
	}
	seal := s.Signer.appendSeal(nil, number, cv, now)
	covered := c.appendSets(make([]byte, 0, 4096), cv)
	covered = appendField(appendField(covered, results, true), message, true)
	if seal, err = s.Signer.complete(seal, covered); err != nil {
		return dst, err
	}
	return slices.Concat(dst, seal, message, results), nil
}

// next returns the instance of a new set and its chain validation status.
//
// Implements: RFC 8617 §5.1.2 Marking and sealing "cv=fail" (invalid) chains
func (c *Chain) next(passed bool) (instance int, cv string, err error) {
	n := len(c.sets)
	switch {
	case c.long:
		return 0, "", fmt.Errorf("%w: its chain is too long", ErrNotSealed)
	case n >= maxSets:
		return 0, "", fmt.Errorf("%w: its chain has %d sets", ErrNotSealed, n)
	case n > 0 && c.sets[n-1].cv == cvFail:
		return 0, "", fmt.Errorf("%w: its chain has failed before", ErrNotSealed)
	case c.Err != nil || n > 0 && !passed:
		return n + 1, cvFail, nil
	case n > 0:
		return n + 1, cvPass, nil
	}
	return 1, cvNone, nil
}

// appendSets appends the sets that a new seal covers besides its own: none, if the chain has failed.
func (c *Chain) appendSets(dst []byte, cv string) []byte {
	if cv != cvPass {
		return dst
	}
	for i := range c.sets {
		set := &c.sets[i]
		dst = appendField(dst, set.results.raw, true)
		dst = appendField(dst, set.message.field.raw, true)
		dst = appendField(dst, set.seal.field.raw, true)
	}
	return dst
}

// arcMessage makes the ARC-Message-Signature. It covers the DKIM signatures, so that the next receiver can tell that
// they are unchanged. It does not cover Authentication-Results, because servers on the way may remove them.
//
// Implements: RFC 8617 §4.1.2 ARC-Message-Signature
func (m *Message) arcMessage(s *Seal, number string, names []string, now time.Time) ([]byte, error) {
	for i := range m.fields {
		if m.fields[i].is("DKIM-Signature") {
			names = append(names, "DKIM-Signature")
		}
	}
	if len(names) > maxSignedFields {
		return nil, fmt.Errorf("%w: it has too many fields", ErrNotSealed)
	}
	f := append([]byte("ARC-Message-Signature: i="), number...)
	f, err := s.Signer.appendTags(append(f, "; "...), names, m.bodyHash(true).sum[:], now)
	if err != nil {
		return nil, err
	}
	return s.Signer.complete(f, m.appendCovered(make([]byte, 0, 4096), names))
}

// appendSeal appends an ARC-Seal up to its "b=".
//
// Implements: RFC 8617 §4.1.3 ARC-Seal
func (s *Signer) appendSeal(dst []byte, number, cv string, now time.Time) []byte {
	return fmt.Appendf(dst, "ARC-Seal: i=%s; a=rsa-sha256; t=%d; cv=%s;\r\n\td=%s; s=%s;\r\n\tb=",
		number, now.Unix(), cv, s.Domain, s.Selector)
}

// complete signs covered and the field itself, which ends with "b=", and appends the signature to the field.
func (s *Signer) complete(field, covered []byte) ([]byte, error) {
	own := appendField(covered[:len(covered):len(covered)], field, true)
	sum := sha256.Sum256(trimBreak(own))
	signed, err := s.sign(sum[:])
	if err != nil {
		return field, fmt.Errorf("dkim: sign for %s: %w", s.Domain, err)
	}
	text := base64.StdEncoding.EncodeToString(signed)
	for len(text) > maxLine-1 {
		field = append(append(field, text[:maxLine-1]...), "\r\n\t"...)
		text = text[maxLine-1:]
	}
	return append(append(field, text...), "\r\n"...), nil
}
