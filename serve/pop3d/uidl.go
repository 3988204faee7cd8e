package pop3d

import (
	"errors"
	"strconv"

	"doublet/mailbox"
	"doublet/wire/pop3"
)

// uidl answers with the unique ID of one message, or of each: its EMAILID, which never changes.
//
// Implements: RFC 1939 §7 UIDL
func (s *session) uidl(cmd *pop3.Command) {
	d := &s.drop
	set, first := d.all(), 0
	if cmd.Number != 0 {
		i, ok := s.number(cmd.Number)
		if !ok {
			return
		}
		set, first = mailbox.Set{{Start: d.uids[i], Stop: d.uids[i]}}, i
		s.out.B = append(s.out.B, "+OK "...)
	} else {
		s.ok("Unique ids follow")
	}
	before, told, i := len(s.out.B)-len("+OK "), 0, first
	err := d.view.Fetch(s.c.Context(), set, true, mailbox.FetchOptions{}, func(m *mailbox.Message) (bool, error) {
		for i < len(d.uids) && d.uids[i] < m.UID {
			i++
		}
		if i < len(d.uids) && d.uids[i] == m.UID && d.marks[i]&markDeleted == 0 {
			b := strconv.AppendInt(s.out.B, int64(i+1), 10)
			b = append(append(b, ' '), m.EmailID()...)
			s.out.B = append(b, "\r\n"...)
			told++
		}
		return cmd.Number == 0 && len(s.out.B) > sendAt, nil
	}, func() error {
		if cmd.Number == 0 && len(s.out.B) > sendAt {
			return s.flush()
		}
		return nil
	})
	switch {
	case cmd.Number != 0 && (err != nil || told == 0):
		s.out.B = s.out.B[:before]
		if err != nil {
			s.trouble("command failed", err)
			return
		}
		s.gone()
	case err != nil:
		// A listing that has started can only be aborted.
		s.srv.env.Log.Error("pop3d: listing interrupted", "account", s.account.Name, "err", err)
		s.failed = errors.Join(s.failed, err)
	case cmd.Number == 0:
		s.out.B = append(s.out.B, ".\r\n"...)
	}
}

// gone answers a command for a message that another session has removed since sign-in.
func (s *session) gone() { s.err("", "The message was removed by another session") }
