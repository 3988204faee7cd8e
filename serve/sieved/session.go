package sieved

import (
	"bytes"
	"errors"
	"io"
	"time"

	"doublet/mail/scripts"
	"doublet/mailbox"
	"doublet/serve/forward"
	"doublet/serve/listen"
	"doublet/serve/signin"
	"doublet/wire/managesieve"
)

// session is the state of one client.
type session struct {
	srv     *Server
	c       *listen.Conn
	account signin.Account
	file    *mailbox.File // nil before sign-in
	home    *forward.Session
	away    bool // the session goes on at another member

	out     listen.Buffer
	failed  error // the connection failed
	started time.Time
	over    bool
	bad     int
	refused int // sign-ins
}

func (s *session) run() {
	s.out.Take()
	if a, ok := forward.AccountOf(s.c); ok { // the server that forwarded the session has not answered yet
		s.home = forward.Taken(s.c)
		err := s.c.SignedIn(a.Who.Person)
		if err == nil {
			s.begin(a)
		}
		s.signedIn(a, err)
		s.over = err != nil
	} else {
		s.capabilities("ready")
	}
	for !s.over && s.failed == nil {
		if len(s.c.Buffered()) == 0 {
			if err := s.await(); err != nil {
				s.lost(err)
				continue
			}
		}
		s.command()
		if s.away {
			s.carryAway()
		}
	}
	_ = s.flush()
}

// end releases all resources of the session, also after a panic.
func (s *session) end() {
	s.out.Release()
	s.home.End()
	s.srv.stats.current.Add(-1)
}

func (s *session) timeout() time.Duration {
	if s.file != nil {
		return s.account.Silence(s.srv.cfg.IdleTimeout, s.c.Now())
	}
	return max(s.srv.cfg.LoginTimeout-s.c.Now().Sub(s.started), time.Millisecond)
}

func (s *session) await() error {
	if err := s.flush(); err != nil {
		return err
	}
	s.out.Release()
	return s.home.Waits(s.c.Context(), func() error { return s.c.Await(s.timeout()) })
}

// lost ends the session after an error of Await or of a read.
func (s *session) lost(err error) {
	s.out.Take()
	switch {
	case errors.Is(err, listen.ErrWoken):
		return
	case errors.Is(err, listen.ErrTimeout):
		s.srv.stats.timeouts.Inc()
		s.reply("BYE", "", "Closed after too long a silence")
	case errors.Is(err, listen.ErrClosing):
		s.reply("BYE", "TRYLATER", "Server is shutting down")
	case errors.Is(err, io.EOF):
	default:
		s.failed = err
	}
	s.over = true
}

// flush sends the output. An error is stored and ends the session.
func (s *session) flush() error {
	if s.failed == nil && len(s.out.B) > 0 {
		s.failed = s.home.Waits(s.c.Context(), func() error {
			_, err := s.c.Write(s.out.B)
			return err
		})
	}
	s.out.B = s.out.B[:0]
	return s.failed
}

func (s *session) fill() error {
	if s.file == nil && s.c.Now().Sub(s.started) > s.srv.cfg.LoginTimeout {
		return listen.ErrTimeout // single bytes do not extend the timeout
	}
	if err := s.flush(); err != nil {
		return err
	}
	return s.home.Waits(s.c.Context(), func() error { return s.c.Fill(s.timeout()) })
}

// line reads a line and removes its end.
func (s *session) line() ([]byte, error) {
	for {
		b := s.c.Buffered()
		if i := bytes.IndexByte(b, '\n'); i >= 0 && i < managesieve.MaxLine {
			line := bytes.Clone(bytes.TrimSuffix(b[:i], []byte{'\r'}))
			s.c.Discard(i + 1)
			return line, nil
		}
		if len(b) >= managesieve.MaxLine {
			return nil, listen.ErrLineTooLong
		}
		if err := s.fill(); err != nil {
			return nil, err
		}
	}
}

// Limits of the literals of one command, in bytes. A script that is a little too large is read, and refused by itself;
// beyond that the session ends.
const (
	maxLiterals    = 4 * scripts.MaxSize
	maxLoginInput  = 16 << 10
	maxLiteralsNum = 8
)

var errLiteral = errors.New("sieved: literal is too large")

// input reads a command with its literals, in the form of managesieve.Parse.
//
// Implements: RFC 5804 §1.2 literals
func (s *session) input() ([]byte, error) {
	limit := maxLiterals
	if s.file == nil {
		limit = maxLoginInput
	}
	var all []byte
	for range maxLiteralsNum {
		line, err := s.line()
		if err != nil {
			return nil, err
		}
		all = append(all, line...)
		n, ok := managesieve.Literal(line)
		if !ok {
			return all, nil
		}
		if n+len(all) > limit {
			return nil, errLiteral
		}
		all = append(all, "\r\n"...)
		for n > 0 {
			b := s.c.Buffered()
			if len(b) == 0 {
				if err := s.fill(); err != nil {
					return nil, err
				}
				continue
			}
			b = b[:min(n, len(b))]
			all = append(all, b...)
			n -= len(b)
			s.c.Discard(len(b))
		}
	}
	return nil, errLiteral
}

// verb is a command. in is set if it needs a sign-in, and args are the kinds of its arguments: s for a string, n for a
// number; a question mark makes the last one optional.
type verb struct {
	in   bool
	args string
	run  func(*session, []managesieve.Argument)
}

var verbs map[string]verb

func init() {
	verbs = map[string]verb{
		"AUTHENTICATE": {false, "ss?", (*session).authenticate}, "STARTTLS": {false, "", (*session).starttls},
		"LOGOUT": {false, "", (*session).logout}, "CAPABILITY": {false, "", (*session).capability},
		"NOOP":      {false, "s?", (*session).noop},
		"HAVESPACE": {true, "sn", (*session).haveSpace}, "PUTSCRIPT": {true, "ss", (*session).putScript},
		"CHECKSCRIPT": {true, "s", (*session).checkScript}, "LISTSCRIPTS": {true, "", (*session).listScripts},
		"SETACTIVE": {true, "s", (*session).setActive}, "GETSCRIPT": {true, "s", (*session).getScript},
		"DELETESCRIPT": {true, "s", (*session).deleteScript}, "RENAMESCRIPT": {true, "ss", (*session).renameScript},
	}
}

// fits reports whether a command has the arguments of its verb.
func (v *verb) fits(list []managesieve.Argument) bool {
	kinds, optional := v.args, false
	if n := len(kinds); n > 0 && kinds[n-1] == '?' {
		kinds, optional = kinds[:n-1], true
	}
	if len(list) != len(kinds) && !(optional && len(list) == len(kinds)-1) {
		return false
	}
	for i := range list {
		if list[i].IsNumber != (kinds[i] == 'n') {
			return false
		}
	}
	return true
}

// command reads one command and answers it.
func (s *session) command() {
	b, err := s.input()
	s.out.Take()
	switch {
	case errors.Is(err, listen.ErrLineTooLong), errors.Is(err, errLiteral):
		s.reply("BYE", "", "Command is too long")
		s.over = true
		return
	case err != nil:
		s.lost(err)
		return
	}
	s.srv.stats.commands.Inc()
	cmd, err := managesieve.Parse(b)
	v, known := verbs[cmd.Name]
	switch {
	case err != nil:
		s.badly(err.Error())
	case !known:
		s.badly("Unknown command")
	case v.in && s.file == nil:
		s.badly("Sign in first")
	case !v.fits(cmd.Args):
		s.badly("Wrong arguments of " + cmd.Name)
	default:
		s.carryOut(&v, cmd.Args)
	}
}

// carryOut executes a command if the mail file is here. When it has moved, the client must connect again.
func (s *session) carryOut(v *verb, args []managesieve.Argument) {
	if s.file != nil {
		if !s.home.Begin(s.c.Context()) {
			s.reply("BYE", "TRYLATER", "The mailbox has moved to another server, connect again")
			s.over = true
			return
		}
		defer s.home.Done()
		if !s.refresh() {
			return
		}
	}
	s.bad = 0
	v.run(s, args)
}

// refresh looks up the account again. It returns false if the account is no longer valid; then the session has ended.
func (s *session) refresh() bool {
	changed, err := s.srv.accounts.Refresh(s.c.Context(), &s.account)
	switch {
	case errors.Is(err, signin.ErrCredentials), errors.Is(err, signin.ErrDisabled):
		s.reply("BYE", "", "The account may not be used any more")
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

func (s *session) reply(kind, code, text string) {
	s.out.B = managesieve.AppendResponse(s.out.B, kind, code, text)
}

func (s *session) ok(text string) { s.reply("OK", "", text) }

// badly answers an invalid command.
func (s *session) badly(text string) {
	s.srv.stats.bad.Inc()
	s.reply("NO", "", text)
	if s.bad++; s.bad >= s.srv.cfg.MaxBad {
		s.reply("BYE", "", "Too many bad commands")
		s.over = true
	}
}
