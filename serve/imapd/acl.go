package imapd

import (
	"errors"
	"strings"

	"doublet/mailbox"
	"doublet/note"
	"doublet/wire/imap"
)

// anyone is the identifier of all people whom no entry names (RFC 4314 section 2).
const anyone = "anyone"

// allRights has the letters of the rights that can be granted separately.
const allRights = "lrswipkxtea"

// ErrIdentifier reports a name that belongs to no person or group.
var ErrIdentifier = errors.New("imapd: no such person or group")

// identify returns the ID of an identifier. negative reports the form for negative rights.
func (s *session) identify(name string) (id note.UNID, negative bool, err error) {
	if rest, ok := strings.CutPrefix(name, "-"); ok {
		name, negative = rest, true
	}
	if strings.EqualFold(name, anyone) {
		return mailbox.Anyone, negative, nil
	}
	id, err = s.srv.backend.Identify(s.c.Context(), name)
	return id, negative, err
}

// withOld adds the two letters of RFC 2086 for older clients.
//
// Implements: RFC 4314 §2.1.1 Obsolete rights c and d
func withOld(r note.Rights) string {
	text := (r & (note.Administer<<1 - 1)).Letters()
	if r&note.Create != 0 {
		text += "c"
	}
	if r&(note.DeleteMark|note.Expunge) != 0 {
		text += "d"
	}
	return text
}

// setACL executes SETACL and DELETEACL.
//
// Implements: RFC 4314 §3.1 SETACL
// Implements: RFC 4314 §3.2 DELETEACL
func (s *session) setACL(cmd *imap.Command) {
	a := cmd.Args.(*imap.Access)
	rights, err := note.ParseLetters(a.Rights)
	if err != nil {
		s.badly(cmd, "Unknown right")
		return
	}
	f, _, err := s.folder(a.Mailbox)
	if err == nil {
		err = s.mayAdminister(f, a.Mailbox)
	}
	if err != nil {
		s.refuse(cmd, err)
		return
	}
	id, negative, err := s.identify(a.Identifier)
	if negative && err == nil {
		// Negative rights are not stored: rights that an entry does not grant are always denied.
		s.no(cmd, "CANNOT", "Negative rights are not offered")
		return
	}
	if err == nil {
		err = f.SetAccess(s.c.Context(), a.Mailbox, id, func(have note.Rights) note.Rights {
			switch a.Mode {
			case '+':
				return have | rights
			case '-':
				return have &^ rights
			}
			return rights
		}, cmd.Name == "DELETEACL")
	}
	if err != nil {
		s.refuse(cmd, err)
		return
	}
	s.done(cmd, "", cmd.Name+" completed")
}

// mayAdminister checks the right to administer, before an identifier is looked up.
func (s *session) mayAdminister(f *mailbox.File, name string) error {
	_, _, err := f.Access(s.c.Context(), name)
	return err
}

// getACL lists the entries of a mailbox's access list.
//
// Implements: RFC 4314 §3.3 GETACL
func (s *session) getACL(cmd *imap.Command) {
	a := cmd.Args.(*imap.Access)
	f, _, err := s.folder(a.Mailbox)
	if err != nil {
		s.refuse(cmd, err)
		return
	}
	list, _, err := f.Access(s.c.Context(), a.Mailbox)
	if err != nil {
		s.refuse(cmd, err)
		return
	}
	var entries []string
	for _, g := range list {
		name := anyone
		if g.ID != mailbox.Anyone {
			if name, err = s.srv.backend.Identifier(s.c.Context(), g.ID); err != nil {
				continue // deleted from the directory
			}
		}
		entries = append(entries, name, withOld(g.Rights))
	}
	s.out.B = imap.AppendACL(s.out.B, a.Mailbox, entries, s.in.UTF8)
	s.done(cmd, "", "GETACL completed")
}

// listRights lists the rights that can be granted to an identifier, each separately. The owner of a mail file always
// has all rights.
//
// Implements: RFC 4314 §3.4 LISTRIGHTS
func (s *session) listRights(cmd *imap.Command) {
	a := cmd.Args.(*imap.Access)
	f, _, err := s.folder(a.Mailbox)
	if err != nil {
		s.refuse(cmd, err)
		return
	}
	_, owner, err := f.Access(s.c.Context(), a.Mailbox)
	var id note.UNID
	if err == nil {
		id, _, err = s.identify(a.Identifier)
	}
	if err != nil {
		s.refuse(cmd, err)
		return
	}
	required, optional := "", strings.Split(allRights, "")
	if id == owner && id != mailbox.Anyone {
		required, optional = "a", strings.Split(strings.TrimSuffix(allRights, "a"), "")
	}
	s.out.B = imap.AppendListRights(s.out.B, a.Mailbox, a.Identifier, required, optional, s.in.UTF8)
	s.done(cmd, "", "LISTRIGHTS completed")
}

// myRights answers with the rights of the person on a mailbox.
//
// Implements: RFC 4314 §3.5 MYRIGHTS
func (s *session) myRights(cmd *imap.Command) {
	a := cmd.Args.(*imap.Access)
	_, f, err := s.folder(a.Mailbox)
	if err != nil {
		s.refuse(cmd, err)
		return
	}
	s.out.B = imap.AppendMyRights(s.out.B, a.Mailbox, withOld(f.Rights), s.in.UTF8)
	s.done(cmd, "", "MYRIGHTS completed")
}
