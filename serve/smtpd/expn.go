package smtpd

// cmdEXPN is refused: members of a list are nobody's business here.
//
// Implements: RFC 5321 §4.1.1.7 EXPN answered with 502
func (s *session) cmdEXPN() { s.refuse(errNotHere) }
