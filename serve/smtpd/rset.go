package smtpd

// cmdRSET ends the transaction.
//
// Implements: RFC 5321 §4.1.1.5 RSET
func (s *session) cmdRSET(arg []byte) {
	if len(arg) > 0 {
		s.refuse(errArgs)
		return
	}
	s.reset()
	s.say(replyOK)
}
