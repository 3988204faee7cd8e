package pop3d

import "doublet/wire/pop3"

// quit removes what is marked, in one commit up to 5,000 messages, and ends the session. +OK follows
// the commit, and the end of the lock; after -ERR what could not be removed is there again.
//
// Implements: RFC 1939 §6 QUIT, the UPDATE state
func (s *session) quit(*pop3.Command) {
	s.over = true
	if s.file == nil {
		s.ok("Goodbye")
		return
	}
	remove := s.drop.marked(markDeleted)
	var err error
	if len(remove) > 0 {
		err = s.drop.view.Settle(s.c.Context(), nil, remove)
	}
	// Whoever has the answer may sign in again at once.
	s.closeDrop()
	if err != nil {
		s.trouble("messages are not removed", err)
		return
	}
	s.srv.stats.removed.Add(uint64(len(remove)))
	s.ok("Goodbye")
}
