package imapd

import (
	"strings"

	"doublet/mailbox"
	"doublet/wire/imap"
)

// create makes a mailbox, and missing mailboxes above it.
//
// Implements: RFC 9051 §6.3.4 CREATE
// Implements: RFC 6154 §3 CREATE-SPECIAL-USE
// Implements: RFC 8474 §4.2 MAILBOXID in the answer to CREATE
func (s *session) create(cmd *imap.Command) {
	a := cmd.Args.(*imap.Create)
	use, ok := specialUse(a.Use)
	if !ok {
		s.no(cmd, "USEATTR", "Special use is not supported")
		return
	}
	if err := imap.ValidMailbox(a.Mailbox); err != nil {
		s.no(cmd, "CANNOT", "Mailbox name is not allowed")
		return
	}
	file, err := s.at(a.Mailbox)
	if err == nil {
		err = s.mayReserved(file, a.Mailbox)
	}
	var f mailbox.Folder
	if err == nil {
		f, err = file.Create(s.c.Context(), a.Mailbox, use)
	}
	if err != nil {
		s.refuse(cmd, err)
		return
	}
	if cmd.Given != "" {
		s.tellName(&f, cmd.Given)
	}
	s.done(cmd, "MAILBOXID ("+mailbox.FolderID(&f)+")", "CREATE completed")
}

// specialUse returns the requested special use without its backslash, or "". \All, \Flagged and \Important are views,
// which this server does not have.
func specialUse(list []string) (use string, ok bool) {
	switch len(list) {
	case 0:
		return "", true
	case 1:
		for _, u := range mailbox.Uses[1:] { // all but the INBOX
			if strings.EqualFold(list[0], `\`+u) {
				return u, true
			}
		}
	}
	return "", false
}
