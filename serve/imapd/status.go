package imapd

import (
	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
	"doublet/wire/imap"
)

// status prints counts of a mailbox without selecting it. They come from the folder's counters, whatever its size.
//
// Implements: RFC 9051 §6.3.11 STATUS
// Implements: RFC 8438 STATUS=SIZE
// Implements: RFC 7162 §3.1.7 HIGHESTMODSEQ
// Implements: RFC 7889 APPENDLIMIT
func (s *session) status(cmd *imap.Command) {
	a := cmd.Args.(*imap.Status)
	_, f, err := s.folder(a.Mailbox)
	if err == nil && f.Rights&note.Read == 0 {
		err = store.ErrDenied
	}
	if err != nil {
		s.refuse(cmd, err)
		return
	}
	if a.Items&imap.StatusHighestModSeq != 0 {
		s.enableCondstore()
	}
	s.appendStatus(&f, a.Items)
	s.done(cmd, "", "STATUS completed")
}

func (s *session) appendStatus(f *mailbox.Folder, items imap.StatusItem) {
	d := imap.StatusData{
		Mailbox: f.Name, Items: items, Messages: f.Total, UIDNext: f.UIDNext, UIDValidity: f.UIDValidity,
		Unseen: f.Unseen, Deleted: f.Deleted, Size: f.Size, HighestModSeq: max(f.HighestModSeq, 1),
		AppendLimit: uint64(s.srv.backend.Mail().MessageSize()),
	}
	if s.shows(f) {
		if upTo, _ := s.reached(); items&imap.StatusHighestModSeq != 0 {
			// The client may resynchronise from it, so it must not exceed the reported changes.
			d.HighestModSeq = min(d.HighestModSeq, upTo)
		}
	}
	if items&imap.StatusRecent != 0 && !s.rev2 {
		d.Recent = min(s.recent(f), d.Messages)
	}
	if items&imap.StatusDeletedStorage != 0 {
		d.DeletedStorage = s.deletedStorage(f)
	}
	if items&imap.StatusMailboxID != 0 {
		d.MailboxID = mailbox.FolderID(f)
	}
	s.out.B = imap.AppendStatus(s.out.B, &d, s.in.UTF8)
}

// recent counts the messages of a mailbox that are recent in this session, or would be if it selected the mailbox
// now.
//
// Implements: RFC 3501 §6.3.10 STATUS RECENT
func (s *session) recent(f *mailbox.Folder) uint32 {
	file, err := s.at(f.Name)
	if err != nil {
		return 0
	}
	var known *mailbox.View
	count := uint32(0)
	if s.shows(f) {
		known, count = s.view, s.view.Recent().Count()
	}
	n, err := file.Unclaimed(s.c.Context(), f.ID, known)
	if err != nil && !isDenied(err) {
		s.srv.env.Log.Error("imapd: counting recent messages", "account", s.account.Name, "err", err)
	}
	return count + n
}
