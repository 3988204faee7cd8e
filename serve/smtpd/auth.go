package smtpd

import (
	"bytes"
	"errors"

	"doublet/directory"
	"doublet/serve/condition"
	"doublet/serve/listen"
	"doublet/serve/signin"
	"doublet/wire/sasl"
	"doublet/wire/smtp"
)

var (
	errAuthTLS       = smtp.NewReply(538, 5, 7, 11, "Encryption required for authentication")
	errAuthMechanism = smtp.NewReply(504, 5, 5, 4, "Authentication mechanism not offered")
	errAuthSyntax    = smtp.NewReply(501, 5, 5, 2, "Malformed authentication data")
	errAuthCancelled = smtp.NewReply(501, 5, 7, 0, "Authentication cancelled")
	errAuthFailed    = smtp.NewReply(535, 5, 7, 8, "Authentication credentials invalid")
	errAuthDisabled  = smtp.NewReply(535, 5, 7, 13, "The account is disabled")
	errAuthBusy      = condition.Busy.SMTP
	errAuthBanned    = smtp.NewReply(421, 4, 7, 0, "Too many failed sign-ins from your address, try again later")
	errAuthTemporary = smtp.NewReply(454, 4, 7, 0, "Temporary authentication failure")
	errAuthTooMany   = smtp.NewReply(421, 4, 7, 0, "Too many failed authentications")
	errAuthLong      = smtp.NewReply(500, 5, 5, 6, "Authentication exchange line is too long")
)

// authAllowed reports whether AUTH is offered. Passwords must be sent over TLS or stay on this machine.
func (s *session) authAllowed() bool {
	return s.srv.cfg.Kind != LMTP && (s.c.Secure() || s.c.Local())
}

func (s *session) attempt() signin.Attempt { return signin.AttemptOf(s.c, s.info.Kind.String()) }

// cmdAUTH authenticates the client.
//
// Implements: RFC 4954 §4 AUTH
func (s *session) cmdAUTH(arg []byte) {
	switch {
	case s.srv.cfg.Kind == LMTP:
		s.refuse(errNotHere)
		return
	case s.info.Helo == "" || !s.info.Extended:
		s.refuse(errHelloFirst)
		return
	case s.info.Signed || s.mail:
		s.refuse(errSequence)
		return
	case !s.authAllowed():
		s.refuse(errAuthTLS)
		return
	}
	name, line, has := bytes.Cut(arg, []byte{' '})
	var initial []byte
	if has {
		var err error
		if initial, err = sasl.DecodeLine(bytes.TrimLeft(line, " ")); err != nil {
			s.refuse(errAuthSyntax)
			return
		}
	}
	exchange, err := s.srv.backend.SignIn().Begin(s.c.Context(), s.attempt(), string(name))
	if err == nil {
		err = sasl.Serve(exchange, initial, s.ask)
	}
	if err == nil {
		s.info.Account, err = exchange.Account()
	}
	if err == nil {
		err = s.c.SignedIn(s.info.Account.Who.Person)
	}
	if err != nil {
		if !s.over { // otherwise the connection is lost
			s.authFailed(err)
		}
		return
	}
	s.info.Signed = true
	s.say(replySignedIn)
}

// ask sends a challenge and returns the client's answer. It sets s.over if the connection is lost.
func (s *session) ask(challenge []byte) ([]byte, error) {
	b := append(s.scratch[:0], "334 "...)
	b = append(sasl.AppendLine(b, challenge, false), '\r', '\n')
	s.c.Print(b)
	s.scratch = b
	line, err := s.c.ReadLine(smtp.MaxAuthLine, s.srv.cfg.CommandTimeout)
	if err != nil {
		s.authLost(err)
	}
	return bytes.TrimRight(line, "\r\n"), err
}

func (s *session) authLost(err error) {
	s.info.Account = signin.Account{}
	if len(s.c.Buffered()) >= smtp.MaxAuthLine {
		s.final(errAuthLong)
		return
	}
	s.lost(err)
}

func (s *session) authFailed(err error) {
	s.info.Account = signin.Account{}
	r := errAuthFailed
	var elsewhere *directory.ElsewhereError
	switch {
	case errors.As(err, &elsewhere):
		s.refuse(smtp.NewReply(535, 5, 7, 8, "Your mail is on "+elsewhere.Server()+": sign in there"))
		return
	case errors.Is(err, sasl.ErrCancelled):
		s.refuse(errAuthCancelled)
		return
	case errors.Is(err, sasl.ErrMalformed), errors.Is(err, sasl.ErrUnexpected):
		s.refuse(errAuthSyntax)
		return
	case errors.Is(err, signin.ErrMechanism):
		s.refuse(errAuthMechanism)
		return
	case errors.Is(err, signin.ErrBusy), errors.Is(err, listen.ErrSessions), errors.Is(err, listen.ErrUsers):
		s.refuse(errAuthBusy)
		return
	case condition.DirectoryAway.Is(err):
		s.refuse(errAuthTemporary)
		return
	case errors.Is(err, signin.ErrCredentials):
	case errors.Is(err, signin.ErrDisabled):
		r = errAuthDisabled
	case errors.Is(err, signin.ErrBanned):
		r = errAuthBanned
	default:
		s.srv.env.Log.Error("smtpd: backend failed", "op", "AUTH", "err", err)
		s.refuse(errAuthTemporary)
		return
	}
	s.srv.inc(s.srv.names.authFailures, 1)
	s.refuse(r)
	if s.authFailures++; s.authFailures >= s.srv.cfg.MaxAuthFailures && !s.over {
		s.final(errAuthTooMany)
	}
}
