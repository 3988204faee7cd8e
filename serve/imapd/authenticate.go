package imapd

import (
	"doublet/serve/signin"
	"doublet/wire/imap"
	"doublet/wire/sasl"
)

// maxSteps is the maximum number of steps in an exchange.
const maxSteps = 8

// authenticate authenticates with SASL.
//
// Implements: RFC 9051 §6.2.2 AUTHENTICATE
// Implements: RFC 4959 SASL-IR
func (s *session) authenticate(cmd *imap.Command) {
	a := cmd.Args.(*imap.Authenticate)
	if !s.mayLogin() {
		s.no(cmd, "PRIVACYREQUIRED", "Sign-in needs TLS here")
		return
	}
	exchange, err := s.srv.backend.SignIn().Begin(s.c.Context(), s.attempt(), a.Mechanism)
	if err != nil {
		s.signedIn(cmd, signin.Account{}, err)
		return
	}
	var response []byte
	if a.HasInitial {
		response = a.Initial
		if response == nil {
			response = []byte{}
		}
	}
	err = s.exchange(cmd, exchange, response)
	if s.over || s.failed != nil {
		return
	}
	account := signin.Account{}
	if err == nil {
		account, err = exchange.Account()
	}
	s.signedIn(cmd, account, err)
}

// exchange runs the mechanism. It sets s.over or s.failed if the connection was lost.
func (s *session) exchange(cmd *imap.Command, m sasl.Server, response []byte) error {
	for range maxSteps {
		challenge, done, err := m.Next(response)
		if err != nil || done && len(challenge) == 0 {
			return err
		}
		s.out.Take()
		s.out.B = append(s.out.B, "+ "...)
		s.out.B = append(sasl.AppendLine(s.out.B, challenge, false), "\r\n"...)
		if s.flush() != nil {
			return s.failed
		}
		line, err := s.in.ReadLine()
		s.out.Take()
		if err != nil {
			s.lineFailed(cmd, err)
			return err
		}
		if response, err = sasl.DecodeLine([]byte(line)); err != nil {
			return err
		}
		if done {
			// The server's final message went out as a challenge; the client confirms it with an empty response.
			if len(response) != 0 {
				return sasl.ErrMalformed
			}
			return nil
		}
	}
	return sasl.ErrMalformed
}
