package imapd

import (
	"doublet/mailbox"
	"doublet/wire/imap"
)

// expunge removes the messages marked \Deleted; UID EXPUNGE removes only those in its set.
//
// Implements: RFC 9051 §6.4.3 EXPUNGE
// Implements: RFC 9051 §6.4.9 UID EXPUNGE
// Implements: RFC 7162 §3.2.7 HIGHESTMODSEQ in the answer to EXPUNGE
func (s *session) expunge(cmd *imap.Command) {
	if err := s.view.MayChange(); err != nil {
		s.refuse(cmd, err)
		return
	}
	var uids mailbox.Set
	if cmd.UID {
		set, _, ok := s.target(cmd, &cmd.Args.(*imap.Expunge).Target)
		if !ok {
			return
		}
		if len(set) == 0 {
			s.done(cmd, "", "Nothing to expunge")
			return
		}
		uids = set
	}
	if err := s.view.Expunge(s.c.Context(), uids); err != nil {
		s.refuse(cmd, err)
		return
	}
	s.doneHighest(cmd, "EXPUNGE completed")
}

// doneHighest answers OK, with HIGHESTMODSEQ for a client that uses CONDSTORE or QRESYNC.
func (s *session) doneHighest(cmd *imap.Command, text string) {
	if s.poll(true); s.over {
		return
	}
	if !s.condstore || s.view == nil {
		s.out.B = imap.AppendResult(s.out.B, cmd.Tag, imap.OK, "", text)
		return
	}
	upTo, _ := s.reached()
	b := imap.AppendResultHead(s.out.B, cmd.Tag, imap.OK)
	s.out.B = imap.AppendResultTail(imap.AppendCodeNumber(b, "HIGHESTMODSEQ", upTo), text)
}
