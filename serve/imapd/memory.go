package imapd

import "doublet/serve/listen"

// memory returns the budget for messages in flight.
func (s *session) memory() listen.Share { return s.c.Share(s.srv.cfg.Memory) }

// freeRoom is the size in bytes of output and scratch that needs no reservation.
const freeRoom = 512 << 10

// room reserves memory for the output and the scratch, and for more bytes that they will take. It returns
// listen.ErrMemory if the budget is used up. The reservation ends with the command.
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

// giveRoom frees the reservation of room.
func (s *session) giveRoom() {
	if s.held > 0 {
		s.memory().Give(s.held)
		s.held = 0
	}
}
