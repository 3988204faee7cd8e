package smtpd

import (
	"bytes"
	"crypto/tls"
	"errors"

	"doublet/mail/inbound"
	"doublet/serve/condition"
	"doublet/serve/listen"
	"doublet/wire/smtp"
)

// session is the state of one client. A transaction lasts from MAIL to the end of the data.
type session struct {
	srv  *Server
	c    *listen.Conn
	info Session
	env  Envelope
	gate *inbound.Session
	// copied is the number of bytes taken from memory for the message as modified by filters.
	copied int64

	mail      bool        // MAIL was accepted
	lowered   bool        // its priority was lowered
	chunks    bool        // a BDAT chunk was received
	chunkFail *smtp.Reply // the reason why BDAT cannot continue
	msg       message
	results   []error

	errors       int
	refusedRcpts int // recipients rejected in this session
	authFailures int
	commands     int64 // not yet added to the statistics
	over         bool
	scratch      []byte
	memory       listen.Share // share of Config.Memory
}

// Constant replies, with their line ends.
const (
	replyOK       = "250 2.0.0 OK\r\n"
	replySender   = "250 2.1.0 Sender OK\r\n"
	replyRcpt     = "250 2.1.5 Recipient OK\r\n"
	replyGo       = "354 End data with <CR><LF>.<CR><LF>\r\n"
	replyBye      = "221 2.0.0 Bye\r\n"
	replyTLS      = "220 2.0.0 Ready to start TLS\r\n"
	replyVRFY     = "252 2.5.0 Cannot verify, but will take the message and try\r\n"
	replySignedIn = "235 2.7.0 Authentication succeeded\r\n"
)

// Rejections.
var (
	errClosing    = condition.Closing.SMTP
	errTimeout    = smtp.NewReply(421, 4, 4, 2, "Timeout")
	errTooMany    = smtp.NewReply(421, 4, 7, 0, "Too many errors")
	errTooLong    = smtp.NewReply(500, 5, 5, 2, "Line too long")
	errFlood      = smtp.NewReply(421, 4, 7, 0, "Line far too long")
	errVerb       = smtp.NewReply(500, 5, 5, 1, "Command not recognized")
	errNotHere    = smtp.NewReply(502, 5, 5, 1, "Command not offered here")
	errSequence   = smtp.NewReply(503, 5, 5, 1, "Bad sequence of commands")
	errHelloFirst = smtp.NewReply(503, 5, 5, 1, "Say EHLO first")
	errMailFirst  = smtp.NewReply(503, 5, 5, 1, "MAIL first")
	errNoRcpt     = smtp.NewReply(554, 5, 5, 1, "No valid recipients")
	errNoRcptLMTP = smtp.NewReply(503, 5, 5, 1, "No valid recipients")
	errSignIn     = smtp.NewReply(530, 5, 7, 0, "Authentication required")
	errSignInTLS  = smtp.NewReply(530, 5, 7, 0, "Must issue a STARTTLS command first")
	errTooBig     = smtp.NewReply(552, 5, 3, 4, "Message is larger than this server takes")
	errMemory     = condition.NoMemory.SMTP
	errRcptCount  = smtp.NewReply(452, 4, 5, 3, "Too many recipients")
	errNUL        = smtp.NewReply(554, 5, 6, 0, "Message contains NUL characters")
	errBare       = smtp.NewReply(554, 5, 6, 0, "Message contains a bare CR or LF")
	errLoop       = smtp.NewReply(554, 5, 4, 6, "Too many Received fields: mail loop")
	errArgs       = smtp.NewReply(501, 5, 5, 4, "No argument is allowed here")
)

// maxFlood is the number of bytes of an overlong line that are discarded before the session ends.
const maxFlood = 1 << 20

func (s *session) run() {
	s.greet()
	for !s.over {
		switch err := s.c.Await(s.srv.cfg.CommandTimeout); {
		case err == nil:
			s.command()
		case errors.Is(err, listen.ErrWoken):
		case errors.Is(err, listen.ErrClosing):
			s.final(errClosing)
		default:
			s.lost(err)
		}
	}
}

// end releases the session's resources. It also runs after a panic.
func (s *session) end() {
	s.gate.Close()
	s.msg.release(s.memory)
	s.giveCopy()
	s.srv.inc(s.srv.names.commands, s.commands)
	s.srv.inc(s.srv.names.errors, int64(s.errors))
	s.srv.inc(s.srv.names.active, -1)
}

func (s *session) command() {
	line, err := s.c.ReadLine(smtp.MaxAuthLine, s.srv.cfg.CommandTimeout)
	if errors.Is(err, listen.ErrLineTooLong) {
		s.skipLine()
		return
	}
	if err != nil {
		s.lost(err)
		return
	}
	s.commands++
	cmd, bad := smtp.ParseCommand(line, s.srv.cfg.BareLF == BareNormalize)
	switch {
	case bad != nil:
		s.refuse(bad)
	case len(line) > smtp.MaxCommandLine && cmd.Verb != smtp.AUTH:
		s.refuse(errTooLong)
	default:
		s.dispatch(cmd)
	}
}

func (s *session) dispatch(cmd smtp.Command) {
	switch cmd.Verb {
	case smtp.EHLO, smtp.HELO, smtp.LHLO:
		s.hello(cmd)
	case smtp.MAIL:
		s.cmdMail(cmd.Arg)
	case smtp.RCPT:
		s.cmdRcpt(cmd.Arg)
	case smtp.DATA:
		s.cmdData(cmd.Arg)
	case smtp.BDAT:
		s.cmdBDAT(cmd.Arg)
	case smtp.RSET:
		s.cmdRSET(cmd.Arg)
	case smtp.NOOP:
		s.cmdNOOP()
	case smtp.QUIT:
		s.cmdQUIT(cmd.Arg)
	case smtp.VRFY:
		s.cmdVRFY(cmd.Arg)
	case smtp.EXPN:
		s.cmdEXPN()
	case smtp.HELP:
		s.cmdHELP()
	case smtp.AUTH:
		s.cmdAUTH(cmd.Arg)
	case smtp.STARTTLS:
		s.cmdSTARTTLS(cmd.Arg)
	default:
		s.refuse(errVerb)
	}
}

// skipLine discards the rest of an overlong line.
func (s *session) skipLine() {
	for n := 0; n < maxFlood; {
		b := s.c.Buffered()
		if i := bytes.IndexByte(b, '\n'); i >= 0 {
			s.c.Discard(i + 1)
			s.commands++
			s.refuse(errTooLong)
			return
		}
		n += len(b)
		s.c.Discard(len(b))
		if err := s.c.Fill(s.srv.cfg.CommandTimeout); err != nil {
			s.lost(err)
			return
		}
	}
	s.final(errFlood)
}

// lost ends the session after a read error.
func (s *session) lost(err error) {
	if errors.Is(err, listen.ErrTimeout) {
		s.srv.inc(s.srv.names.timeouts, 1)
		s.final(errTimeout)
	}
	s.over = true
}

func (s *session) say(text string) { s.c.PrintString(text) }

func (s *session) print(r *smtp.Reply) {
	s.scratch = r.Append(s.scratch[:0])
	s.c.Print(s.scratch)
}

// final sends the last reply of the session.
func (s *session) final(r *smtp.Reply) {
	s.print(r)
	s.over = true
}

// refuse sends a rejection. A permanent one counts as an error of the client.
func (s *session) refuse(r *smtp.Reply) {
	s.print(r)
	if r.Code == 421 {
		s.over = true
		return
	}
	if !r.Temporary() {
		s.fault()
	}
}

// fault counts an error. Too many errors end the session.
func (s *session) fault() {
	s.errors++
	if s.errors >= s.srv.cfg.MaxErrors && !s.over {
		s.final(errTooMany)
	}
}

// answer converts a backend's error to a reply. An error that is not a reply is logged as an error of the server.
func (s *session) answer(op string, err error) *smtp.Reply {
	var r *smtp.Reply
	if !errors.As(err, &r) {
		s.srv.env.Log.Error("smtpd: backend failed", "op", op, "err", err)
		return smtp.AsReply(err)
	}
	return r
}

// reset ends the transaction.
func (s *session) reset() {
	s.gate.Reset()
	s.mail, s.lowered, s.chunks, s.chunkFail = false, false, false, nil
	s.msg.release(s.memory)
	s.giveCopy()
	s.env.From, s.env.Params, s.env.Head = smtp.Path{}, smtp.MailParams{}, nil
	s.env.Inbound = inbound.Outcome{}
	if cap(s.env.Recipients) > 16 {
		s.env.Recipients, s.results = nil, nil
		return
	}
	clear(s.env.Recipients)
	clear(s.results)
	s.env.Recipients = s.env.Recipients[:0]
	s.results = s.results[:0]
}

func (s *session) tlsState() {
	state, ok := s.c.TLSState()
	s.info.TLS = ok
	s.mate()
	if ok {
		s.info.TLSName = tls.VersionName(state.Version) + " with cipher " + tls.CipherSuiteName(state.CipherSuite)
	}
}
