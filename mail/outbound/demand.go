package outbound

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"

	"doublet/client/mtasts"
	"doublet/wire/smtp"
)

// Demand is the protection that the sender of a message requires for every connection that carries it.
type Demand uint8

// The demands of RFC 8689.
const (
	// Usual requires nothing: the settings and the policies of the recipient's domain apply.
	Usual Demand = iota
	// Required is REQUIRETLS: TLS with a verified certificate, to a server that also offers REQUIRETLS.
	Required
	// Relaxed is the field "TLS-Required: No": delivery has precedence over the policies of the recipient's domain.
	Relaxed
)

// Suffix returns a suffix that distinguishes destinations with different demands.
func (d Demand) Suffix() string {
	switch d {
	case Required:
		return " (REQUIRETLS)"
	case Relaxed:
		return " (TLS-Required: No)"
	}
	return ""
}

// The details of enhanced codes X.7.n (RFC 3207, RFC 8689 section 4.2.1).
const (
	unmetTLS     = 10 // Encryption needed
	unmetRequire = 30 // REQUIRETLS support required
)

func replyNeedsTLS(host string) *smtp.Reply {
	return smtp.NewReply(550, 5, 7, unmetRequire, "The message demands REQUIRETLS, which "+host+" does not offer")
}

// asksPolicy reports whether MTA-STS applies to a target.
func (t *Target) asksPolicy() bool {
	return t.TLS == Required || t.TLS == Usual && (t.Security == Opportunistic || t.Security == "")
}

// policy returns the MTA-STS policy of a target's domain.
func (m *Mailer) policy(ctx context.Context, t *Target) mtasts.Answer {
	if t.Host != "" || m.opt.Policies == nil || !t.asksPolicy() || strings.HasPrefix(t.Domain, "[") {
		return mtasts.Answer{}
	}
	return m.opt.Policies.Policy(ctx, t.Domain)
}

// require adds the requirements of REQUIRETLS to a guard. If an MX record names the host, DNSSEC or MTA-STS must
// authenticate that name.
//
// Implements: RFC 8689 §4.2.1 Sending with REQUIRETLS
func (g *guard) require(t *Target, h *host, sts *mtasts.Answer) *Failure {
	g.strict = true
	if g.off {
		return unmet(unmetTLS, "The message demands TLS, and the route to "+h.name+" uses none")
	}
	if h.mx && !h.secure && !sts.Fits(h.name) {
		return unmet(unmetTLS, "The message demands TLS, and neither DNSSEC nor MTA-STS of "+t.Domain+
			" vouches for "+h.name)
	}
	if g.tls = true; !g.dane {
		g.verify, g.names = true, []string{h.name}
	}
	return nil
}

// unmet returns the failure for a server that does not meet the sender's demand. It is temporary; failures.result makes
// it permanent for REQUIRETLS.
func unmet(detail uint16, text string) *Failure {
	f := temporary(7, 5, text)
	f.unmet, f.text = detail, text
	return f
}

// lastsTLS reports whether TLS failed for a reason that a retry does not fix, such as the certificate or the protocol.
func lastsTLS(err error) bool {
	var alert tls.AlertError
	if errors.As(err, &alert) {
		return true
	}
	var op *net.OpError
	return !errors.As(err, &op) && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF)
}

// failures collects the failures of a target's servers: last is the latest one, soft the latest one that is not an
// unmet demand.
type failures struct {
	last, soft *Failure
}

func (f *failures) add(fail *Failure) {
	if f.last = fail; fail.unmet == 0 {
		f.soft = fail
	}
}

// result returns the failure for all servers together. Mail with REQUIRETLS is returned if no server meets the demand.
// It waits if some server could not be asked.
func (f *failures) result(d Demand) *Failure {
	switch {
	case d != Required || f.last == nil:
		return f.last
	case f.soft != nil:
		return f.soft
	}
	out := permanent(550, 7, f.last.unmet, f.last.text)
	out.Host = f.last.Host
	return out
}
