package smtpd

import "doublet/wire/smtp"

var errVRFY = smtp.NewReply(501, 5, 5, 4, "Syntax: VRFY address")

// cmdVRFY accepts any address, so that it does not reveal which users exist.
//
// Implements: RFC 5321 §3.5.3 VRFY answered with 252
func (s *session) cmdVRFY(arg []byte) {
	if len(arg) == 0 {
		s.refuse(errVRFY)
		return
	}
	s.say(replyVRFY)
}
