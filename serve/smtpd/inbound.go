package smtpd

import (
	"errors"
	"time"

	"doublet/mail/inbound"
	"doublet/serve/listen"
	"doublet/wire/smtp"
)

var (
	errEarly    = smtp.NewReply(554, 5, 5, 1, "You spoke before the greeting")
	errPipeline = smtp.NewReply(554, 5, 5, 0, "You spoke before the answer: this command ends a group (RFC 2920)")
)

// greet prints the greeting, to strangers after a while: programs that send junk are in a hurry, and
// do not wait for it. It is false for who did not wait.
//
// Implements: RFC 5321 §3.1 The client waits for the greeting
func (s *session) greet() bool {
	if d := s.srv.cfg.GreetingDelay; d > 0 && s.stranger() {
		switch err := s.pause(d); {
		case err == nil:
			s.srv.inc(s.srv.names.early, 1)
			s.final(errEarly)
			return false
		case !errors.Is(err, listen.ErrTimeout):
			s.over = true
			return false
		}
	}
	s.c.PrintString(s.srv.greeting)
	return true
}

// pause waits for input that should not come.
func (s *session) pause(d time.Duration) error {
	if s.c.Secure() { // the handshake has read ahead: it was in time
		return listen.ErrTimeout
	}
	return s.c.Fill(d)
}

// stranger says that the client is another server, of which nothing is known.
func (s *session) stranger() bool {
	return s.srv.cfg.Kind == SMTP && !s.info.Signed && !s.info.Local && s.info.Mate == ""
}

// mate finds out whether the client is a server of the domain, by the key that it has shown.
func (s *session) mate() {
	s.info.Mate = ""
	state, on := s.c.TLSState()
	if s.srv.cfg.Mate == nil || s.srv.cfg.Kind != SMTP || !on {
		return
	}
	name, err := s.srv.cfg.Mate(s.c.Context(), &state)
	if err != nil {
		s.srv.env.Log.Error("smtpd: backend failed", "op", "Mate", "err", err)
	}
	s.info.Mate = name
}

// hasty refuses who sends on without waiting for the answer to a command that must end a group, and
// ends the session: what follows was meant for another state than the one that it would meet.
//
// Implements: RFC 2920 §3.1 EHLO, DATA and others end a group of commands
func (s *session) hasty() bool {
	if !s.stranger() || len(s.c.Buffered()) == 0 {
		return false
	}
	s.srv.inc(s.srv.names.early, 1)
	s.final(errPipeline)
	return true
}

// inbound is the session with what is asked about mail on its way in, as the client is now.
func (s *session) inbound(p *smtp.MailParams) *inbound.Session {
	c := inbound.Client{
		IP: s.info.RemoteIP, Helo: s.info.Helo, TLS: s.info.TLSName,
		Trusted: s.srv.cfg.Kind == LMTP && s.info.Local || p.Transit != "", // within the domain it was looked into where it came in
	}
	if s.info.Signed {
		c.User = s.info.Account.Address
		if c.User == "" {
			c.User = s.info.Account.Name
		}
	}
	if !s.gate.Same(c) {
		s.gate.Close()
		s.gate = s.srv.cfg.Inbound.Begin(c)
	}
	return s.gate
}

// examine asks about a whole message; a reply refuses it. What filters make of it is memory, too.
func (s *session) examine() *smtp.Reply {
	if n := int64(s.msg.n); s.gate.Copies() && s.msg.size+n <= s.memory.Max() { // else it would never be given
		if !s.memory.Take(n) {
			return errMemory
		}
		s.copied = n
	}
	s.env.Head = s.msg.head()
	s.env.Inbound = s.gate.Message(s.c.Context(), s.msg.b[:s.msg.n:s.msg.n], s.env.Head)
	s.env.Head = s.env.Inbound.Head
	return s.env.Inbound.Reply
}

func (s *session) giveCopy() {
	if s.copied > 0 {
		s.memory.Give(s.copied)
		s.copied = 0
	}
}
