package imapd

import (
	"slices"

	"doublet/serve/listen"
)

// memory returns the budget for messages in flight.
func (s *session) memory() listen.Share { return s.c.Share(s.srv.cfg.Memory) }

// freeRoom is the size in bytes of output and scratch that needs no reservation.
const freeRoom = 512 << 10

// room reserves memory for the output and the scratch, and for more bytes that they will take. It returns
// listen.ErrMemory if the budget is used up. The reservation ends with the command.
func (s *session) room(more int64) error {
	n := s.out.size() + int64(cap(s.scratch.B)) + more
	if n <= freeRoom || n <= s.held {
		return nil
	}
	if !s.memory().Take(n - s.held) {
		return listen.ErrMemory
	}
	s.held = n
	return nil
}

// extend makes room for n more bytes in the output, before they are appended: it reserves them like room, and begins a
// new page if the current one is full. Short text needs no call.
func (s *session) extend(n int) error {
	if len(s.out.B)+n <= max(pageSize, cap(s.out.B)) {
		return nil
	}
	if err := s.room(int64(max(n, pageSize))); err != nil {
		return err
	}
	s.out.turn(n)
	return nil
}

// scratchRoom reserves memory for n bytes of scratch, and for more bytes, and empties the scratch.
func (s *session) scratchRoom(n, more int64) error {
	s.scratch.Take()
	if grow := n - int64(cap(s.scratch.B)); grow > 0 {
		more += grow
	}
	if err := s.room(more); err != nil {
		return err
	}
	s.scratch.B = slices.Grow(s.scratch.B[:0], int(n))
	return nil
}

// giveRoom frees the reservation of room.
func (s *session) giveRoom() {
	if s.held > 0 {
		s.memory().Give(s.held)
		s.held = 0
	}
}
