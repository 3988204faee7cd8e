package imapd

import "doublet/wire/imap"

// replace replaces a message by another in one change.
//
// Implements: RFC 8508 §3.2 REPLACE
// Implements: RFC 8508 §3.3 UID REPLACE
func (s *session) replace(cmd *imap.Command) {
	a := cmd.Args.(*imap.Replace)
	if err := s.view.MayChange(); err != nil {
		s.refuseMessage(cmd, func() { s.refuse(cmd, err) })
		return
	}
	if !cmd.UID && a.Message > s.view.Exists() {
		s.refuseMessage(cmd, func() { s.badly(cmd, "There is no message with that number") })
		return
	}
	uid, err := s.view.UID(s.c.Context(), a.Message, cmd.UID)
	file := s.file
	if err == nil {
		file, _, err = s.folder(a.Mailbox)
	}
	if err != nil {
		s.refuseMessage(cmd, func() { s.refuse(cmd, err) })
		return
	}
	list, ok := s.readMessages(cmd, &a.Append)
	defer list.release(s)
	if !ok {
		return
	}
	validity, got, err := s.view.Replace(s.c.Context(), uid, file, a.Mailbox, &list.m[0])
	if s.appendThere(cmd, &a.Append, &list, err) {
		return
	}
	if err != nil {
		s.refuse(cmd, err)
		return
	}
	// APPENDUID precedes the expunge, so that the client can match the two messages.
	b := imap.AppendResultHead(s.out.B, "*", imap.OK)
	s.out.B = imap.AppendResultTail(imap.AppendCodeAppendUID(b, validity, got), "Replacement stored")
	s.doneHighest(cmd, "REPLACE completed")
}
