package pop3d

import "doublet/wire/pop3"

// utf8 turns on UTF-8 in headers and names. Messages are sent unchanged in any case: a client that has not sent UTF8
// gets the same bytes, as from other servers (doc/deviations.md).
//
// Implements: RFC 6856 §2 UTF8
func (s *session) utf8(*pop3.Command) { s.ok("UTF-8 is welcome") }
