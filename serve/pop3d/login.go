package pop3d

import (
	"errors"

	"doublet/directory"
	"doublet/mailbox"
	"doublet/serve/forward"
	"doublet/serve/listen"
	"doublet/serve/signin"
	"doublet/store"
	"doublet/wire/pop3"
	"doublet/wire/sasl"
)

// userName stores a name for PASS. The answer does not reveal whether the name exists.
//
// Implements: RFC 1939 §7 USER
func (s *session) userName(cmd *pop3.Command) {
	if !s.protected() {
		return
	}
	s.user = cmd.Text
	s.ok("And the password?")
}

// pass authenticates with the name that USER gave.
//
// Implements: RFC 1939 §7 PASS
func (s *session) pass(cmd *pop3.Command) {
	if !s.protected() {
		return
	}
	if s.user == "" {
		s.badly("USER comes first")
		return
	}
	account, err := s.srv.accounts.Password(s.c.Context(), s.attempt(), s.user, cmd.Text)
	s.user = ""
	s.signIn(account, err)
}

// protected reports whether a password may be sent on this connection. If not, it rejects the command.
func (s *session) protected() bool {
	if s.mayLogin() {
		return true
	}
	s.err(pop3.CodeSysPerm, "Sign-in needs TLS here")
	return false
}

// signIn answers a sign-in that has succeeded or failed.
//
// Implements: RFC 3206 §4 AUTH response code
func (s *session) signIn(account signin.Account, err error) {
	if err == nil {
		err = s.enter(account)
	}
	s.signedIn(account, err)
}

// signedIn answers a sign-in.
func (s *session) signedIn(account signin.Account, err error) {
	var elsewhere *directory.ElsewhereError
	switch {
	case errors.As(err, &elsewhere):
		s.err(pop3.CodeAuth, "Your mail is on "+elsewhere.Server())
	case err == nil && !s.home.Here():
		s.away = true
	case err == nil:
		s.srv.stats.users.Touch(account.Who.Person)
		s.ok("Signed in")
	case errors.Is(err, forward.ErrNoHome):
		s.srv.env.Log.Warn("pop3d: no server for the mail file", "account", account.Name, "err", err)
		s.err(pop3.CodeSysTemp, "The mailbox has no server now, try again soon")
	default:
		s.signInFailed(err)
	}
}

// signInFailed answers a sign-in that was refused, or whose mailbox cannot be opened.
func (s *session) signInFailed(err error) {
	switch {
	case errors.Is(err, sasl.ErrCancelled):
		s.badly("Sign-in was cancelled")
	case errors.Is(err, sasl.ErrMalformed), errors.Is(err, sasl.ErrUnexpected):
		s.badly("Malformed sign-in")
	case errors.Is(err, signin.ErrCredentials):
		s.refuse(pop3.CodeAuth, "Wrong name or password")
	case errors.Is(err, signin.ErrDisabled):
		s.refuse(pop3.CodeAuth, "The account is disabled")
	case errors.Is(err, signin.ErrBanned):
		s.err(pop3.CodeSysTemp, "Too many failed sign-ins, try again later")
		s.over = true
	case errors.Is(err, listen.ErrSessions), errors.Is(err, listen.ErrUsers):
		s.err(pop3.CodeSysTemp, "Too many sessions at once, try again later")
	case errors.Is(err, errInUse):
		s.srv.stats.inUse.Inc()
		s.err(pop3.CodeInUse, "Another POP3 session has this mailbox")
	case errors.Is(err, errTooSoon):
		s.err(pop3.CodeLoginDelay, "Too soon after the last sign-in")
	case errors.Is(err, store.ErrDenied), errors.Is(err, mailbox.ErrNoFolder):
		s.err(pop3.CodeSysPerm, "There is no mailbox to read")
	default:
		s.trouble("sign-in failed", err)
	}
}

// carryAway forwards the session to the home of the mail file, the server that has its primary replica. The home
// answers the sign-in. carryAway returns when the session has ended, or continues here because the mail file has moved
// to this server.
func (s *session) carryAway() {
	s.away = false
	if s.flush() != nil {
		return
	}
	s.out.Release()
	s.follow(s.srv.cfg.Forward.CarryAway(s.c, s.follower(), s.home, nil))
}

func (s *session) refuse(code, text string) {
	s.srv.stats.authFailures.Inc()
	s.srv.env.Log.Info("pop3d: sign-in refused", "remote", s.c.RemoteIP().String())
	s.err(code, text)
	if s.authFailures++; int(s.authFailures) >= s.srv.cfg.MaxAuthFailures {
		s.over = true
	}
}

// enter forwards the session to the home of the mail file, or opens the maildrop here.
func (s *session) enter(account signin.Account) error {
	if err := s.c.SignedIn(account.Who.Person); err != nil {
		return err
	}
	home, err := s.srv.cfg.Forward.Open(s.c, "pop3", &account)
	if err != nil {
		return err
	}
	s.home = home
	if !home.Here() {
		s.account = account
		return nil
	}
	if err := s.begin(account); err != nil {
		// The next PASS asks for the home again, and would lose this use of it.
		s.home.End()
		s.home = nil
		return err
	}
	return nil
}

// begin locks and opens the maildrop on this server.
func (s *session) begin(account signin.Account) error {
	if err := s.srv.drops.take(account.Database, s.c.Now()); err != nil {
		return err
	}
	file := s.srv.mail.File(account.Who, account.Database)
	if err := s.openDrop(file); err != nil {
		s.srv.drops.give(account.Database)
		return err
	}
	s.account, s.file = account, file
	return nil
}

// auth authenticates with SASL.
//
// Implements: RFC 5034 §4 AUTH
func (s *session) auth(cmd *pop3.Command) {
	if !s.protected() {
		return
	}
	at := s.attempt()
	if !offers(s.srv.accounts.Mechanisms(at), cmd.Text) {
		s.err("", "The mechanism is not offered")
		return
	}
	x, err := s.srv.accounts.Begin(s.c.Context(), at, cmd.Text)
	if err == nil {
		err = sasl.Serve(x, cmd.Initial, s.ask)
	}
	if s.over || s.failed != nil {
		return
	}
	var account signin.Account
	if err == nil {
		account, err = x.Account()
	}
	s.signIn(account, err)
}

// ask sends a challenge and returns the client's answer. It sets s.over or s.failed if the connection was lost.
func (s *session) ask(challenge []byte) ([]byte, error) {
	s.out.B = append(s.out.B, "+ "...)
	s.out.B = append(sasl.AppendLine(s.out.B, challenge, false), "\r\n"...)
	line, err := s.line(pop3.MaxAuth)
	s.out.Take()
	if err == nil {
		return line, nil
	}
	if !errors.Is(err, listen.ErrLineTooLong) {
		s.lost(err)
	}
	return nil, sasl.ErrMalformed
}
