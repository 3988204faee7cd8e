package smtpd

import (
	"strconv"

	"doublet/wire/smtp"
)

var (
	errUseLHLO = smtp.NewReply(500, 5, 5, 1, "This is LMTP: say LHLO")
	errUseEHLO = smtp.NewReply(500, 5, 5, 1, "This is not LMTP: say EHLO")
)

// hello starts the session anew. It ends an open transaction.
//
// Implements: RFC 5321 §4.1.1.1 EHLO and HELO
// Implements: RFC 2033 §4.1 LHLO
// Implements: RFC 1870 §3 SIZE announced
// Implements: RFC 6152 8BITMIME announced
// Implements: RFC 6710 §3 MT-PRIORITY announced
// Implements: RFC 8689 §2 REQUIRETLS announced, over TLS only
func (s *session) hello(cmd smtp.Command) {
	if lmtp := s.srv.cfg.Kind == LMTP; lmtp != (cmd.Verb == smtp.LHLO) {
		if lmtp {
			s.refuse(errUseLHLO)
		} else {
			s.refuse(errUseEHLO)
		}
		return
	}
	name, bad := smtp.ParseHello(cmd.Arg)
	if bad != nil {
		s.refuse(bad)
		return
	}
	if s.hasty() {
		return
	}
	s.reset()
	s.info.Helo = name
	s.info.Extended = cmd.Verb != smtp.HELO
	if !s.info.Extended {
		s.say("250 " + s.srv.cfg.Hostname + "\r\n")
		return
	}
	b := s.scratch[:0]
	b = append(append(b, "250-"...), s.srv.cfg.Hostname...)
	b = append(b, "\r\n250-PIPELINING\r\n250-SIZE "...)
	b = strconv.AppendInt(b, s.srv.cfg.MaxMessage, 10)
	b = append(b, "\r\n250-8BITMIME\r\n250-SMTPUTF8\r\n250-CHUNKING\r\n250-DSN\r\n250-MT-PRIORITY MIXER\r\n"...)
	if s.c.CanStartTLS() {
		b = append(b, "250-STARTTLS\r\n"...)
	}
	if s.c.Secure() {
		b = append(b, "250-REQUIRETLS\r\n"...)
	}
	if s.info.Mate != "" {
		b = append(b, "250-"+smtp.ParamTransit+"\r\n"...)
	}
	if s.authAllowed() && !s.info.Signed {
		b = append(b, "250-AUTH"...)
		for _, m := range s.srv.backend.SignIn().Mechanisms(s.attempt()) {
			b = append(append(b, ' '), m...)
		}
		b = append(b, "\r\n"...)
	}
	b = append(b, "250-LIMITS RCPTMAX="...)
	b = strconv.AppendInt(b, int64(s.srv.cfg.MaxRecipients), 10)
	b = append(b, "\r\n250 ENHANCEDSTATUSCODES\r\n"...)
	s.scratch = b
	s.c.Print(b)
}
