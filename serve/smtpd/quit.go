package smtpd

// cmdQUIT ends the session.
//
// Implements: RFC 5321 §4.1.1.10 QUIT
func (s *session) cmdQUIT(arg []byte) {
	if len(arg) > 0 {
		s.refuse(errArgs)
		return
	}
	s.say(replyBye)
	s.over = true
}
