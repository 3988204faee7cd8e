package pop3d

import (
	"errors"
	"strconv"

	"doublet/mailbox"
	"doublet/wire/pop3"
)

// next returns the index, from i on, of the first message whose UID is not below uid.
func (d *maildrop) next(i int, uid uint32) int {
	for i < len(d.uids) && d.uids[i] < uid {
		i++
	}
	return i
}

// lists reports whether the message i has this UID and is not marked for deletion.
func (d *maildrop) lists(i int, uid uint32) bool {
	return i < len(d.uids) && d.uids[i] == uid && d.marks[i]&markDeleted == 0
}

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
		if i = d.next(i, m.UID); d.lists(i, m.UID) {
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
	case cmd.Number != 0 && err != nil:
		s.out.B = s.out.B[:before]
		s.trouble("command failed", err)
	case cmd.Number != 0 && told == 0:
		s.out.B = s.out.B[:before]
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
