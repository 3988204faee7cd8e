package pop3d

import "doublet/wire/pop3"

// top sends the header of a message and the first lines of its body. The message does not count as read.
//
// Implements: RFC 1939 §7 TOP
func (s *session) top(cmd *pop3.Command) {
	i, ok := s.number(cmd.Number)
	if !ok {
		return
	}
	body, _, ok := s.body(i)
	if !ok {
		return
	}
	s.ok("Top of message follows")
	_ = s.stream(body, &pop3.Top{Lines: cmd.Lines})
}
