package dkim

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Signature is a DKIM-Signature field of a message.
type Signature struct {
	// Domain is d=, Selector s=, Algorithm a=, Identity i=: unchanged except that white space is removed.
	Domain, Selector, Algorithm, Identity string
	// Start is the start of b=, which distinguishes signatures in results (RFC 6008).
	Start string
	// Time and Expires are t= and x=; zero if absent.
	Time, Expires time.Time
	// Err is the reason why the signature cannot be used, whatever its key is.
	Err error

	field                      *field
	bFrom, bTo                 int // position of the value of b= in the field
	signed                     []string
	bodySum, data              []byte
	relaxedHeader, relaxedBody bool
	length                     int64 // l=, -1 if absent
}

// Signatures returns the message's signatures in order, at most most.
func (m *Message) Signatures(most int) []*Signature {
	var out []*Signature
	for i := range m.fields {
		f := &m.fields[i]
		if !f.is("DKIM-Signature") {
			continue
		}
		if len(out) == most {
			break
		}
		s := &Signature{field: f, length: -1}
		switch {
		case m.bad:
			s.Err = fmt.Errorf("%w: the header is too large", ErrPermanent)
		case len(f.raw) > maxSignature:
			s.Err = fmt.Errorf("%w: the field is too long", ErrPermanent)
		default:
			s.Err = s.parse(string(f.value()))
		}
		out = append(out, s)
	}
	return out
}

// Signs reports whether the signature covers the fields of a name.
func (s *Signature) Signs(name string) bool {
	return slices.ContainsFunc(s.signed, func(n string) bool { return foldEqual(n, name) })
}

// KeyName returns the name of the key record (TXT).
func (s *Signature) KeyName() string { return s.Selector + "._domainkey." + s.Domain }

// parse parses the value of a DKIM-Signature field.
//
// Implements: RFC 6376 §3.5 The DKIM-Signature header field, §6.1.1 Validate the signature header field
func (s *Signature) parse(value string) error {
	t, err := s.begin(value, "v", "a", "b", "bh", "d", "h", "s")
	if err != nil {
		return err
	}
	if t.get("v") != "1" {
		return fmt.Errorf("%w: version %.20q", ErrPermanent, t.get("v"))
	}
	s.Identity = squeeze(t.get("i"))
	if err := s.identity(); err != nil {
		return err
	}
	return s.covers(t)
}

// begin parses the tags that DKIM and ARC signatures have in common. It returns an error if a tag in need is absent.
func (s *Signature) begin(value string, need ...string) (tags, error) {
	t, err := parseTags(value)
	if err != nil {
		return nil, err
	}
	s.Domain, s.Selector, s.Algorithm = squeeze(t.get("d")), squeeze(t.get("s")), squeeze(t.get("a"))
	b := squeeze(t.get("b"))
	s.Start = b[:min(len(b), 8)]
	for _, name := range need {
		if t.get(name) == "" {
			return nil, fmt.Errorf("%w: tag %s is missing", ErrPermanent, name)
		}
	}
	at := t.find("b")
	behind := len(trimBreak(s.field.raw)) - len(value) // length of the name and the colon
	s.bFrom, s.bTo = behind+at.from, behind+at.to
	switch {
	case s.Algorithm == "rsa-sha1":
		return nil, fmt.Errorf("%w: rsa-sha1 is too weak", ErrPermanent) // RFC 8301 section 3.1
	case s.Algorithm != "rsa-sha256" && s.Algorithm != "ed25519-sha256":
		return nil, fmt.Errorf("%w: unknown algorithm", ErrPermanent)
	case !domainName(s.Domain) || !domainName(s.Selector):
		return nil, fmt.Errorf("%w: bad domain or selector", ErrPermanent)
	case t.has("q") && !contains(squeeze(t.get("q")), "dns/txt"):
		return nil, fmt.Errorf("%w: unknown query method", ErrPermanent)
	}
	if s.data, err = base64.StdEncoding.DecodeString(b); err != nil {
		return nil, fmt.Errorf("%w: bad base64", ErrPermanent)
	}
	return t, nil
}

// covers parses the tags for the signed parts and the times.
func (s *Signature) covers(t tags) error {
	if err := s.fields(squeeze(t.get("h"))); err != nil {
		return err
	}
	if err := s.canonicalization(squeeze(t.get("c"))); err != nil {
		return err
	}
	if err := s.numbers(t); err != nil {
		return err
	}
	var err error
	if s.bodySum, err = base64.StdEncoding.DecodeString(squeeze(t.get("bh"))); err != nil {
		return fmt.Errorf("%w: bad base64", ErrPermanent)
	}
	return nil
}

func trimBreak(b []byte) []byte {
	for len(b) > 0 && (b[len(b)-1] == '\n' || b[len(b)-1] == '\r') {
		b = b[:len(b)-1]
	}
	return b
}

// identity checks that i= is in the domain d= or a subdomain.
func (s *Signature) identity() error {
	if s.Identity == "" {
		return nil
	}
	_, domain, found := strings.Cut(s.Identity, "@")
	if i := strings.LastIndexByte(s.Identity, '@'); found {
		domain = s.Identity[i+1:]
	}
	if !found || !foldEqual(domain, s.Domain) && !(len(domain) > len(s.Domain) &&
		domain[len(domain)-len(s.Domain)-1] == '.' && foldEqual(domain[len(domain)-len(s.Domain):], s.Domain)) {
		return fmt.Errorf("%w: i= is not of d=", ErrPermanent)
	}
	return nil
}

func (s *Signature) fields(list string) error {
	s.signed = strings.Split(list, ":")
	if len(s.signed) > maxSignedFields {
		return fmt.Errorf("%w: too many signed fields", ErrPermanent)
	}
	for _, name := range s.signed {
		if foldEqual(name, "From") {
			return nil
		}
	}
	return fmt.Errorf("%w: From is not signed", ErrPermanent)
}

func (s *Signature) canonicalization(c string) error {
	header, body, _ := strings.Cut(c, "/")
	for _, part := range [...]struct {
		name    string
		relaxed *bool
	}{{header, &s.relaxedHeader}, {body, &s.relaxedBody}} {
		switch part.name {
		case "relaxed":
			*part.relaxed = true
		case "simple", "":
		default:
			return fmt.Errorf("%w: unknown canonicalization", ErrPermanent)
		}
	}
	return nil
}

// numbers parses t=, x= and l=.
func (s *Signature) numbers(t tags) error {
	number := func(name string) (int64, error) {
		text := squeeze(t.get(name))
		n, err := strconv.ParseUint(text, 10, 63)
		if err != nil {
			// x= and l= may have more digits than an int64: then the signature never expires, or covers the whole body.
			if strings.Trim(text, "0123456789") == "" && text != "" && len(text) <= 76 {
				return math.MaxInt64, nil
			}
			return 0, fmt.Errorf("%w: bad %s=", ErrPermanent, name)
		}
		return int64(n), nil
	}
	for _, moment := range [...]struct {
		name string
		to   *time.Time
	}{{"t", &s.Time}, {"x", &s.Expires}} {
		if t.has(moment.name) {
			n, err := number(moment.name)
			if err != nil {
				return err
			}
			*moment.to = time.Unix(min(n, 1<<40), 0)
		}
	}
	if !s.Expires.IsZero() && s.Expires.Before(s.Time) {
		return fmt.Errorf("%w: x= is before t=", ErrPermanent)
	}
	if t.has("l") {
		n, err := number("l")
		if err != nil {
			return err
		}
		s.length = n
	}
	return nil
}

// domainName reports whether s may be a domain name. It is lenient, because the resolver decides.
func domainName(s string) bool {
	if s == "" || len(s) > 253 {
		return false
	}
	for i := range len(s) {
		c := lower(s[i])
		if !('a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '_' || c == '.') {
			return false
		}
	}
	return s[0] != '.' && s[len(s)-1] != '.' && !strings.Contains(s, "..")
}

// Verify checks a signature with its key. It returns nil if the signature is valid.
//
// Implements: RFC 6376 §6.1.3 Compute the verification, §3.7 Computing the message hashes
func (m *Message) Verify(s *Signature, k *Key, now time.Time) error {
	if s.Err != nil {
		return s.Err
	}
	if !s.Expires.IsZero() && now.After(s.Expires) {
		return fmt.Errorf("%w: it has expired", ErrPermanent)
	}
	if err := k.fits(s); err != nil {
		return err
	}
	if name := m.added(s); name != "" {
		// Anyone with a signed message could show a text of their own with it.
		return fmt.Errorf("%w: a %s field is not signed", ErrPolicy, name)
	}
	body := m.bodyHash(s.relaxedBody)
	if s.length >= 0 && s.length < body.length {
		// The rest of the body could come from anyone: RFC 6376 section 8.2.
		return fmt.Errorf("%w: it covers only part of the body", ErrPolicy)
	}
	if s.length > body.length && s.length != math.MaxInt64 {
		return fmt.Errorf("%w: the body is shorter than was signed", ErrPermanent)
	}
	if subtle.ConstantTimeCompare(body.sum[:], s.bodySum) != 1 {
		return fmt.Errorf("%w: the body was changed", ErrFail)
	}
	sum := m.headerHash(s)
	if !k.verify(sum[:], s.data) {
		return fmt.Errorf("%w: the header was changed, or the key is another one", ErrFail)
	}
	return nil
}

// single holds the fields that a message has only once (RFC 5322 section 3.6, RFC 2045). If there are two, programs may
// show either.
var single = [...]string{"From", "Sender", "Reply-To", "To", "Cc", "Subject", "Date", "Message-ID", "MIME-Version",
	"Content-Type", "Content-Transfer-Encoding"}

// added returns a field of single that the signature covers, but less often than it occurs, or "". An additional field
// was put before the message after signing.
//
// Implements: RFC 6376 §8.15 Attacks involving extra header fields
func (m *Message) added(s *Signature) string {
	for _, name := range single {
		have := 0
		for i := range m.fields {
			if m.fields[i].is(name) {
				have++
			}
		}
		if have < 2 {
			continue
		}
		signed := 0
		for _, n := range s.signed {
			if foldEqual(n, name) {
				signed++
			}
		}
		if 0 < signed && signed < have {
			return name
		}
	}
	return ""
}

func (m *Message) headerHash(s *Signature) [sha256.Size]byte {
	p := picker{m: m, own: s.field}
	data := make([]byte, 0, 4096)
	for _, name := range s.signed {
		if f := p.next(name); f != nil {
			data = appendField(data, f.raw, s.relaxedHeader)
		}
	}
	return sha256.Sum256(s.appendOwn(data, s.relaxedHeader))
}

// appendOwn appends the signature's own field without the signature data and the last line break.
func (s *Signature) appendOwn(data []byte, relaxed bool) []byte {
	own := make([]byte, 0, len(s.field.raw))
	own = append(append(own, s.field.raw[:s.bFrom]...), s.field.raw[s.bTo:]...)
	return trimBreak(appendField(data, own, relaxed))
}

// Key is a public key with the options of its record.
type Key struct {
	rsa     *rsa.PublicKey
	ed      ed25519.PublicKey
	hashes  string // h=, "" for all
	service string // s=, "" for all
	// Testing is set if the domain only tests DKIM (t=y). Strict is set if i= must be in the domain itself, not a
	// subdomain (t=s).
	Testing, Strict bool
}

func (k *Key) fits(s *Signature) error {
	want := "rsa-sha256"
	if k.ed != nil {
		want = "ed25519-sha256"
	}
	switch {
	case s.Algorithm != want:
		return fmt.Errorf("%w: the key is for another algorithm", ErrPermanent)
	case k.hashes != "" && !contains(k.hashes, "sha256"):
		return fmt.Errorf("%w: the key is not for sha256", ErrPermanent)
	case k.service != "" && !contains(k.service, "email") && !contains(k.service, "*"):
		return fmt.Errorf("%w: the key is not for mail", ErrPermanent)
	case k.Strict && s.Identity != "" && !foldEqual(s.Identity[strings.LastIndexByte(s.Identity, '@')+1:], s.Domain):
		return fmt.Errorf("%w: the key does not allow an identity below the domain", ErrPermanent)
	}
	return nil
}

// verify checks signed data. Implements: RFC 8463 §3 Ed25519-SHA256 signs the hash.
func (k *Key) verify(sum, data []byte) bool {
	if k.ed != nil {
		return len(data) == ed25519.SignatureSize && ed25519.Verify(k.ed, sum, data)
	}
	return rsa.VerifyPKCS1v15(k.rsa, crypto.SHA256, sum, data) == nil
}
