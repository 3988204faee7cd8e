package imapd

import "doublet/wire/imap"

// noop sends changes. CHECK does the same, because all acknowledged changes are already durable.
//
// Implements: RFC 9051 §6.1.2 NOOP
// Implements: RFC 3501 §6.4.1 CHECK
func (s *session) noop(cmd *imap.Command) { s.done(cmd, "", cmd.Name+" completed") }
