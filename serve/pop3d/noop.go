package pop3d

import "doublet/wire/pop3"

// noop does nothing.
//
// Implements: RFC 1939 §5 NOOP
func (s *session) noop(*pop3.Command) { s.ok("") }
