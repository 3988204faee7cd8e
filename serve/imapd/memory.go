package imapd

import "doublet/serve/listen"

// memory returns the budget for messages in flight.
func (s *session) memory() listen.Share { return s.c.Share(s.srv.cfg.Memory) }

// freeRoom is the size of output and scratch in bytes that needs no reservation.
const freeRoom = 512 << 10

// room reserves the memory of the output and the scratch, and n more bytes that they are about to take. It returns
// listen.ErrMemory where the budget is spent. The reservation ends with the command.
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

// giveRoom releases the reservation of room.
func (s *session) giveRoom() {
	if s.held > 0 {
		s.memory().Give(s.held)
		s.held = 0
	}
}
