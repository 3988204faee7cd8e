package imapd

import "doublet/wire/imap"

// delete removes a mailbox with its messages. If the mailbox was selected, no mailbox is selected afterwards.
//
// Implements: RFC 9051 §6.3.5 DELETE
func (s *session) delete(cmd *imap.Command) {
	name := cmd.Args.(*imap.Mailbox).Name
	file, f, err := s.folder(name)
	if err == nil {
		err = file.Delete(s.c.Context(), name)
	}
	if err != nil {
		s.refuse(cmd, err)
		return
	}
	selected := s.view != nil && f.ID == s.view.FolderID() && file.Database() == s.view.File().Database()
	if selected {
		s.deselect()
	}
	s.done(cmd, "", "DELETE completed")
}
