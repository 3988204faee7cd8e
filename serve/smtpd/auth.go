package smtpd

import (
	"bytes"
	"errors"

	"doublet/wire/sasl"
	"doublet/wire/smtp"
)

var (
	errAuthTLS       = smtp.NewReply(538, 5, 7, 11, "Encryption required for authentication")
	errAuthMechanism = smtp.NewReply(504, 5, 5, 4, "Authentication mechanism not offered")
	errAuthSyntax    = smtp.NewReply(501, 5, 5, 2, "Malformed authentication data")
	errAuthCancelled = smtp.NewReply(501, 5, 7, 0, "Authentication cancelled")
	errAuthFailed    = smtp.NewReply(535, 5, 7, 8, "Authentication credentials invalid")
	errAuthTemporary = smtp.NewReply(454, 4, 7, 0, "Temporary authentication failure")
	errAuthTooMany   = smtp.NewReply(421, 4, 7, 0, "Too many failed authentications")
	errAuthLong      = smtp.NewReply(500, 5, 5, 6, "Authentication exchange line is too long")
)

// authAllowed: passwords go over TLS, or stay on this machine.
func (s *session) authAllowed() bool {
	return len(s.srv.cfg.Mechanisms) > 0 && (s.c.Secure() || s.c.Local())
}

// cmdAUTH signs in.
//
// Implements: RFC 4954 §4 AUTH
func (s *session) cmdAUTH(arg []byte) {
	switch {
	case len(s.srv.cfg.Mechanisms) == 0:
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
	exchange, bad := s.mechanism(string(bytes.ToUpper(name)))
	if bad != nil {
		s.refuse(bad)
		return
	}
	if err := s.exchange(exchange, initial); err != nil {
		if !s.over { // else the connection is gone
			s.authFailed(err)
		}
		return
	}
	s.info.Signed = true
	s.say(replySignedIn)
}

// mechanism makes the step machine; it sets s.info.Identity when it succeeds.
func (s *session) mechanism(name string) (sasl.Server, *smtp.Reply) {
	offered := false
	for _, m := range s.srv.cfg.Mechanisms {
		offered = offered || m == name
	}
	if !offered {
		return nil, errAuthMechanism
	}
	verify := func(user, password string) (err error) {
		s.info.Identity, err = s.srv.backend.VerifyPassword(s.c.Context(), &s.info, user, password)
		return err
	}
	switch name {
	case "PLAIN":
		return sasl.NewPlainServer(func(authzid, user, password string) error {
			if authzid != "" && authzid != user {
				return ErrCredentials // acting for somebody else is not done here
			}
			return verify(user, password)
		}), nil
	case "LOGIN":
		return sasl.NewLoginServer(verify), nil
	case "SCRAM-SHA-256":
		x, err := s.srv.backend.Scram(s.c.Context(), &s.info)
		if err != nil {
			return nil, s.answer("Scram", err)
		}
		return &scramServer{ScramExchange: x, info: &s.info}, nil
	}
	return nil, errAuthMechanism
}

// scramServer asks for the client's first message where it was not sent with the command, and
// keeps the identity.
//
// Implements: RFC 7677 SCRAM-SHA-256 over AUTH
type scramServer struct {
	ScramExchange
	info *Session
}

func (x *scramServer) Next(response []byte) ([]byte, bool, error) {
	if response == nil {
		return []byte{}, false, nil
	}
	challenge, done, err := x.ScramExchange.Next(response)
	if err != nil || !done {
		return challenge, done, err
	}
	x.info.Identity, err = x.Identity()
	return challenge, true, err
}

// maxSteps bounds an exchange.
const maxSteps = 8

// exchange drives the machine. s.over is set when the connection was lost.
func (s *session) exchange(m sasl.Server, response []byte) error {
	for range maxSteps {
		challenge, done, err := m.Next(response)
		if err != nil || done && len(challenge) == 0 {
			return err
		}
		b := append(s.scratch[:0], "334 "...)
		b = append(sasl.AppendLine(b, challenge, false), '\r', '\n')
		s.c.Print(b)
		s.scratch = b
		line, err := s.c.ReadLine(smtp.MaxAuthLine, s.srv.cfg.CommandTimeout)
		if err != nil {
			s.authLost(err)
			return err
		}
		line = bytes.TrimRight(line, "\r\n")
		if response, err = sasl.DecodeLine(line); err != nil {
			return err
		}
		if done {
			// The additional data went out as a challenge (RFC 4954 §4); the client confirms.
			if len(response) != 0 {
				return sasl.ErrMalformed
			}
			return nil
		}
	}
	return sasl.ErrMalformed
}

func (s *session) authLost(err error) {
	s.info.Identity = Identity{}
	if len(s.c.Buffered()) >= smtp.MaxAuthLine {
		s.final(errAuthLong)
		return
	}
	s.lost(err)
}

func (s *session) authFailed(err error) {
	s.info.Identity = Identity{}
	var r *smtp.Reply
	switch {
	case errors.Is(err, sasl.ErrCancelled):
		s.refuse(errAuthCancelled)
		return
	case errors.Is(err, sasl.ErrMalformed), errors.Is(err, sasl.ErrUnexpected):
		s.refuse(errAuthSyntax)
		return
	case errors.Is(err, ErrCredentials):
		r = errAuthFailed
	case errors.As(err, &r):
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
