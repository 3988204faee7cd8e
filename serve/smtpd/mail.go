package smtpd

import (
	"doublet/mail"
	"doublet/wire/smtp"
)

// mayBegin returns the reply that refuses a transaction in this state of the session, or nil.
func (s *session) mayBegin() *smtp.Reply {
	switch {
	case s.info.Helo == "":
		return errHelloFirst
	case s.mail:
		return errSequence
	case s.srv.cfg.Kind != Submission || s.info.Signed:
		return nil
	case s.authAllowed():
		return errSignIn
	}
	return errSignInTLS
}

// checkTransit returns the reply that refuses XDOUBLET, or nil.
func (s *session) checkTransit(transit string) *smtp.Reply {
	if s.mate(); s.info.Mate == "" { // check again: the server may have been removed since EHLO
		return smtp.ErrUnknownParam
	}
	if _, ok := mail.ParseTransit(transit); !ok {
		return errTransit
	}
	return nil
}

// cmdMail starts a transaction.
//
// Implements: RFC 5321 §4.1.1.2 MAIL
// Implements: RFC 1870 §6.1 Declared size is checked at MAIL
// Implements: RFC 6409 §4.3 Submission needs authentication
func (s *session) cmdMail(arg []byte) {
	if bad := s.mayBegin(); bad != nil {
		s.refuse(bad)
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
		if bad := s.checkTransit(params.Transit); bad != nil {
			s.refuse(bad)
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
