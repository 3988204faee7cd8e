package imapd

import "doublet/wire/imap"

// identity is what this server says of itself: nothing that would help to choose an attack.
var identity = []imap.IDParam{{Name: "name", Value: "Doublet"}}

// id tells what the server is. What the client says of itself is not kept.
//
// Implements: RFC 2971 ID
func (s *session) id(cmd *imap.Command) {
	s.out.B = imap.AppendID(s.out.B, identity)
	s.done(cmd, "", "ID completed")
}
