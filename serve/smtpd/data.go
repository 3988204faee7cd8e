package smtpd

import (
	"strconv"

	"doublet/wire/smtp"
)

// cmdData reads a message and delivers it.
//
// Implements: RFC 5321 §4.1.1.4 DATA
func (s *session) cmdData(arg []byte) {
	switch {
	case len(arg) > 0:
		s.refuse(errArgs)
	case !s.mail:
		s.refuse(errMailFirst)
	case s.chunks:
		s.refuse(errSequence)
	case len(s.env.Recipients) == 0:
		s.refuse(s.noRcpt())
	default:
		s.data()
	}
}

func (s *session) noRcpt() *smtp.Reply {
	if s.srv.cfg.Kind == LMTP {
		return errNoRcptLMTP
	}
	return errNoRcpt
}

func (s *session) data() {
	// Fail early when memory is exhausted. The buffer itself is allocated later, when data arrives.
	if !s.memory.Take(int64(classes[0])) {
		s.refuse(errMemory)
		return
	}
	s.memory.Give(int64(classes[0]))
	if s.hasty() {
		return
	}
	s.say(replyGo)
	var dec smtp.DotDecoder
	bad, err := s.readData(&dec)
	if err != nil {
		// The client disconnected in the middle of the message: deliver nothing.
		s.lost(err)
		s.reset()
		return
	}
	if bad == nil {
		bad = s.check(dec.Bare, dec.NUL)
	}
	s.finish(bad)
}

// minRead is the minimum number of bytes available for a read from the socket.
const minRead = 4 << 10

// readData reads to the end of the data even after an error. bad is the rejection of the message; err means that the
// client disconnected.
func (s *session) readData(dec *smtp.DotDecoder) (bad *smtp.Reply, err error) {
	cfg := &s.srv.cfg
	decoded := 0 // msg.b[:decoded] is decoded; the decoder held back msg.b[decoded:msg.n]
	for {
		// The first piece goes through the connection's buffer, so that a slow client does not hold a message buffer.
		// The other pieces go directly into the message.
		if decoded == 0 && len(s.c.Buffered()) == 0 {
			if err := s.c.Fill(cfg.DataTimeout); err != nil {
				return nil, err
			}
		}
		room := max(minRead, len(s.c.Buffered()))
		if !s.msg.need(room, cfg.MaxMessage, s.memory) {
			bad = errMemory
			break
		}
		n, err := s.c.Read(s.msg.b[s.msg.n:])
		if err != nil {
			return nil, err
		}
		s.msg.n += n
		k, rest, done := dec.Decode(s.msg.b[decoded:s.msg.n])
		decoded += k
		if int64(decoded) > cfg.MaxMessage {
			bad = errTooBig
		}
		if done {
			s.c.Unread(rest)
			s.msg.n = decoded
			return bad, nil
		}
		s.msg.n = decoded + len(rest)
		if bad != nil {
			break
		}
	}
	s.c.Unread(s.msg.b[decoded:s.msg.n])
	s.msg.release(s.memory)
	return bad, s.drainData(dec)
}

// drainData reads and discards the rest of a rejected message, in the connection's buffer.
func (s *session) drainData(dec *smtp.DotDecoder) error {
	for {
		b := s.c.Buffered()
		if len(b) > 0 {
			_, rest, done := dec.Decode(b)
			left := len(rest)
			if !done {
				copy(b[len(b)-left:], rest)
			}
			s.c.Discard(len(b) - left)
			if done {
				return nil
			}
		}
		if err := s.c.Fill(s.srv.cfg.DataTimeout); err != nil {
			return err
		}
	}
}

// check checks a complete message.
func (s *session) check(bare, nul bool) *smtp.Reply {
	cfg := &s.srv.cfg
	switch {
	case nul:
		return errNUL
	case bare && cfg.BareLF == BareReject:
		return errBare
	case bare:
		if bad := s.normalize(); bad != nil {
			return bad
		}
	}
	if smtp.CountReceived(s.msg.b[:s.msg.n], cfg.MaxReceived+1) > cfg.MaxReceived {
		return errLoop
	}
	return nil
}

// normalize converts bare CRs and LFs to CRLF, in a second buffer.
func (s *session) normalize() *smtp.Reply {
	cfg := &s.srv.cfg
	old := s.msg.b[:s.msg.n]
	size := len(old) + smtp.BareCount(old)
	if int64(size) > cfg.MaxMessage {
		return errTooBig
	}
	var next message
	if !next.need(size, cfg.MaxMessage, s.memory) {
		return errMemory
	}
	next.n = len(smtp.AppendNormal(next.b[:0], old))
	s.msg.release(s.memory)
	s.msg = next
	return nil
}

// finish delivers the message unless bad is set, replies, and ends the transaction.
func (s *session) finish(bad *smtp.Reply) {
	id := ""
	rcpts := len(s.env.Recipients)
	s.results = append(s.results[:0], make([]error, rcpts)...)
	if bad == nil {
		bad = s.examine()
	}
	if bad == nil {
		var err error
		id, err = s.srv.backend.Deliver(s.c.Context(), &s.env, s.env.Inbound.Message, s.results)
		if err != nil {
			bad = s.answer("Deliver", err)
		}
	}
	names := &s.srv.names
	if s.srv.cfg.Kind == LMTP {
		bad = s.answerEach(id, bad)
	} else if bad == nil {
		bad = s.allRefused()
	}
	s.env.Inbound.Done(s.c.Context(), bad)
	switch {
	case bad != nil && s.srv.cfg.Kind == LMTP:
		s.srv.inc(names.refusedMessages, 1)
		s.over = s.over || bad.Code == 421
	case bad != nil:
		s.srv.inc(names.refusedMessages, 1)
		s.refuse(bad)
	default:
		if s.srv.cfg.Kind != LMTP {
			s.accepted(id, "")
		}
		s.srv.inc(names.messages, 1)
		s.srv.inc(names.recipients, int64(rcpts))
		s.srv.inc(names.bytes, int64(s.msg.n))
		s.srv.inc(names.commands, s.commands)
		s.commands = 0
	}
	s.reset()
}

// allRefused returns the reply for the first recipient if all recipients failed, otherwise nil.
func (s *session) allRefused() *smtp.Reply {
	for _, err := range s.results {
		if err == nil {
			return nil
		}
	}
	if len(s.results) == 0 {
		return nil
	}
	return s.answer("Deliver", s.results[0])
}

// answerEach sends the LMTP replies: one for each recipient, in order. It returns bad, or the first rejection if no
// recipient accepted the message.
//
// Implements: RFC 2033 §4.2 DATA with a reply per recipient
func (s *session) answerEach(id string, bad *smtp.Reply) *smtp.Reply {
	taken := false
	for i := range s.env.Recipients {
		r := bad
		if r == nil && s.results[i] != nil {
			r = s.answer("Deliver", s.results[i])
		}
		if r == nil {
			taken = true
			s.accepted(id, s.env.Recipients[i].To.String())
		} else {
			s.print(r)
		}
	}
	if bad == nil && !taken {
		return s.allRefused()
	}
	return bad
}

// accepted sends the positive reply, after which this server is responsible for the message.
//
// Implements: RFC 6710 §4.1 Reply to a message whose priority was changed
func (s *session) accepted(id, rcpt string) {
	b := append(s.scratch[:0], "250 "...)
	if s.lowered {
		b = strconv.AppendInt(append(b, "2.3.6 "...), int64(s.env.Params.Priority), 10)
		b = append(b, " is the new priority assigned to the message. "...)
	} else {
		b = append(b, "2.0.0 "...)
	}
	if rcpt != "" {
		b = append(append(append(b, '<'), clean(rcpt)...), "> "...)
	}
	b = append(append(append(b, "OK "...), clean(id)...), '\r', '\n')
	s.scratch = b
	s.c.Print(b)
}

// clean returns s, or "" if s contains control characters, which could end the line of a reply.
func clean(s string) string {
	for i := range len(s) {
		if s[i] < ' ' || s[i] == 0x7f {
			return ""
		}
	}
	return s
}
