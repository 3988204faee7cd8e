package imapd

import "doublet/wire/imap"

// subscribe executes SUBSCRIBE and UNSUBSCRIBE. The mailbox must exist; the subscription persists after its deletion.
//
// Implements: RFC 9051 §6.3.7 SUBSCRIBE
// Implements: RFC 9051 §6.3.8 UNSUBSCRIBE
func (s *session) subscribe(cmd *imap.Command) {
	name := cmd.Args.(*imap.Mailbox).Name
	file, err := s.at(name)
	if err == nil {
		err = file.Subscribe(s.c.Context(), name, cmd.Name == "SUBSCRIBE")
	}
	if err != nil {
		s.refuse(cmd, err)
		return
	}
	s.done(cmd, "", cmd.Name+" completed")
}
