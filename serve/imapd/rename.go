package imapd

import "doublet/wire/imap"

// rename gives a mailbox, and those below it, another name. A session that has it selected keeps it.
//
// Implements: RFC 9051 §6.3.6 RENAME
func (s *session) rename(cmd *imap.Command) {
	a := cmd.Args.(*imap.Rename)
	if err := imap.ValidMailbox(a.To); err != nil {
		s.no(cmd, "CANNOT", "Mailbox name is not allowed")
		return
	}
	if err := s.file.Rename(s.c.Context(), a.From, a.To); err != nil {
		s.refuse(cmd, err)
		return
	}
	s.done(cmd, "", "RENAME completed")
}
