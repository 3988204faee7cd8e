package verify

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"doublet/client/dns"
	"doublet/wire/mime"

	"golang.org/x/net/idna"
	"golang.org/x/net/publicsuffix"
)

// maxAuthors is the maximum number of author domains of one message. maxHeader is the maximum size of its header in
// bytes, and maxFrom that of one From field.
const (
	maxAuthors = 5
	maxHeader  = 1 << 20
	maxFrom    = 64 << 10
)

// author is a domain of the From field with its policy.
type author struct {
	domain, organization string
	record               Record
	recordDomain         string // the domain that publishes the record
	policy               string // the policy of the record for this domain, "" without a record
	err                  error  // the domain is invalid, or the lookup failed
}

var errNoAuthor = errors.New("no usable author")

// authors returns the domains of all From fields. A message with several authors is judged by the strictest policy, so
// that a forged author cannot hide behind another.
//
// Implements: RFC 7489 §6.6.1 Extract author domain
func authors(message []byte) ([]author, error) {
	var out []author
	fields := 0
	end := mime.HeaderEnd(message)
	if end > maxHeader {
		return nil, fmt.Errorf("%w: the header is too large", errNoAuthor)
	}
	for f := range mime.Fields(message[:end]) {
		if !f.Is("From") {
			continue
		}
		if fields++; len(f.Value) > maxFrom {
			return nil, fmt.Errorf("%w: From is too long", errNoAuthor)
		}
		for _, a := range mime.ParseAddressList(f.Value) {
			if a.Group || a.Host == "" && a.Mailbox == "" {
				continue
			}
			domain, err := asciiDomain(a.Host)
			if err != nil {
				return nil, fmt.Errorf("%w: an author's address has no valid domain", errNoAuthor)
			}
			if slices.ContainsFunc(out, func(o author) bool { return o.domain == domain }) {
				continue
			}
			if len(out) == maxAuthors {
				return nil, fmt.Errorf("%w: authors of too many domains", errNoAuthor)
			}
			out = append(out, author{domain: domain, organization: Organization(domain)})
		}
	}
	switch {
	case fields == 0:
		return nil, fmt.Errorf("%w: no From field", errNoAuthor)
	case len(out) == 0:
		return nil, fmt.Errorf("%w: no address in From", errNoAuthor)
	}
	return out, nil
}

// scanDomain reports whether all characters are allowed in a domain, and whether they are ASCII.
func scanDomain(domain string) (plain, valid bool) {
	plain = true
	for _, c := range []byte(domain) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '.', c == '_':
		case c >= 0x80:
			plain = false
		default:
			return false, false
		}
	}
	return plain, true
}

// asciiDomain returns a domain as A-labels in lower case.
func asciiDomain(domain string) (string, error) {
	domain = strings.TrimSuffix(domain, ".")
	if domain == "" || len(domain) > 253 {
		return "", errNoAuthor
	}
	plain, valid := scanDomain(domain)
	if !valid {
		return "", errNoAuthor
	}
	if plain {
		domain = strings.ToLower(domain)
		if domain[0] == '.' || strings.Contains(domain, "..") {
			return "", errNoAuthor
		}
		return domain, nil
	}
	ascii, err := idna.Lookup.ToASCII(domain)
	if err != nil || ascii == "" {
		return "", errNoAuthor
	}
	return strings.ToLower(ascii), nil
}

// Organization returns the organizational domain: one label more than the public suffix.
//
// Implements: RFC 7489 §3.2 Organizational domain
func Organization(domain string) string {
	if top, err := publicsuffix.EffectiveTLDPlusOne(domain); err == nil {
		return top
	}
	return domain
}

// policies looks up the policies of the message's authors, concurrently with other lookups.
func (v *Verifier) policies(ctx context.Context, message []byte, beside func(string, func())) []author {
	list, err := authors(message)
	if err != nil {
		return []author{{err: err}}
	}
	for i := range list {
		beside("verify dmarc", func() { v.policy(ctx, &list[i]) })
	}
	return list
}

// policy finds the record of a domain, or that of its organizational domain.
//
// Implements: RFC 7489 §6.6.3 Policy discovery
func (v *Verifier) policy(ctx context.Context, a *author) {
	r, ok, err := v.record(ctx, a.domain)
	if err == nil && ok {
		a.record, a.recordDomain, a.policy = r, a.domain, r.Policy
		return
	}
	if err == nil && a.organization != a.domain {
		if r, ok, err = v.record(ctx, a.organization); err == nil && ok {
			a.record, a.recordDomain, a.policy = r, a.organization, r.Subdomains
			return
		}
	}
	a.err = err
}

func (v *Verifier) record(ctx context.Context, domain string) (found Record, ok bool, err error) {
	texts, _, err := v.dns.TXT(ctx, "_dmarc."+domain)
	if errors.Is(err, dns.ErrNotFound) {
		return Record{}, false, nil
	}
	if err != nil {
		return Record{}, false, err
	}
	for _, text := range texts {
		r, is := ParseRecord(text)
		if !is {
			continue
		}
		if ok {
			return Record{}, false, nil // several records count as none
		}
		found, ok = r, true
	}
	return found, ok, nil
}

// dmarc returns the result of the author with the worst result.
func (v *Verifier) dmarc(list []author, from SPF, signatures []DKIM) DMARC {
	worst, all := DMARC{}, true
	for i := range list {
		d := v.evaluate(&list[i], from, signatures)
		all = all && d.Aligned
		if i == 0 || severity(d) > severity(worst) {
			worst = d
		}
	}
	worst.Aligned = all
	return worst
}

func severity(d DMARC) int {
	switch {
	case d.Result == Fail && d.Applied == "reject":
		return 6
	case d.Result == PermError:
		return 5
	case d.Result == Fail && d.Applied == "quarantine":
		return 4
	case d.Result == TempError:
		return 3
	case d.Result == Fail:
		return 2
	case d.Result == None:
		return 1
	}
	return 0
}

// evaluate determines whether SPF or a DKIM signature authenticates the author's domain, and what its policy requires
// if neither does.
//
// Implements: RFC 7489 §3.1 Identifier alignment, §6.6.2 Determine handling policy
func (v *Verifier) evaluate(a *author, from SPF, signatures []DKIM) DMARC {
	d := DMARC{Domain: a.domain, Organization: a.organization, Published: a.policy, Applied: "none"}
	switch {
	case errors.Is(a.err, errNoAuthor):
		d.Result, d.Reason = PermError, reason(a.err, errNoAuthor)
		return d
	case a.err != nil:
		d.Result, d.Reason = TempError, "the policy cannot be looked up"
		return d
	}
	if a.policy != "" {
		d.Record, d.RecordDomain = &a.record, a.recordDomain
	}
	spf, signed := spfProof(a, from), signatureProof(a, signatures)
	d.SPFAligned, d.DKIMAligned = spf == Pass, signed == Pass
	d.Aligned = d.SPFAligned || d.DKIMAligned
	switch {
	case a.policy == "":
		d.Result = None
	case d.Aligned:
		d.Result = Pass
	case spf == TempError || signed == TempError:
		d.Result, d.Reason = TempError, "what would prove the author cannot be looked up"
	default:
		d.Result, d.Applied = Fail, v.sample(a)
	}
	return d
}

// spfProof returns Pass if SPF passes for a domain that is aligned with the author's, TempError if that could not be
// looked up, else Fail.
func spfProof(a *author, from SPF) Result {
	if aligned(a, from.Domain, a.record.StrictSPF) && (from.Result == Pass || from.Result == TempError) {
		return from.Result
	}
	return Fail
}

// signatureProof returns Pass if an aligned signature passes, TempError if an aligned one could not be looked up, else
// Fail.
func signatureProof(a *author, signatures []DKIM) Result {
	out := Fail
	for i := range signatures {
		s := &signatures[i]
		if s.Result != Pass && s.Result != TempError || !aligned(a, s.Domain, a.record.StrictDKIM) {
			continue
		}
		if out = s.Result; out == Pass {
			return Pass
		}
	}
	return out
}

func aligned(a *author, domain string, strict bool) bool {
	if equalFold(domain, a.domain) {
		return true
	}
	if strict || domain == "" || !within(domain, a.organization) {
		return false
	}
	ascii, err := asciiDomain(domain)
	return err == nil && Organization(ascii) == a.organization
}

// within reports whether domain is above or a subdomain of it.
func within(domain, above string) bool {
	n := len(domain) - len(above)
	return n == 0 && equalFold(domain, above) || n > 0 && domain[n-1] == '.' && equalFold(domain[n:], above)
}

// sample applies pct=. Messages outside the sample get the next weaker policy.
//
// Implements: RFC 7489 §6.6.4 Message sampling
func (v *Verifier) sample(a *author) string {
	if a.record.Percent >= 100 || int(v.env.Uint64()%100) < a.record.Percent {
		return a.policy
	}
	if a.policy == "reject" {
		return "quarantine"
	}
	return "none"
}

// appendReversed appends an address in the form for DNSBL names: 4.3.2.1, or 32 nibbles, with a final dot.
func appendReversed(dst []byte, ip netip.Addr) []byte {
	const digits = "0123456789abcdef"
	raw := ip.AsSlice()
	for i := len(raw) - 1; i >= 0; i-- {
		b := raw[i]
		if ip.Is4() {
			dst = fmt.Appendf(dst, "%d.", b)
		} else {
			dst = append(dst, digits[b&15], '.', digits[b>>4], '.')
		}
	}
	return dst
}
