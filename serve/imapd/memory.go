package imapd

import "doublet/serve/listen"

// memory is what the session's client may have of the memory for messages.
func (s *session) memory() listen.Share { return s.c.Share(s.srv.cfg.Memory) }
