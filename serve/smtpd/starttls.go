package smtpd

import (
	"doublet/serve/signin"
	"doublet/wire/smtp"
)

var errTLSOn = smtp.NewReply(503, 5, 5, 1, "TLS is already on")

// cmdSTARTTLS starts TLS. It discards data that the client sent in the clear after the command, and all that the client
// said before.
//
// Implements: RFC 3207 STARTTLS
// Implements: RFC 3207 §4.2 Knowledge from before TLS is discarded
func (s *session) cmdSTARTTLS(arg []byte) {
	switch {
	case len(arg) > 0:
		s.refuse(errArgs)
		return
	case s.c.Secure():
		s.refuse(errTLSOn)
		return
	case !s.c.CanStartTLS():
		s.refuse(errNotHere)
		return
	case s.mail:
		s.refuse(errSequence)
		return
	}
	s.say(replyTLS)
	if err := s.c.StartTLS(); err != nil {
		s.over = true
		return
	}
	s.reset()
	s.info.Helo, s.info.Extended = "", false
	s.info.Signed, s.info.Account = false, signin.Account{}
	s.tlsState()
}
