package imapd

import "doublet/wire/imap"

// identity holds the fields that this server sends. The version is omitted, because it would help attackers.
var identity = []imap.IDParam{{Name: "name", Value: "Doublet"}}

// id answers with the identity of the server. It ignores the fields of the client.
//
// Implements: RFC 2971 ID
func (s *session) id(cmd *imap.Command) {
	s.out.B = imap.AppendID(s.out.B, identity)
	s.done(cmd, "", "ID completed")
}
