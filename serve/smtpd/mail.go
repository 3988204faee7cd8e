package smtpd

import (
	"doublet/mail"
	"doublet/wire/smtp"
)

// cmdMail starts a transaction.
//
// Implements: RFC 5321 §4.1.1.2 MAIL
// Implements: RFC 1870 §6.1 Declared size is checked at MAIL
// Implements: RFC 6409 §4.3 Submission needs authentication
func (s *session) cmdMail(arg []byte) {
	switch {
	case s.info.Helo == "":
		s.refuse(errHelloFirst)
		return
	case s.mail:
		s.refuse(errSequence)
		return
	case s.srv.cfg.Kind == Submission && !s.info.Signed:
		if s.authAllowed() {
			s.refuse(errSignIn)
		} else {
			s.refuse(errSignInTLS)
		}
		return
	}
	from, params, bad := smtp.ParseMail(arg)
	if bad == nil && params.RequireTLS && !s.c.Secure() {
		bad = smtp.ErrUnknownParam // offered only with TLS
	}
	if bad == nil && params.Size > s.srv.cfg.MaxMessage {
		bad = errTooBig
	}
	if bad != nil {
		s.refuse(bad)
		return
	}
	if params.Transit != "" {
		if s.mate(); s.info.Mate == "" { // check again: the server may have been removed since EHLO
			s.refuse(smtp.ErrUnknownParam)
			return
		}
		if _, ok := mail.ParseTransit(params.Transit); !ok {
			s.refuse(errTransit)
			return
		}
	}
	if s.info.Signed {
		if err := s.srv.backend.MaySendAs(s.c.Context(), &s.info, from); err != nil {
			s.refuse(s.answer("MaySendAs", err))
			return
		}
	}
	if bad := s.inbound(&params).Mail(s.c.Context(), from, &params); bad != nil {
		s.refuse(bad)
		return
	}
	s.mail = true
	s.env.From, s.env.Params = from, params
	s.lower()
	s.say(replySender)
}

// lower resets a raised priority of a client that has not authenticated: only authenticated clients may have priority
// over other mail. The reply to the message reports the change.
//
// Implements: RFC 6710 §4.1 Priority requested by who may not
func (s *session) lower() {
	if p := &s.env.Params; p.Priority > 0 && !s.info.Signed && p.Transit == "" {
		p.Priority, s.lowered = 0, true
	}
}
