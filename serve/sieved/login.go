package sieved

import (
	"errors"
	"slices"
	"strings"

	"doublet/directory"
	"doublet/serve/forward"
	"doublet/serve/listen"
	"doublet/serve/signin"
	"doublet/wire/managesieve"
	"doublet/wire/sasl"
	"doublet/wire/sieve"
)

// capability lists the capabilities.
//
// Implements: RFC 5804 §2.4 CAPABILITY
func (s *session) capability([]managesieve.Argument) { s.capabilities("Capabilities completed") }

// capabilities writes the capabilities, which also greet, and follow STARTTLS.
//
// Implements: RFC 5804 §1.7 capabilities
func (s *session) capabilities(text string) {
	line := func(words ...string) {
		for i, w := range words {
			if i > 0 {
				s.out.B = append(s.out.B, ' ')
			}
			s.out.B = managesieve.AppendString(s.out.B, w)
		}
		s.out.B = append(s.out.B, "\r\n"...)
	}
	line("IMPLEMENTATION", "Doublet")
	var mechanisms []string
	if s.mayLogin() {
		mechanisms = s.srv.accounts.Mechanisms(s.attempt())
	}
	line("SASL", strings.Join(mechanisms, " "))
	line("SIEVE", strings.Join(sieve.Extensions(), " "))
	if s.file == nil && s.c.CanStartTLS() && !s.c.Secure() {
		line("STARTTLS")
	}
	line("NOTIFY", "mailto")
	line("MAXREDIRECTS", "5")
	if s.file != nil {
		line("OWNER", s.account.Name)
	}
	line("VERSION", "1.0")
	s.ok(s.srv.cfg.Hostname + " " + text)
}

// mayLogin reports whether passwords may be sent: over TLS, or from this machine.
func (s *session) mayLogin() bool { return s.c.Secure() || s.c.Local() }

func (s *session) attempt() signin.Attempt { return signin.AttemptOf(s.c, "ManageSieve") }

// authenticate signs in with SASL.
//
// Implements: RFC 5804 §2.1 AUTHENTICATE
func (s *session) authenticate(args []managesieve.Argument) {
	switch {
	case s.file != nil:
		s.badly("Already signed in")
		return
	case !s.mayLogin():
		s.reply("NO", "ENCRYPT-NEEDED", "Sign-in needs TLS here")
		return
	}
	at, mechanism := s.attempt(), args[0].Text
	offered := func(m string) bool { return strings.EqualFold(m, mechanism) }
	if !slices.ContainsFunc(s.srv.accounts.Mechanisms(at), offered) {
		s.reply("NO", "", "The mechanism is not offered")
		return
	}
	var initial []byte // nil if absent
	if len(args) == 2 {
		var err error
		if initial, err = sasl.DecodeLine([]byte(args[1].Text)); err != nil {
			s.badly("Malformed sign-in")
			return
		}
		initial = append([]byte{}, initial...)
	}
	x, err := s.srv.accounts.Begin(s.c.Context(), at, mechanism)
	if err == nil {
		err = sasl.Serve(x, initial, s.ask)
	}
	if s.over || s.failed != nil {
		return
	}
	var account signin.Account
	if err == nil {
		account, err = x.Account()
	}
	if err == nil {
		err = s.enter(account)
	}
	s.signedIn(account, err)
}

// ask sends a challenge and returns the client's answer. It sets s.over or s.failed if the connection was lost.
func (s *session) ask(challenge []byte) ([]byte, error) {
	text := sasl.AppendLine(nil, challenge, false)
	s.out.B = append(managesieve.AppendString(s.out.B, string(text)), "\r\n"...)
	b, err := s.input()
	s.out.Take()
	if err != nil {
		if errors.Is(err, listen.ErrLineTooLong) || errors.Is(err, errLiteral) {
			return nil, sasl.ErrMalformed
		}
		s.lost(err)
		return nil, err
	}
	cmd, err := managesieve.Parse(append([]byte("A "), b...))
	if err != nil || len(cmd.Args) != 1 || cmd.Args[0].IsNumber {
		return nil, sasl.ErrMalformed
	}
	return []byte(cmd.Args[0].Text), nil
}

// enter forwards the session to the home of the mail file, or opens the mail file here.
func (s *session) enter(account signin.Account) error {
	if err := s.c.SignedIn(account.Who.Person); err != nil {
		return err
	}
	home, err := s.srv.cfg.Forward.Open(s.c, "sieve", &account)
	if err != nil {
		return err
	}
	s.home = home
	if !home.Here() {
		s.account = account
		return nil
	}
	s.begin(account)
	return nil
}

func (s *session) begin(account signin.Account) {
	s.account, s.file = account, s.srv.mail.File(account.Who, account.Database)
}

// signedIn answers a sign-in.
func (s *session) signedIn(account signin.Account, err error) {
	var elsewhere *directory.ElsewhereError
	switch {
	case errors.As(err, &elsewhere):
		s.reply("NO", "", "Your mail is on "+elsewhere.Server())
	case err == nil && !s.home.Here():
		s.away = true
	case err == nil:
		s.srv.stats.users.Touch(account.Who.Person)
		s.ok("Signed in")
	case errors.Is(err, forward.ErrNoHome):
		s.srv.env.Log.Warn("sieved: no server for the mail file", "account", account.Name, "err", err)
		s.reply("NO", "TRYLATER", "The mailbox has no server now, try again soon")
	case errors.Is(err, sasl.ErrCancelled):
		s.reply("NO", "", "Sign-in was cancelled")
	case errors.Is(err, sasl.ErrMalformed), errors.Is(err, sasl.ErrUnexpected):
		s.badly("Malformed sign-in")
	case errors.Is(err, signin.ErrCredentials):
		s.refuse("Wrong name or password")
	case errors.Is(err, signin.ErrDisabled):
		s.refuse("The account is disabled")
	case errors.Is(err, signin.ErrBanned):
		s.reply("BYE", "TRYLATER", "Too many failed sign-ins, try again later")
		s.over = true
	case errors.Is(err, listen.ErrSessions), errors.Is(err, listen.ErrUsers):
		s.reply("NO", "TRYLATER", "Too many sessions at once, try again later")
	default:
		s.trouble("sign-in failed", err)
	}
}

func (s *session) refuse(text string) {
	s.srv.stats.authFailures.Inc()
	s.srv.env.Log.Info("sieved: sign-in refused", "remote", s.c.RemoteIP().String())
	s.reply("NO", "", text)
	if s.refused++; s.refused >= s.srv.cfg.MaxAuthFailures {
		s.reply("BYE", "", "Too many failed sign-ins")
		s.over = true
	}
}

// carryAway forwards the session to the home of the mail file, which answers the sign-in.
func (s *session) carryAway() {
	s.away = false
	if s.flush() != nil {
		return
	}
	s.out.Release()
	here, err := s.srv.cfg.Forward.CarryAway(s.c, &forward.Follower{
		Door: "sieve", Account: &s.account, Silence: s.account.Silence(s.srv.cfg.IdleTimeout, s.c.Now()),
		Resume: func(x *forward.Session, _ []byte) {
			s.home = x
			s.out.Take()
			s.begin(s.account)
			s.ok("Signed in")
		},
	}, s.home, nil)
	if err != nil {
		s.srv.env.Log.Warn("sieved: cannot forward a session", "account", s.account.Name, "err", err)
		s.out.Take()
		s.reply("BYE", "TRYLATER", "The mailbox has moved to another server, connect again")
	}
	s.over = s.over || err != nil || !here
}

// starttls starts TLS. It drops what the client sent in plaintext after the command.
//
// Implements: RFC 5804 §2.2 STARTTLS
func (s *session) starttls([]managesieve.Argument) {
	switch {
	case s.c.Secure():
		s.badly("TLS is on already")
		return
	case s.file != nil:
		s.badly("STARTTLS comes before the sign-in")
		return
	case !s.c.CanStartTLS():
		s.reply("NO", "", "TLS is not offered here")
		return
	}
	s.ok("Begin TLS negotiation now")
	if s.flush() != nil {
		return
	}
	s.out.Release()
	if err := s.c.StartTLS(); err != nil {
		s.failed = err
		return
	}
	s.out.Take()
	s.capabilities("TLS is on")
}

// logout ends the session.
//
// Implements: RFC 5804 §2.3 LOGOUT
func (s *session) logout([]managesieve.Argument) {
	s.ok("Bye")
	s.over = true
}

// noop answers with the client's tag.
//
// Implements: RFC 5804 §2.13 NOOP
func (s *session) noop(args []managesieve.Argument) {
	if len(args) == 0 {
		s.ok("Done")
		return
	}
	s.reply("OK", "TAG "+string(managesieve.AppendString(nil, args[0].Text)), "Done")
}
