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

// ErrNotSealed is why a message gets no ARC set: its chain ends with a set that says that the chain failed, it
// is as long as a chain may be, or the message cannot be signed.
var ErrNotSealed = errors.New("dkim: message cannot be sealed")

// Seal is an ARC set to be made.
type Seal struct {
	// Signer must have an RSA key: validators that know no other algorithm would take the chain for broken.
	Signer Signer
	// Results are what Authentication-Results said when the message came, from the authserv-id on.
	Results string
	// Passed says that the chain passed when the message came. It does not matter where there was none.
	Passed bool
}

// Prepend puts whole header fields before the message's own. The body's hashes are kept.
func (m *Message) Prepend(fields []byte) {
	m.fields = append(New(fields).fields, m.fields...)
}

// AppendSeal appends an ARC set, to be put before the message. Everything that changes the message, such as
// another signature, must have been done.
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

// next is the instance of a new set and its chain validation status.
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

// appendSets adds the sets that a new seal covers beside its own: none, where the chain has failed.
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

// arcMessage makes the ARC-Message-Signature. It covers the DKIM signatures, so that the next one who looks can
// tell that they are those that stood there. Authentication-Results are not covered: servers on the way may
// remove them.
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

// appendSeal adds an ARC-Seal up to its "b=".
//
// Implements: RFC 8617 §4.1.3 ARC-Seal
func (s *Signer) appendSeal(dst []byte, number, cv string, now time.Time) []byte {
	return fmt.Appendf(dst, "ARC-Seal: i=%s; a=rsa-sha256; t=%d; cv=%s;\r\n\td=%s; s=%s;\r\n\tb=",
		number, now.Unix(), cv, s.Domain, s.Selector)
}

// complete signs what a field covers, and the field itself, which ends with "b=" and has the data added.
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
