package pop3d

import "doublet/wire/pop3"

// rset removes the marks of DELE.
//
// Implements: RFC 1939 §5 RSET
func (s *session) rset(*pop3.Command) {
	for i := range s.drop.marks {
		s.drop.marks[i] &^= markDeleted
	}
	s.ok("Nothing is marked for removal")
}
