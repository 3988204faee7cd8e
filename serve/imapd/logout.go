package imapd

import "doublet/wire/imap"

// logout ends the session.
//
// Implements: RFC 9051 §6.1.3 LOGOUT
func (s *session) logout(cmd *imap.Command) {
	s.bye("", "Logging out")
	s.out.B = imap.AppendResult(s.out.B, cmd.Tag, imap.OK, "", "LOGOUT completed")
}
