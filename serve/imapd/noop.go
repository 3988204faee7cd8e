package imapd

import "doublet/wire/imap"

// noop does nothing but give the server an occasion to tell what changed; CHECK is the same here,
// where everything acknowledged is durable.
//
// Implements: RFC 9051 §6.1.2 NOOP
// Implements: RFC 3501 §6.4.1 CHECK
func (s *session) noop(cmd *imap.Command) { s.done(cmd, "", cmd.Name+" completed") }
