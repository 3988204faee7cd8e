package pop3d

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"doublet/mailbox"
	"doublet/serve/condition"
	"doublet/serve/forward"
	"doublet/serve/listen"
	"doublet/serve/signin"
	"doublet/wire/pop3"
)

// state is a set of the states of RFC 1939 section 3. UPDATE is part of QUIT.
type state uint8

const (
	authorization state = 1 << iota
	transaction

	anyState = authorization | transaction
)

// session is the state of one client. It is small, because many clients wait at the same time.
type session struct {
	srv     *Server
	c       *listen.Conn
	account signin.Account
	file    *mailbox.File // nil before sign-in
	drop    maildrop
	home    *forward.Session
	// away is set if the session starts at another member. again is the command that the member to which the mail file
	// has moved must execute; it has changed nothing.
	away  bool
	again []byte

	out     listen.Buffer
	scratch listen.Buffer
	failed  error // the connection failed

	started      time.Time
	user         string // from USER
	over         bool
	bad          uint8 // bad commands in a row
	authFailures uint8
}

func (s *session) run() {
	s.out.Take()
	if a, ok := forward.AccountOf(s.c); ok { // the server that forwarded the session has not answered yet
		s.taken(a)
	} else {
		s.ok(s.srv.cfg.Hostname + " Doublet POP3 ready")
	}
	for !s.over && s.failed == nil {
		if len(s.c.Buffered()) == 0 {
			if err := s.await(); err != nil {
				s.lost(err)
				continue
			}
		}
		s.command()
		if len(s.out.B) > sendAt {
			_ = s.flush()
		}
	}
	_ = s.flush()
}

// taken starts a session that another server has forwarded.
func (s *session) taken(a signin.Account) {
	s.home = forward.Taken(s.c)
	err := s.c.SignedIn(a.Who.Person)
	moved := forward.Resume(s.c, func(state []byte) {
		s.account = a
		if err == nil {
			err = s.resume(state)
		}
		if err != nil {
			s.cannotMove(err)
		}
	})
	if moved {
		return
	}
	if err == nil {
		err = s.begin(a)
	}
	s.signedIn(a, err)
	s.over = err != nil
}

// end releases all resources of the session, also after a panic. Messages that are only marked stay.
func (s *session) end() {
	s.out.Release()
	s.scratch.Release()
	if s.file != nil {
		s.closeDrop()
	}
	s.home.End()
	s.srv.stats.current.Add(-1)
}

// timeout returns the time for which the client may be silent now.
func (s *session) timeout() time.Duration {
	if s.file != nil {
		return s.account.Silence(s.srv.cfg.IdleTimeout, s.c.Now())
	}
	return max(s.srv.cfg.LoginTimeout-s.c.Now().Sub(s.started), time.Millisecond)
}

// await waits for a command and holds no buffers meanwhile. Responses to pipelined commands are sent together.
//
// Implements: RFC 2449 §6.6 PIPELINING
func (s *session) await() error {
	if err := s.flush(); err != nil {
		return err
	}
	s.out.Release()
	s.scratch.Release()
	return s.home.Waits(s.c.Context(), func() error { return s.c.Await(s.timeout()) })
}

// lost ends the session after an error of Await or of a read. It sends nothing, because the client would take it for
// the response to its next command.
func (s *session) lost(err error) {
	switch {
	case errors.Is(err, listen.ErrWoken):
		return
	case errors.Is(err, listen.ErrTimeout):
		s.srv.stats.timeouts.Inc()
	case errors.Is(err, listen.ErrClosing), errors.Is(err, io.EOF):
	default:
		s.failed = err
	}
	s.over = true
}

// maxSkip is the maximum number of bytes of an overlong line that are read and dropped.
const maxSkip = 64 << 10

// line reads a line and removes its end. It drops an overlong line and returns listen.ErrLineTooLong.
func (s *session) line(limit int) ([]byte, error) {
	skipped := 0
	for {
		b := s.c.Buffered()
		i := bytes.IndexByte(b, '\n')
		switch {
		case i >= 0 && (skipped > 0 || i >= limit):
			s.c.Discard(i + 1)
			return nil, listen.ErrLineTooLong
		case i >= 0:
			s.c.Discard(i + 1)
			return bytes.TrimSuffix(b[:i], []byte{'\r'}), nil
		case len(b) >= limit:
			if skipped += len(b); skipped > maxSkip {
				return nil, io.ErrUnexpectedEOF
			}
			s.c.Discard(len(b))
		}
		if s.file == nil && s.c.Now().Sub(s.started) > s.srv.cfg.LoginTimeout {
			return nil, listen.ErrTimeout // single bytes do not extend the timeout
		}
		if err := s.flush(); err != nil {
			return nil, err
		}
		fill := func() error { return s.c.Fill(s.timeout()) }
		if err := s.home.Waits(s.c.Context(), fill); err != nil {
			return nil, err
		}
	}
}

// command reads one command and answers it.
func (s *session) command() {
	b, err := s.line(pop3.MaxAuth)
	s.out.Take()
	if err != nil && !errors.Is(err, listen.ErrLineTooLong) {
		s.lost(err)
		return
	}
	var cmd pop3.Command
	if err == nil {
		cmd, err = pop3.Parse(b)
	}
	v, known := s.srv.verbs[cmd.Name]
	if known {
		v.count.Inc()
	}
	s.srv.stats.trans.Inc()
	switch {
	case errors.Is(err, listen.ErrLineTooLong):
		s.badly("Line too long")
		return
	case err != nil:
		text := strings.TrimPrefix(err.Error(), pop3.ErrSyntax.Error()+": ")
		s.badly(strings.ToUpper(text[:1]) + text[1:])
		return
	case v.states&s.state() == 0:
		if s.file == nil {
			s.badly("Sign in first")
		} else {
			s.badly("Already signed in")
		}
		return
	}
	s.carryOut(v.verb, &cmd, b)
	switch {
	case s.over && s.again == nil:
	case s.away:
		s.carryAway()
	case s.again != nil:
		again := s.again
		s.again, s.over = nil, false
		s.moveOn(again)
	}
}

// carryOut executes a command, whose text is line, if the mail file is here. Otherwise the session moves, and the
// command with it.
func (s *session) carryOut(v verb, cmd *pop3.Command, line []byte) {
	if s.file != nil {
		if !s.home.Begin(s.c.Context()) {
			s.again = slices.Concat(line, []byte("\r\n")) // line is in the connection's memory
			return
		}
		defer s.home.Done()
		if !s.refresh() {
			return
		}
	}
	before := s.bad
	v.run(s, cmd)
	if s.bad == before {
		s.bad = 0
	}
}

// refresh looks up the account again. It returns false if the account is no longer valid; then the session has ended.
func (s *session) refresh() bool {
	changed, err := s.srv.accounts.Refresh(s.c.Context(), &s.account)
	switch {
	case errors.Is(err, signin.ErrCredentials), errors.Is(err, signin.ErrDisabled):
		s.err(pop3.CodeAuth, "The account may not be used any more")
		s.over = true
		return false
	case err != nil:
		s.trouble("account cannot be looked up", err)
		s.over = true
		return false
	case changed:
		s.file.Renew(s.account.Who)
	}
	s.srv.stats.users.Touch(s.account.Who.Person)
	return true
}

// attempt describes the origin of a sign-in.
func (s *session) attempt() signin.Attempt { return signin.AttemptOf(s.c, "POP3") }

func (s *session) state() state {
	if s.file == nil {
		return authorization
	}
	return transaction
}

func (s *session) ok(text string) { s.out.B = pop3.AppendOK(s.out.B, text) }

func (s *session) err(code, text string) { s.out.B = pop3.AppendErr(s.out.B, code, text) }

// badly answers an invalid command.
func (s *session) badly(text string) {
	s.srv.stats.bad.Inc()
	s.err("", text)
	if s.bad++; int(s.bad) >= s.srv.cfg.MaxBad {
		s.over = true
	}
}

// trouble answers an internal error. It logs errors that are not in the table of conditions.
func (s *session) trouble(failure string, err error) {
	c, known := condition.Of(err)
	if !known || c == condition.Damaged {
		s.srv.env.Log.Error("pop3d: "+failure, "account", s.account.Name, "err", err)
	}
	s.err(c.POP3, c.IMAPText)
}

// verb holds the states in which a command is allowed, and the method that executes and answers it.
type verb struct {
	states state
	run    func(*session, *pop3.Command)
}

var verbs = map[string]verb{
	"AUTH": {authorization, (*session).auth},
	"CAPA": {anyState, (*session).capa},
	"DELE": {transaction, (*session).dele},
	"LANG": {anyState, (*session).lang},
	"LIST": {transaction, (*session).list},
	"NOOP": {transaction, (*session).noop},
	"PASS": {authorization, (*session).pass},
	"QUIT": {anyState, (*session).quit},
	"RETR": {transaction, (*session).retr},
	"RSET": {transaction, (*session).rset},
	"STAT": {transaction, (*session).stat},
	"STLS": {authorization, (*session).stls},
	"TOP":  {transaction, (*session).top},
	"UIDL": {transaction, (*session).uidl},
	"USER": {authorization, (*session).userName},
	"UTF8": {authorization, (*session).utf8},
}
