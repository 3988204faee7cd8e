package imapd

import (
	"doublet/serve/signin"
	"doublet/wire/imap"
	"doublet/wire/sasl"
)

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
	err = sasl.Serve(exchange, response, func(challenge []byte) ([]byte, error) { return s.ask(cmd, challenge) })
	if s.over || s.failed != nil {
		return
	}
	account := signin.Account{}
	if err == nil {
		account, err = exchange.Account()
	}
	s.signedIn(cmd, account, err)
}

// ask sends a challenge and returns the client's answer. It sets s.over or s.failed if the connection was lost.
func (s *session) ask(cmd *imap.Command, challenge []byte) ([]byte, error) {
	s.out.Take()
	s.out.B = append(s.out.B, "+ "...)
	s.out.B = append(sasl.AppendLine(s.out.B, challenge, false), "\r\n"...)
	if s.flush() != nil {
		return nil, s.failed
	}
	line, err := s.in.ReadLine()
	s.out.Take()
	if err != nil {
		s.lineFailed(cmd, err)
	}
	return []byte(line), err
}
