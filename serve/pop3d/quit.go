package pop3d

import (
	"errors"

	"doublet/store"
	"doublet/wire/pop3"
)

// quit removes the marked messages, up to 5,000 in one commit, and ends the session. It answers +OK after the commit
// and after it has released the lock. After -ERR the messages that could not be removed are still there.
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
	if errors.Is(err, store.ErrNotHome) && s.home.Moved(s.c.Context()) {
		s.again = []byte("QUIT\r\n")
		return
	}
	// The client may sign in again as soon as it has the response.
	s.closeDrop()
	if err != nil {
		s.trouble("messages are not removed", err)
		return
	}
	s.srv.stats.removed.Add(uint64(len(remove)))
	s.ok("Goodbye")
}
