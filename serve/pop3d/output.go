package pop3d

// sendAt is the number of bytes at which output is sent before the end of a response.
const sendAt = 48 << 10

// flush sends the output. An error is stored and ends the session.
func (s *session) flush() error {
	if s.failed == nil && len(s.out.B) > 0 {
		s.failed = s.home.Waits(s.c.Context(), func() error {
			_, err := s.c.Write(s.out.B)
			return err
		})
	}
	s.out.B = s.out.B[:0]
	return s.failed
}
