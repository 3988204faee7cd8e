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

// Demand is the protection that the sender of a message demands of every connection that it is sent over.
type Demand uint8

// The demands of RFC 8689.
const (
	// Usual leaves it to the settings and to what the recipient's domain publishes.
	Usual Demand = iota
	// Required is REQUIRETLS: TLS with a verified certificate, to a server that promises the same.
	Required
	// Relaxed is the field "TLS-Required: No": delivery goes before what the recipient's domain publishes.
	Relaxed
)

// Suffix tells destinations apart that differ in the demand alone.
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

// asksPolicy says that MTA-STS counts for a target.
func (t *Target) asksPolicy() bool {
	return t.TLS == Required || t.TLS == Usual && (t.Security == Opportunistic || t.Security == "")
}

// policy asks for the MTA-STS policy of a target's domain.
func (m *Mailer) policy(ctx context.Context, t *Target) mtasts.Answer {
	if t.Host != "" || m.opt.Policies == nil || !t.asksPolicy() || strings.HasPrefix(t.Domain, "[") {
		return mtasts.Answer{}
	}
	return m.opt.Policies.Policy(ctx, t.Domain)
}

// require raises a guard to what REQUIRETLS demands. A host that an MX record names must be vouched for, by DNSSEC or
// by MTA-STS.
//
// Implements: RFC 8689 §4.2.1 Sending with REQUIRETLS
func (g *guard) require(t *Target, h *host, sts *mtasts.Answer) *Failure {
	g.strict = true
	if g.off {
		return unmet(unmetTLS, "The message demands TLS, and the route to "+h.name+" uses none")
	}
	if h.mx && !h.secure && !sts.Fits(h.name) {
		return unmet(unmetTLS, "The message demands TLS, and neither DNSSEC nor MTA-STS of "+t.Domain+" vouches for "+h.name)
	}
	if g.tls = true; !g.dane {
		g.verify, g.names = true, []string{h.name}
	}
	return nil
}

// unmet is a failure of a server to meet what the sender demands. It is for now, but where REQUIRETLS is the reason.
func unmet(detail uint16, text string) *Failure {
	f := temporary(7, 5, text)
	f.unmet, f.text = detail, text
	return f
}

// lastsTLS says that TLS failed for a reason that another attempt does not mend: the certificate, or the protocol.
func lastsTLS(err error) bool {
	var alert tls.AlertError
	if errors.As(err, &alert) {
		return true
	}
	var op *net.OpError
	return !errors.As(err, &op) && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF)
}

// failures gathers why the servers of a target were no good.
type failures struct {
	last, soft *Failure
}

func (f *failures) add(fail *Failure) {
	if f.last = fail; fail.unmet == 0 {
		f.soft = fail
	}
}

// result is the failure for all of them. Mail that demands TLS is returned where no server meets the demand, and waits
// where one could not be asked.
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
