package imapd

import "doublet/wire/imap"

// delete removes a mailbox with what is in it. When it is the selected one, none is selected then.
//
// Implements: RFC 9051 §6.3.5 DELETE
func (s *session) delete(cmd *imap.Command) {
	name := cmd.Args.(*imap.Mailbox).Name
	selected := false
	if s.view != nil {
		f, err := s.file.Folder(s.c.Context(), name)
		selected = err == nil && f.ID == s.view.FolderID()
	}
	if err := s.file.Delete(s.c.Context(), name); err != nil {
		s.refuse(cmd, err)
		return
	}
	if selected {
		s.deselect()
	}
	s.done(cmd, "", "DELETE completed")
}
