package pop3d

import "doublet/wire/pop3"

// stls starts TLS. It drops commands that the client sent in plaintext after STLS, and all state from before.
//
// Implements: RFC 2595 §4 STLS
func (s *session) stls(*pop3.Command) {
	switch {
	case s.c.Secure():
		s.badly("TLS is on already")
		return
	case !s.c.CanStartTLS():
		s.err(pop3.CodeSysPerm, "TLS is not offered here")
		return
	}
	s.ok("Begin TLS negotiation now")
	if s.flush() != nil {
		return
	}
	s.user = ""
	s.out.Release()
	if err := s.c.StartTLS(); err != nil {
		s.failed = err
	}
}
