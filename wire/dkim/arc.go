package dkim

import (
	"crypto/sha256"
	"fmt"
	"strconv"
	"strings"
)

// Limits of an ARC chain.
const (
	maxSets  = 50 // RFC 8617 section 4.2.1
	maxChain = 256 << 10
)

// Chain holds the ARC sets of a message, the oldest first.
type Chain struct {
	// Err is the reason why the chain fails, whatever the keys are.
	Err  error
	sets []arcSet
	long bool // fields were skipped
}

// The values of cv=.
const (
	cvNone = "none"
	cvPass = "pass"
	cvFail = "fail"
)

// arcSet is the ARC set of one server.
type arcSet struct {
	results       *field
	message, seal *Signature
	cv            string
}

// Chain parses the message's ARC sets. For a message without any, the length is 0.
//
// Implements: RFC 8617 §4.2 ARC sets, §5.2 Structure of the chain
func (m *Message) Chain() *Chain {
	c := &Chain{}
	size := 0
	for i := range m.fields {
		f := &m.fields[i]
		kind := arcKind(f)
		if kind == 0 {
			continue
		}
		if size += len(f.raw); m.bad || size > maxChain || len(f.raw) > maxSignature {
			c.long = true
			c.fail("it is too long")
			continue
		}
		c.take(f, kind)
	}
	c.complete()
	return c
}

func arcKind(f *field) byte {
	switch {
	case f.is("ARC-Authentication-Results"):
		return 'r'
	case f.is("ARC-Message-Signature"):
		return 'm'
	case f.is("ARC-Seal"):
		return 's'
	}
	return 0
}

func (c *Chain) fail(why string) {
	if c.Err == nil {
		c.Err = fmt.Errorf("%w: %s", ErrFail, why)
	}
}

// instance returns the instance of a field, from 1 to maxSets, and its tags. In ARC-Authentication-Results, only the
// part before the first semicolon has tags (RFC 8617 section 4.1.1).
func instance(value string, kind byte) (n int, t tags, ok bool) {
	if kind == 'r' {
		first, _, found := strings.Cut(value, ";")
		if !found {
			return 0, t, false
		}
		value = first
	}
	t, err := parseTags(value)
	if err != nil {
		return 0, t, false
	}
	n, err = strconv.Atoi(squeeze(t.get("i")))
	return n, t, err == nil && n >= 1 && n <= maxSets
}

// take adds a field to its set.
func (c *Chain) take(f *field, kind byte) {
	value := string(f.value())
	n, t, ok := instance(value, kind)
	if !ok {
		if len(c.sets) == 0 {
			c.sets = make([]arcSet, 1)
		}
		c.fail("a field has no instance")
		return
	}
	for len(c.sets) < n {
		c.sets = append(c.sets, arcSet{})
	}
	set := &c.sets[n-1]
	s := &Signature{field: f, length: -1}
	switch {
	case kind == 'r' && set.results == nil:
		set.results = f
	case kind == 'm' && set.message == nil:
		set.message = s
		s.Err = s.parseMessage(value)
	case kind == 's' && set.seal == nil:
		set.seal, set.cv = s, squeeze(t.get("cv"))
		s.Err = s.parseSeal(value)
	default:
		c.fail("a field is there twice")
	}
}

// complete checks that the sets are complete and in sequence.
func (c *Chain) complete() {
	for i := range c.sets {
		s := &c.sets[i]
		want := cvPass
		if i == 0 {
			want = cvNone
		}
		switch {
		case s.results == nil || s.message == nil || s.seal == nil:
			c.fail("a set is not complete")
		case s.cv != want:
			c.fail("set " + strconv.Itoa(i+1) + " says that the chain is not whole")
		case s.seal.Err != nil && c.Err == nil:
			c.Err = s.seal.Err
		}
	}
}

// parseMessage parses an ARC-Message-Signature.
//
// Implements: RFC 8617 §4.1.2 ARC-Message-Signature
func (s *Signature) parseMessage(value string) error {
	t, err := s.begin(value, "i", "a", "b", "bh", "d", "h", "s")
	if err != nil {
		return err
	}
	if err := s.covers(t); err != nil {
		return err
	}
	for _, name := range s.signed {
		if foldEqual(name, "ARC-Seal") {
			return fmt.Errorf("%w: it covers a seal", ErrPermanent)
		}
	}
	return nil
}

// parseSeal parses an ARC-Seal.
//
// Implements: RFC 8617 §4.1.3 ARC-Seal
func (s *Signature) parseSeal(value string) error {
	t, err := s.begin(value, "i", "a", "b", "cv", "d", "s")
	if err == nil && (t.has("h") || t.has("bh")) {
		return fmt.Errorf("%w: a seal names no fields", ErrPermanent)
	}
	return err
}

// Len returns the number of sets.
func (c *Chain) Len() int { return len(c.sets) }

// Message returns the newest ARC-Message-Signature, for Message.Verify. Call it only if Err is nil and Len is not 0.
func (c *Chain) Message() *Signature { return c.sets[len(c.sets)-1].message }

// Seal returns the seal of the n-th set, from 1.
func (c *Chain) Seal(n int) *Signature { return c.sets[n-1].seal }

// Results returns the value of the n-th set's ARC-Authentication-Results, without the instance.
func (c *Chain) Results(n int) string {
	_, rest, _ := strings.Cut(string(c.sets[n-1].results.value()), ";")
	return rest
}

// VerifySeal checks the seal of the n-th set, from 1, with its key. It returns nil if the seal is valid.
//
// Implements: RFC 8617 §5.1.1 Header fields included in ARC-Seal signatures
func (c *Chain) VerifySeal(n int, k *Key) error {
	s := c.sets[n-1].seal
	if err := k.fits(s); err != nil {
		return err
	}
	data := make([]byte, 0, 4096)
	for i := range c.sets[:n] {
		set := &c.sets[i]
		data = appendField(data, set.results.raw, true)
		data = appendField(data, set.message.field.raw, true)
		if i < n-1 {
			data = appendField(data, set.seal.field.raw, true)
		}
	}
	sum := sha256.Sum256(s.appendOwn(data, true))
	if !k.verify(sum[:], s.data) {
		return fmt.Errorf("%w: seal %d does not match", ErrFail, n)
	}
	return nil
}
