package smtpd

const replyHelp = "214-2.0.0 EHLO HELO LHLO MAIL RCPT DATA BDAT RSET NOOP QUIT VRFY HELP AUTH STARTTLS\r\n" +
	"214 2.0.0 See RFC 5321\r\n"

// cmdHELP lists the commands.
//
// Implements: RFC 5321 §4.1.1.8 HELP
func (s *session) cmdHELP() { s.say(replyHelp) }
