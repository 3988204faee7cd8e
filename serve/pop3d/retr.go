package pop3d

import (
	"errors"
	"strconv"

	"doublet/mailbox"
	"doublet/serve/condition"
	"doublet/store"
	"doublet/wire/pop3"
)

// errCut means that the transmission of a message was aborted.
var errCut = errors.New("pop3d: message broken off")

// retr sends a message and marks it as read.
//
// Implements: RFC 1939 §5 RETR
func (s *session) retr(cmd *pop3.Command) {
	i, ok := s.number(cmd.Number)
	if !ok {
		return
	}
	body, octets, ok := s.body(i)
	if !ok {
		return
	}
	if err := body.Reach(0, body.Size()); err != nil {
		s.unread(err)
		return
	}
	b := strconv.AppendInt(append(s.out.B, "+OK "...), octets, 10)
	s.out.B = append(b, " octets\r\n"...)
	if s.stream(body, nil) == nil {
		s.drop.marks[i] |= markRead
		s.srv.stats.retrieved.Inc()
	}
}

// body opens a message. On error it answers the command.
func (s *session) body(i int) (body *store.Stored, octets int64, ok bool) {
	uid := s.drop.uids[i]
	known := false
	one := mailbox.Set{{Start: uid, Stop: uid}}
	err := s.drop.view.Fetch(s.c.Context(), one, true, mailbox.FetchOptions{}, func(m *mailbox.Message) (bool, error) {
		var err error
		if octets, known, err = m.Travels(); err == nil {
			body, err = m.Body()
		}
		return false, err
	}, func() error { return nil })
	if err == nil && body != nil && !known {
		octets, err = s.size(body)
	}
	switch {
	case err != nil:
		s.unread(err)
		return nil, 0, false
	case body == nil:
		s.gone()
		return nil, 0, false
	}
	return body, octets, true
}

// unread answers a command whose message cannot be read. A part that is away may come back.
func (s *session) unread(err error) {
	s.srv.env.Log.Error("pop3d: reading a message failed", "account", s.account.Name, "err", err)
	if c := condition.Away; c.Is(err) {
		s.err(c.POP3, c.IMAPText)
		return
	}
	s.err(pop3.CodeSysPerm, "The message cannot be read")
}

// stream sends a message, or the part for TOP, in pieces. If the message cannot be read to its end, the connection is
// closed, because nothing else tells the client that the message is incomplete.
func (s *session) stream(body *store.Stored, top *pop3.Top) error {
	var dots pop3.Stuffer
	err := s.pieces(body, func(p []byte) (bool, error) {
		done := false
		if top != nil {
			var n int
			n, done = top.Take(p)
			p = p[:n]
		}
		s.out.B = dots.Append(s.out.B, p)
		if len(s.out.B) > sendAt {
			return !done, s.flush()
		}
		return !done, nil
	})
	if err != nil {
		if s.failed == nil {
			s.srv.env.Log.Error("pop3d: reading a message to its end failed", "account", s.account.Name, "err", err)
			_ = s.flush()
			s.failed = errCut
		}
		return err
	}
	s.out.B = dots.AppendEnd(s.out.B)
	return nil
}
