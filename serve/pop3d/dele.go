package pop3d

import "doublet/wire/pop3"

// dele marks a message for removal by QUIT. Other sessions do not see the mark.
//
// Implements: RFC 1939 §5 DELE
func (s *session) dele(cmd *pop3.Command) {
	i, ok := s.number(cmd.Number)
	if !ok {
		return
	}
	if s.drop.view.MayChange() != nil {
		s.err(pop3.CodeSysPerm, "The mailbox may only be read")
		return
	}
	s.drop.marks[i] |= markDeleted
	s.ok("Marked for removal")
}
