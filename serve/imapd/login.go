package imapd

import (
	"errors"

	"doublet/wire/imap"
	"doublet/wire/sasl"
)

// login signs in with a password.
//
// Implements: RFC 9051 §6.2.3 LOGIN
// Implements: RFC 9051 §6.2.3 LOGINDISABLED
func (s *session) login(cmd *imap.Command) {
	if !s.mayLogin() {
		s.no(cmd, "PRIVACYREQUIRED", "Sign-in needs TLS here")
		return
	}
	a := cmd.Args.(*imap.Login)
	account, err := s.verify(a.User, a.Password)
	s.signedIn(cmd, account, err)
}

func (s *session) verify(user, password string) (Account, error) {
	return s.srv.backend.Login(s.c.Context(), user, password, s.remote())
}

// remote is the client's address, "" on a Unix socket.
func (s *session) remote() string {
	if ip := s.c.RemoteIP(); ip.IsValid() {
		return ip.String()
	}
	return ""
}

// signedIn ends a sign-in, well or not.
func (s *session) signedIn(cmd *imap.Command, account Account, err error) {
	switch {
	case err == nil:
		s.account = account
		s.file = s.srv.backend.Mail().File(account.Who, account.Database)
		limits := imap.DefaultLimits()
		limits.Append = int64(s.srv.backend.Mail().MessageSize())
		limits.Discard = limits.Append + limits.Append/4
		s.in.SetLimits(limits)
		s.srv.stats.users.Touch(account.Who.Person)
		b := append(append(s.out.b, cmd.Tag...), " OK [CAPABILITY"...)
		s.out.b = append(s.appendCapabilities(b), "] Signed in\r\n"...)
	case errors.Is(err, sasl.ErrCancelled):
		s.badly(cmd, "Sign-in was cancelled")
	case errors.Is(err, sasl.ErrMalformed), errors.Is(err, sasl.ErrUnexpected):
		s.badly(cmd, "Malformed sign-in")
	case errors.Is(err, ErrCredentials):
		s.srv.stats.authFailures.Inc()
		s.srv.env.Log.Info("imapd: sign-in refused", "remote", s.remote())
		s.no(cmd, "AUTHENTICATIONFAILED", "Wrong name or password")
		if s.authFailures++; int(s.authFailures) >= s.srv.cfg.MaxAuthFailures {
			s.bye("", "Too many failed sign-ins")
		}
	default:
		s.srv.env.Log.Error("imapd: sign-in failed", "err", err)
		s.no(cmd, "UNAVAILABLE", "Sign-in is not possible now, try again later")
	}
}
