package pop3d

import "doublet/wire/pop3"

// utf8 takes UTF-8 in headers and names. Messages are sent as they are in any case: who has not said UTF8
// gets the same bytes, as from other servers (doc/deviations.md).
//
// Implements: RFC 6856 §2 UTF8
func (s *session) utf8(*pop3.Command) { s.ok("UTF-8 is welcome") }
