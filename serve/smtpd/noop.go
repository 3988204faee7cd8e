package smtpd

// cmdNOOP does nothing. An argument is allowed and ignored.
//
// Implements: RFC 5321 §4.1.1.9 NOOP
func (s *session) cmdNOOP() { s.say(replyOK) }
