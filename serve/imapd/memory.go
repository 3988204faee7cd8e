package imapd

import "doublet/serve/listen"

// memory is what the session's client may have of the memory for messages.
func (s *session) memory() listen.Share { return s.c.Share(s.srv.cfg.Memory) }

// freeRoom is the number of bytes that a session's output and scratch may have without a reservation.
const freeRoom = 512 << 10

// room reserves the memory that the output and the scratch have, and more bytes that they are about to get; listen.ErrMemory: there
// are not as many. It is held until the command ends, as their memory is.
func (s *session) room(more int64) error {
	n := int64(cap(s.out.B)) + int64(cap(s.scratch.B)) + more
	if n <= freeRoom || n <= s.held {
		return nil
	}
	if !s.memory().Take(n - s.held) {
		return listen.ErrMemory
	}
	s.held = n
	return nil
}

// giveRoom gives back what room has reserved.
func (s *session) giveRoom() {
	if s.held > 0 {
		s.memory().Give(s.held)
		s.held = 0
	}
}
