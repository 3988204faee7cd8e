package imapd

import (
	"errors"
	"net/url"
	"strings"

	"doublet/directory"
	"doublet/serve/condition"
	"doublet/serve/forward"
	"doublet/serve/listen"
	"doublet/serve/signin"
	"doublet/wire/imap"
	"doublet/wire/sasl"
)

// login authenticates with a password.
//
// Implements: RFC 9051 §6.2.3 LOGIN
// Implements: RFC 9051 §6.2.3 LOGINDISABLED
func (s *session) login(cmd *imap.Command) {
	if !s.mayLogin() {
		s.no(cmd, "PRIVACYREQUIRED", "Sign-in needs TLS here")
		return
	}
	a := cmd.Args.(*imap.Login)
	account, err := s.srv.backend.SignIn().Password(s.c.Context(), s.attempt(), a.User, a.Password)
	s.signedIn(cmd, account, err)
}

func (s *session) attempt() signin.Attempt { return signin.AttemptOf(s.c, "IMAP") }

// signedIn answers a sign-in that has succeeded or failed.
func (s *session) signedIn(cmd *imap.Command, account signin.Account, err error) {
	if err == nil {
		err = s.c.SignedIn(account.Who.Person)
	}
	if err == nil {
		s.home, err = s.srv.cfg.Forward.Open(s.c, "imap", &account)
	}
	var elsewhere *directory.ElsewhereError
	switch {
	case errors.As(err, &elsewhere):
		s.refer(cmd, elsewhere)
	case err == nil:
		s.enter(account)
		b := append(append(s.out.B, cmd.Tag...), " OK [CAPABILITY"...)
		s.out.B = append(s.appendCapabilities(b), "] Signed in\r\n"...)
		s.move.away = !s.home.Here()
	case errors.Is(err, forward.ErrNoHome):
		s.srv.env.Log.Warn("imapd: no server for the mail file", "account", account.Name, "err", err)
		s.no(cmd, "UNAVAILABLE", "The mail file has no server now, try again soon")
	case errors.Is(err, sasl.ErrCancelled):
		s.badly(cmd, "Sign-in was cancelled")
	case errors.Is(err, sasl.ErrMalformed), errors.Is(err, sasl.ErrUnexpected):
		s.badly(cmd, "Malformed sign-in")
	case errors.Is(err, signin.ErrMechanism):
		s.no(cmd, "CANNOT", "Mechanism is not offered")
	case errors.Is(err, listen.ErrSessions), errors.Is(err, listen.ErrUsers):
		s.no(cmd, "LIMIT", "Too many sessions at once, try again later")
	case errors.Is(err, signin.ErrBusy):
		s.no(cmd, condition.Busy.IMAP, condition.Busy.IMAPText)
	case condition.DirectoryAway.Is(err):
		s.no(cmd, condition.DirectoryAway.IMAP, condition.DirectoryAway.IMAPText)
	case errors.Is(err, signin.ErrCredentials):
		s.refuseSignIn(cmd, "AUTHENTICATIONFAILED", "Wrong name or password")
	case errors.Is(err, signin.ErrDisabled):
		s.refuseSignIn(cmd, "CONTACTADMIN", "The account is disabled")
	case errors.Is(err, signin.ErrBanned):
		s.refuseSignIn(cmd, "LIMIT", "Too many failed sign-ins from your address, try again later")
		s.bye("", "Try again later")
	default:
		s.srv.env.Log.Error("imapd: sign-in failed", "err", err)
		s.no(cmd, "UNAVAILABLE", "Sign-in is not possible now, try again later")
	}
}

// refer sends a referral to the server that has the person's mail.
//
// Implements: RFC 2221 §4.1 A referral in answer to a sign-in
func (s *session) refer(cmd *imap.Command, e *directory.ElsewhereError) {
	at, scheme := e.Door("imap"), "imap"
	if at == "" {
		at, scheme = e.Door("imaps"), "imaps"
	}
	code := ""
	if at != "" {
		for _, port := range []string{"imap:143", "imaps:993"} {
			if name, usual, _ := strings.Cut(port, ":"); name == scheme {
				at = strings.TrimSuffix(at, ":"+usual)
			}
		}
		code = "REFERRAL " + (&url.URL{Scheme: scheme, User: url.User(e.User), Host: at, Path: "/"}).String()
	}
	s.no(cmd, code, "Your mail is on "+e.Server())
}

// enter starts the session of an account.
func (s *session) enter(account signin.Account) {
	s.account = account
	s.file = s.srv.backend.Mail().File(account.Who, account.Database)
	limits := imap.DefaultLimits()
	limits.Append = int64(s.srv.backend.Mail().MessageSize())
	limits.Discard = limits.Append + limits.Append/4
	s.in.SetLimits(limits)
	s.srv.stats.users.Touch(account.Who.Person)
	s.home.Watch(s.c.Wake)
}

// carryAway forwards a new session to the home of the mail file, the server that has its primary replica. It returns
// when the session has ended, or continues here because the mail file has moved to this server.
func (s *session) carryAway() {
	s.move.away = false
	if s.flush() != nil {
		return
	}
	s.release()
	s.follow(s.srv.cfg.Forward.CarryAway(s.c, s.follower(), s.home, s.in.Rest()))
}

// refuseSignIn rejects a sign-in and counts it. Too many failures end the session.
func (s *session) refuseSignIn(cmd *imap.Command, code, text string) {
	s.srv.stats.authFailures.Inc()
	s.no(cmd, code, text)
	if s.authFailures++; int(s.authFailures) >= s.srv.cfg.MaxAuthFailures {
		s.bye("", "Too many failed sign-ins")
	}
}
