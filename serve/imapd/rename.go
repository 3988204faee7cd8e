package imapd

import (
	"doublet/mailbox"
	"doublet/wire/imap"
)

// rename renames a mailbox and those below it. A session that has it selected keeps it.
//
// Implements: RFC 9051 §6.3.6 RENAME
func (s *session) rename(cmd *imap.Command) {
	a := cmd.Args.(*imap.Rename)
	if err := imap.ValidMailbox(a.To); err != nil {
		s.no(cmd, "CANNOT", "Mailbox name is not allowed")
		return
	}
	from, err := s.at(a.From)
	if err == nil {
		var to *mailbox.File
		if to, err = s.at(a.To); err == nil {
			err = s.mayReserved(to, a.To)
		}
		if err == nil && to.Database() != from.Database() {
			s.no(cmd, "CANNOT", "A mailbox cannot move into the mail of somebody else")
			return
		}
	}
	if err == nil {
		err = from.Rename(s.c.Context(), a.From, a.To)
	}
	if err != nil {
		s.refuse(cmd, err)
		return
	}
	s.done(cmd, "", "RENAME completed")
}
