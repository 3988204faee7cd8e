package imapd

import "doublet/wire/imap"

// startTLS starts TLS. It drops commands that the client sent in plaintext after STARTTLS.
//
// Implements: RFC 9051 §6.2.1 STARTTLS
func (s *session) startTLS(cmd *imap.Command) {
	switch {
	case s.c.Secure():
		s.badly(cmd, "TLS is on already")
		return
	case !s.c.CanStartTLS():
		s.no(cmd, "UNAVAILABLE", "TLS is not offered here")
		return
	}
	s.done(cmd, "", "Begin TLS negotiation now")
	if s.flush() != nil {
		return
	}
	s.release()
	s.in.Reset((*input)(s))
	if err := s.c.StartTLS(); err != nil {
		s.failed = err
	}
}
