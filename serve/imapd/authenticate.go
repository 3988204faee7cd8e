package imapd

import (
	"errors"
	"fmt"

	"doublet/wire/imap"
	"doublet/wire/sasl"
	"doublet/wire/scram"
)

// maxSteps bounds an exchange.
const maxSteps = 8

// authenticate signs in through SASL.
//
// Implements: RFC 9051 §6.2.2 AUTHENTICATE
// Implements: RFC 4959 SASL-IR
// Implements: RFC 4616 PLAIN
// Implements: RFC 7677 SCRAM-SHA-256
func (s *session) authenticate(cmd *imap.Command) {
	a := cmd.Args.(*imap.Authenticate)
	switch {
	case !s.mayLogin():
		s.no(cmd, "PRIVACYREQUIRED", "Sign-in needs TLS here")
		return
	case !s.srv.offers(a.Mechanism):
		s.no(cmd, "CANNOT", "Mechanism is not offered")
		return
	}
	var account Account
	exchange, err := s.mechanism(a.Mechanism, &account)
	if err != nil {
		s.signedIn(cmd, account, err)
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
	s.signedIn(cmd, account, err)
}

// mechanism makes the step machine; it sets account when it succeeds.
func (s *session) mechanism(name string, account *Account) (sasl.Server, error) {
	if name == "SCRAM-SHA-256" {
		x, err := s.srv.backend.Scram(s.c.Context())
		return &scramServer{x, account}, err
	}
	return sasl.NewPlainServer(func(authzid, user, password string) (err error) {
		if authzid != "" && authzid != user {
			return ErrCredentials // acting for somebody else is not done here
		}
		*account, err = s.verify(user, password)
		return err
	}), nil
}

// scramServer asks for the client's first message where it did not come with the command, and keeps
// the account.
type scramServer struct {
	ScramServer
	account *Account
}

func (x *scramServer) Next(response []byte) ([]byte, bool, error) {
	if response == nil {
		return []byte{}, false, nil
	}
	challenge, done, err := x.ScramServer.Next(response)
	if errors.Is(err, scram.ErrSyntax) || errors.Is(err, scram.ErrChannelBinding) || errors.Is(err, scram.ErrExtension) {
		// The client's fault, and counted as one: not the server's trouble.
		return nil, false, fmt.Errorf("%w: %w", sasl.ErrMalformed, err)
	}
	if err != nil || !done {
		return challenge, done, err
	}
	*x.account, err = x.Account()
	return challenge, true, err
}

// exchange drives the machine. s.over or s.failed is set when the connection was lost.
func (s *session) exchange(cmd *imap.Command, m sasl.Server, response []byte) error {
	for range maxSteps {
		challenge, done, err := m.Next(response)
		if err != nil || done && len(challenge) == 0 {
			return err
		}
		s.out.take()
		s.out.b = append(s.out.b, "+ "...)
		s.out.b = append(sasl.AppendLine(s.out.b, challenge, false), "\r\n"...)
		if s.flush() != nil {
			return s.failed
		}
		line, err := s.in.ReadLine()
		s.out.take()
		if err != nil {
			s.lineFailed(cmd, err)
			return err
		}
		if response, err = sasl.DecodeLine([]byte(line)); err != nil {
			return err
		}
		if done {
			// The server's last word went out as a challenge; the client confirms it with nothing.
			if len(response) != 0 {
				return sasl.ErrMalformed
			}
			return nil
		}
	}
	return sasl.ErrMalformed
}
