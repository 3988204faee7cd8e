package outbound

import (
	"crypto/x509"
	"encoding/hex"
	"errors"
	"net"
	"strconv"
	"strings"

	"doublet/client/dns"
	"doublet/client/mtasts"
	"doublet/wire/tlsreport"
)

// Observer receives the TLS outcome of each session with the servers of a domain. mail/reports implements it. Observe
// must not block.
type Observer interface {
	Observe(o *Observation)
}

// Observation is the outcome of one session.
type Observation struct {
	// Domain is the recipients' domain, as A-labels in lower case.
	Domain string
	// Policy is the policy under which the session was opened.
	Policy tlsreport.Policy
	// Failure is nil if TLS was established as the policy requires. Its count is not set.
	Failure *tlsreport.Failure
}

// watch observes the sessions with one host. Its methods do nothing on a nil watch.
type watch struct {
	to     Observer
	domain string
	host   string
	policy tlsreport.Policy
	sts    *mtasts.Answer
	// invalid is set if no TLSA record is usable. soft is the error that a policy in testing mode would have caused.
	invalid bool
	soft    error
}

var errUnfit = errors.New("policy does not name the host")

// watch returns the watch of a host, or nil if the session is not to be observed. Sessions by a fixed route say nothing
// about the domain. Sessions with "TLS-Required: No" ignore the domain's policies; the TLS reports themselves are sent
// this way.
func (m *Mailer) watch(t *Target, h *host, sts *mtasts.Answer) *watch {
	if m.opt.Observer == nil || t.Host != "" || h.address.IsValid() || t.Security == Plain || t.TLS == Relaxed {
		return nil
	}
	w := &watch{to: m.opt.Observer, domain: strings.ToLower(t.Domain), host: h.name, sts: sts}
	w.policy = tlsreport.Policy{Type: tlsreport.NoPolicy, Domain: w.domain}
	switch p := sts.Policy; {
	case p != nil && p.Mode != mtasts.None:
		w.policy.Type, w.policy.String, w.policy.MX = tlsreport.STS, p.Lines(), p.MX
	case sts.Trouble != "":
		w.policy.Type = tlsreport.STS
	}
	return w
}

// dane records that the host has TLSA records, or that the lookup failed (list is nil).
func (w *watch) dane(h *host, list []dns.TLSA) {
	if w == nil {
		return
	}
	w.policy = tlsreport.Policy{Type: tlsreport.TLSA, Domain: h.name}
	for i := range list {
		t := &list[i]
		w.policy.String = append(w.policy.String, strconv.Itoa(int(t.Usage))+" "+strconv.Itoa(int(t.Selector))+" "+
			strconv.Itoa(int(t.Matching))+" "+hex.EncodeToString(t.Data))
	}
	w.invalid = len(list) > 0 && len(usable(list)) == 0
}

// testing reports whether to check the certificate without enforcing the result.
func (w *watch) testing() bool {
	return w != nil && w.policy.Type == tlsreport.STS && w.sts.Policy != nil && w.sts.Policy.Mode == mtasts.Testing
}

// unfit reports that the policy does not name the host.
func (w *watch) unfit() { w.tell(nil, tlsreport.ValidationFailure, errUnfit.Error()) }

// passed reports that TLS was established.
func (w *watch) passed(s *Session) {
	if w == nil {
		return
	}
	if w.testing() && w.soft == nil && !w.sts.Fits(w.host) {
		w.soft = errUnfit
	}
	switch {
	case w.soft != nil:
		w.failed(s, w.soft)
	case w.invalid:
		w.tell(s, tlsreport.TLSAInvalid, "")
	case w.policy.Type == tlsreport.STS && w.sts.Policy == nil:
		w.tell(s, troubles[w.sts.Trouble], "")
	default:
		w.tell(s, "", "")
	}
	w.soft = nil
}

var troubles = map[mtasts.Trouble]string{
	mtasts.FetchError: tlsreport.STSPolicyFetchError, mtasts.Invalid: tlsreport.STSPolicyInvalid,
	mtasts.WebPKI: tlsreport.STSWebPKIInvalid,
}

// failed reports that TLS failed.
func (w *watch) failed(s *Session, err error) {
	if w == nil {
		return
	}
	kind, reason := resultType(err)
	w.tell(s, kind, reason)
}

// resultType returns the result type of an error, and additional text for the report.
//
// Implements: RFC 8460 §4.3.1 Negotiation failures, §4.3.2 Policy failures
func resultType(err error) (kind, reason string) {
	var name x509.HostnameError
	var unknown x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &name):
		return tlsreport.CertificateHostMismatch, ""
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return tlsreport.CertificateExpired, ""
	case errors.As(err, &unknown), errors.As(err, &invalid):
		return tlsreport.CertificateNotTrusted, ""
	}
	return tlsreport.ValidationFailure, tlsReason(err)
}

// tell reports the outcome of a session. s is nil if there was no session. An empty kind means success.
func (w *watch) tell(s *Session, kind, reason string) {
	if w == nil {
		return
	}
	o := Observation{Domain: w.domain, Policy: w.policy}
	if kind != "" {
		f := tlsreport.Failure{Type: kind, MX: w.host, Reason: reason}
		if s != nil {
			f.HELO, f.SendingIP, f.IP = s.c.HelloName(), addressOf(s.conn.LocalAddr()), addressOf(s.conn.RemoteAddr())
		}
		o.Failure = &f
	}
	w.to.Observe(&o)
}

func addressOf(a net.Addr) string {
	if t, ok := a.(*net.TCPAddr); ok {
		return t.AddrPort().Addr().Unmap().String()
	}
	return ""
}
