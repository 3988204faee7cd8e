package verify

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"doublet/client/dns"
	"doublet/wire/dkim"
)

// ARC is the result of a message's ARC chain.
type ARC struct {
	Result Result
	// Sets is the number of ARC sets; 0 means no chain.
	Sets int
	// Sealer is the domain of the newest seal, if the chain passes.
	Sealer string
	Reason string
	// Vouched is set if the sealer is trusted and its results authenticate the author.
	Vouched bool

	results string // Authentication-Results of the newest set
}

// arc verifies the message's chain, from the newest seal on. It stops at the first failure.
//
// Implements: RFC 8617 §5.2 Validator actions
func (v *Verifier) arc(ctx context.Context, m *dkim.Message) ARC {
	c := m.Chain()
	out := ARC{Result: None, Sets: c.Len()}
	if out.Sets == 0 && c.Err == nil {
		return out
	}
	out.Sets = max(out.Sets, 1)
	err := c.Err
	if err == nil {
		err = v.chain(ctx, m, c)
	}
	switch {
	case err == nil:
		n := c.Len()
		out.Result, out.Sealer, out.results = Pass, c.Seal(n).Domain, c.Results(n)
	case errors.Is(err, dns.ErrTemporary):
		out.Result, out.Reason = TempError, "a key cannot be looked up"
	case errors.Is(err, dns.ErrNotFound):
		out.Result, out.Reason = Fail, "a key is missing"
	default:
		out.Result, out.Reason = Fail, reason(err, dkim.ErrFail)
	}
	return out
}

func (v *Verifier) chain(ctx context.Context, m *dkim.Message, c *dkim.Chain) error {
	s := c.Message()
	k, err := v.key(ctx, s)
	if err == nil {
		err = m.Verify(s, k, v.env.Clock.Now())
	}
	for n := c.Len(); n > 0 && err == nil; n-- {
		if k, err = v.key(ctx, c.Seal(n)); err == nil {
			err = c.VerifySeal(n, k)
		}
	}
	return err
}

// words returns the text for the comment in Authentication-Results.
func (a *ARC) words() string {
	text := "i=" + strconv.Itoa(a.Sets)
	for _, more := range []string{a.Sealer, a.Reason} {
		if more != "" {
			text += " " + more
		}
	}
	if a.Vouched {
		text += " is trusted"
	}
	return text
}

// vouches reports whether a trusted domain made the newest seal and its results have dmarc=pass for the author's
// domain.
//
// Implements: RFC 8617 §7.2.1 A trusted chain beside a DMARC failure
func (v *Verifier) vouches(a *ARC, author string) bool {
	trusted := slices.ContainsFunc(v.opt.ARCTrusted, func(d string) bool { return equalFold(d, a.Sealer) })
	if a.Result != Pass || !trusted {
		return false
	}
	for info := range strings.SplitSeq(bare(a.results), ";") {
		words := strings.Fields(info)
		if len(words) == 0 || !equalFold(words[0], "dmarc=pass") {
			continue
		}
		return slices.ContainsFunc(words, func(w string) bool { return equalFold(w, "header.from="+author) })
	}
	return false
}

// bare returns a field's value without comments and quoted strings, because those can contain arbitrary text.
func bare(s string) string {
	var b []byte
	depth, quoted := 0, false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\' && (quoted || depth > 0):
			i++
		case c == '"' && depth == 0:
			quoted = !quoted
		case quoted:
		case c == '(':
			depth++
		case c == ')' && depth > 0:
			depth--
		case depth == 0:
			b = append(b, c)
		}
	}
	return string(b)
}
