package smtpd

// cmdEXPN rejects EXPN, because it would reveal the members of mailing lists.
//
// Implements: RFC 5321 §4.1.1.7 EXPN answered with 502
func (s *session) cmdEXPN() { s.refuse(errNotHere) }
