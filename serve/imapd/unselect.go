package imapd

import (
	"doublet/wire/imap"
)

// closeMailbox removes the messages marked \Deleted without EXPUNGE responses, and closes the mailbox.
//
// Implements: RFC 9051 §6.4.1 CLOSE
func (s *session) closeMailbox(cmd *imap.Command) {
	if s.view.MayChange() == nil {
		if err := s.view.Expunge(s.c.Context(), nil); err != nil {
			// The mailbox stays selected, so that the client can see the remaining messages.
			s.refuse(cmd, err)
			return
		}
	}
	s.forget()
	s.done(cmd, "", "CLOSE completed")
}

// unselect closes the mailbox without removing messages.
//
// Implements: RFC 9051 §6.4.2 UNSELECT
func (s *session) unselect(cmd *imap.Command) {
	s.forget()
	s.done(cmd, "", "UNSELECT completed")
}
