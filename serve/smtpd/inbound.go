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

// greet sends the greeting, to other servers after a delay: spam programs often do not wait for it. It reports whether
// the client waited.
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

// pause waits for d, or until the client sends something that it should not send yet.
func (s *session) pause(d time.Duration) error {
	if s.c.Secure() { // the TLS handshake may have read ahead, and it was in time
		return listen.ErrTimeout
	}
	return s.c.Fill(d)
}

// stranger reports whether the client is an unknown server on an SMTP listener.
func (s *session) stranger() bool {
	return s.srv.cfg.Kind == SMTP && !s.info.Signed && !s.info.Local && s.info.Mate == ""
}

// mate determines from the client's TLS key whether the client is a server of this domain, and sets info.Mate.
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

// hasty rejects a client that sends more data without waiting for the reply to a command that must end a pipelined
// group, and ends the session. The client assumed a state that may be different. It reports whether it did so.
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

// inbound returns the inbound checks for the current client. If the client's data has changed, it begins new ones.
func (s *session) inbound(p *smtp.MailParams) *inbound.Session {
	c := inbound.Client{
		IP: s.info.RemoteIP, Helo: s.info.Helo, TLS: s.info.TLSName,
		// another server of the domain checked it already
		Trusted: s.srv.cfg.Kind == LMTP && s.info.Local || p.Transit != "",
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

// examine runs the inbound checks on a complete message. A reply rejects the message. A filter's modified copy counts
// against the memory budget.
func (s *session) examine() *smtp.Reply {
	if n := int64(s.msg.n); s.gate.Copies() && s.msg.size+n <= s.memory.Max() { // a larger share would never be granted
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
