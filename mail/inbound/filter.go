package inbound

import (
	"context"

	"doublet/client/milter"
	"doublet/wire/smtp"
)

// filter is the state of one milter in a session.
type filter struct {
	milter  *milter.Filter
	session *milter.Session
	// over means that the milter makes no more checks in this session, and done none of this message. discard means
	// that it wants the message discarded. barred is its rejection of the client itself.
	over, done, discard, begun bool
	// failed means that the milter failed during this message. The message is deferred, whatever else the client sends,
	// so that a client cannot get past the milter.
	failed bool
	barred *smtp.Reply
}

func (f *filter) close() {
	if f.session != nil {
		f.session.Close()
		f.session = nil
	}
	f.begun = false
}

func (f *filter) abort() {
	f.done, f.discard, f.failed = false, false, false
	if f.session != nil && f.begun {
		if f.session.Abort() != nil {
			f.close()
		}
	}
	f.begun = false
}

// mail starts a message. Before the first message it opens the session and reports the client; a client that sends no
// mail is not reported.
func (f *filter) mail(ctx context.Context, x *Session, from smtp.Path, p *smtp.MailParams) (milter.Verdict, error) {
	if f.barred != nil {
		return milter.Verdict{Decision: milter.Refuse, Reply: f.barred}, nil
	}
	if f.session == nil {
		v, err := f.open(ctx, x)
		switch {
		case err != nil:
			return v, err
		case v.Decision == milter.Accept, v.Decision == milter.Discard:
			f.over = v.Decision == milter.Accept
			return v, nil
		case v.Decision == milter.Refuse:
			f.barred = v.Reply
			return v, nil
		}
	}
	var params []string
	if p.Size >= 0 {
		params = append(params, "SIZE="+number(p.Size))
	}
	if b := p.Body.String(); b != "" {
		params = append(params, "BODY="+b)
	}
	if p.UTF8 {
		params = append(params, "SMTPUTF8")
	}
	macros := []string{"i", x.id.String(), "{mail_addr}", from.String(), "{mail_host}", from.Domain,
		"{mail_mailer}", "smtp"}
	if x.client.User != "" {
		macros = append(macros, "{auth_authen}", x.client.User, "{auth_type}", "PLAIN")
	}
	f.begun = true
	return f.session.Mail(from, params, macros...)
}

func (f *filter) open(ctx context.Context, x *Session) (milter.Verdict, error) {
	s, err := f.milter.Open(ctx)
	if err != nil {
		return milter.Verdict{}, err
	}
	f.session = s
	name := x.s.opt.Hostname
	v, err := s.Connect(&milter.Client{IP: x.client.IP, Macros: []string{"j", name, "{daemon_name}", name, "v",
		"Doublet"}})
	if err != nil || v.Decision != milter.Continue {
		return v, err
	}
	var macros []string
	if x.client.TLS != "" {
		macros = []string{"{tls_version}", x.client.TLS}
	}
	return s.Helo(x.client.Helo, macros...)
}

func (f *filter) rcpt(to smtp.Path) (milter.Verdict, error) {
	if f.session == nil {
		return milter.Verdict{}, nil
	}
	return f.session.Rcpt(to, nil, "{rcpt_addr}", to.String(), "{rcpt_host}", to.Domain, "{rcpt_mailer}", "smtp")
}
