package pop3d

// sendAt is how much output is collected before it is sent in the middle of an answer.
const sendAt = 48 << 10

// flush sends the output. What fails is remembered: the session ends.
func (s *session) flush() error {
	if s.failed == nil && len(s.out.B) > 0 {
		_, s.failed = s.c.Write(s.out.B)
	}
	s.out.B = s.out.B[:0]
	return s.failed
}
