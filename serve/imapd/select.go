package imapd

import (
	"doublet/mailbox"
	"doublet/note"
	"doublet/wire/imap"
	"math"
	"slices"
)

// mayResync answers BAD and returns false if the session cannot use QRESYNC like this.
func (s *session) mayResync(cmd *imap.Command, q *imap.QResync) bool {
	if !s.qresync {
		s.badly(cmd, "QRESYNC is not enabled")
		return false
	}
	if s.uidOnly && len(q.SeqMatch.Seqs) > 0 {
		s.uidRequired(cmd)
		return false
	}
	return true
}

// selectMailbox executes SELECT and EXAMINE. A failure leaves no mailbox selected.
//
// Implements: RFC 9051 §6.3.2 SELECT
// Implements: RFC 9051 §6.3.3 EXAMINE
// Implements: RFC 7162 §3.1.8 SELECT with CONDSTORE
// Implements: RFC 8474 §4.2 MAILBOXID
func (s *session) selectMailbox(cmd *imap.Command) {
	a := cmd.Args.(*imap.Select)
	if a.QResync != nil && !s.mayResync(cmd, a.QResync) {
		return
	}
	s.deselect()
	var view *mailbox.View
	var folder mailbox.Folder
	file, err := s.at(a.Mailbox)
	if err == nil {
		view, folder, err = file.Select(s.c.Context(), a.Mailbox, cmd.Name == "EXAMINE", !s.rev2)
	}
	if err != nil {
		s.refuse(cmd, err)
		return
	}
	s.condstore = s.condstore || a.CondStore
	s.describe(view, &folder, cmd.Given)
	if !s.rev2 && !s.uidOnly && folder.Unseen > 0 {
		if err := s.tellUnseen(view); err != nil {
			s.refuse(cmd, err)
			return
		}
	}
	s.view = view
	if q := a.QResync; q != nil && q.UIDValidity == folder.UIDValidity {
		if err := s.resync(view, q); err != nil {
			s.forget()
			s.refuse(cmd, err)
			return
		}
	}
	if err := s.watch(view.File()); err != nil {
		s.forget()
		s.refuse(cmd, err)
		return
	}
	// No Poll: the responses above are the current state.
	s.out.B = imap.AppendResult(s.out.B, cmd.Tag, imap.OK, accessCode(view), cmd.Name+" completed")
}

func accessCode(v *mailbox.View) string {
	if v.MayChange() != nil {
		return "READ-ONLY"
	}
	return "READ-WRITE"
}

// tellUnseen prints the first message that is not \Seen, for clients of IMAP4rev1.
//
// Implements: RFC 3501 §6.3.1 UNSEEN
func (s *session) tellUnseen(v *mailbox.View) error {
	first, err := v.FirstUnseen(s.c.Context())
	if err == nil && first > 0 {
		s.number("UNSEEN", uint64(first), "First that is not seen")
	}
	return err
}

// deselect closes the selected mailbox and notifies the client.
//
// Implements: RFC 9051 §7.1 CLOSED
func (s *session) deselect() {
	if s.view != nil {
		s.untagged("CLOSED", "Previous mailbox closed")
		s.forget()
	}
}

func (s *session) forget() {
	s.dropContexts(func(*searchContext) bool { return true })
	s.view, s.saved, s.gone, s.heard, s.listed = nil, nil, nil, heard{}, nil
}

// Flags in FLAGS. The keywords are registered ones that clients look for; others may be set too.
const (
	systemFlags = `\Answered \Flagged \Deleted \Seen \Draft`
	keywords    = ` $Forwarded $MDNSent $Junk $NotJunk $Phishing`
)

// describe prints the responses of SELECT. given is the mailbox name as the client wrote it, if that differs.
//
// Implements: RFC 9051 §6.3.9.7 OLDNAME for a name that is not in its normal form
func (s *session) describe(v *mailbox.View, f *mailbox.Folder, given string) {
	s.rights, s.listed = f.Rights, slices.DeleteFunc(slices.Clone(f.Keywords), listedAlways)
	b := s.appendFlagLists(s.out.B, v)
	b = imap.AppendNumber(b, v.Exists(), "EXISTS")
	if !s.rev2 {
		b = imap.AppendNumber(b, v.Recent().Count(), "RECENT")
	}
	s.out.B = b
	s.number("UIDVALIDITY", uint64(f.UIDValidity), "UIDs valid")
	s.number("UIDNEXT", uint64(v.UIDNext()), "Predicted next UID")
	s.number("HIGHESTMODSEQ", max(v.ModSeq(), 1), "Highest")
	b = imap.AppendResultHead(s.out.B, "*", imap.OK)
	s.out.B = imap.AppendResultTail(imap.AppendCodeMailboxID(b, mailbox.FolderID(f)), "Ok")
	s.tellURLMechanisms(v)
	if s.rev2 {
		s.tellName(f, given)
	}
}

// tellName prints an unrequested LIST response with the client's name for a mailbox.
func (s *session) tellName(f *mailbox.Folder, given string) {
	d := s.listData(nil, f, 0, false)
	d.OldName = given
	s.out.B = imap.AppendList(s.out.B, "LIST", &d, s.in.UTF8)
}

// appendPermanent prints the flags that this person may change in the mailbox.
func (s *session) appendPermanent(b []byte, v *mailbox.View) []byte {
	start := len(b)
	if v.MayChange() != nil {
		return b
	}
	if s.rights&(note.Write|note.WriteOwn) != 0 {
		b = append(b, `\Answered \Flagged \Draft `...)
	}
	if s.rights&(note.DeleteMark|note.ExpungeOwn) != 0 {
		b = append(b, `\Deleted `...)
	}
	if s.rights&note.KeepSeen != 0 {
		b = append(b, `\Seen `...)
	}
	if s.rights&(note.Write|note.WriteOwn) != 0 {
		b = append(b, keywords[1:]...)
		for _, k := range s.listed {
			b = append(append(b, ' '), k...)
		}
		b = append(b, ` \* `...)
	}
	if len(b) > start {
		b = b[:len(b)-1]
	}
	return b
}

// resync prints the changes since a MODSEQ at which a client knew the mailbox: first the expunges, then the flags. It
// ignores the sequence match data, because the server remembers expunges.
//
// Implements: RFC 7162 §3.2.5 QRESYNC parameter of SELECT
// Implements: RFC 7162 §3.2.5.2 known UIDs and message sequence match data
func (s *session) resync(v *mailbox.View, q *imap.QResync) error {
	known := setOf(q.KnownUIDs)
	if len(known) == 0 {
		known = mailbox.Set{{Start: 1, Stop: math.MaxUint32}}
	}
	gone := func(gone mailbox.Set) { s.out.B = imap.AppendVanished(s.out.B, wireSet(gone), true) }
	return v.Resync(s.c.Context(), q.ModSeq, known, gone, func(m *mailbox.Message) (bool, error) {
		s.appendFlagsFetch(m, true)
		return len(s.out.B) > sendAt, nil
	}, s.flush)
}
