package imapd

import (
	"errors"
	"strings"

	"doublet/mailbox"
	"doublet/store"
	"doublet/wire/imap"
)

// A mail file is one quota root. Its name is the prefix of its mailboxes without the separator: "" for the person's
// own.

// root returns the mail file of a quota root.
func (s *session) root(name string) (*mailbox.File, error) {
	if name == "" {
		return s.file, nil
	}
	f, err := s.at(name + "/")
	if err == nil && f.Prefix() == "" {
		err = mailbox.ErrNoFolder
	}
	return f, err
}

// getQuota prints the usage and limit of a quota root.
//
// Implements: RFC 9208 §4.1.2 GETQUOTA
func (s *session) getQuota(cmd *imap.Command) {
	a := cmd.Args.(*imap.Quota)
	f, err := s.root(a.Root)
	if err == nil {
		err = s.appendQuota(f, a.Root)
	}
	if err != nil {
		s.refuse(cmd, hidden(f, err))
		return
	}
	s.done(cmd, "", "GETQUOTA completed")
}

// hidden replaces the error of a denied access to another person's mail file by the error for one that does not exist.
// People without the right to see its usage must not learn that it exists.
func hidden(f *mailbox.File, err error) error {
	if f != nil && f.Prefix() != "" && isDenied(err) {
		return mailbox.ErrNoFolder
	}
	return err
}

// getQuotaRoot prints the quota root of a mailbox with its usage and limit.
//
// Implements: RFC 9208 §4.1.3 GETQUOTAROOT
func (s *session) getQuotaRoot(cmd *imap.Command) {
	a := cmd.Args.(*imap.Quota)
	f, _, err := s.folder(a.Root)
	if err != nil {
		s.refuse(cmd, err)
		return
	}
	root := strings.TrimSuffix(f.Prefix(), "/")
	at := len(s.out.B)
	s.out.B = imap.AppendQuotaRoot(s.out.B, a.Root, root, s.in.UTF8)
	if err := s.appendQuota(f, root); err != nil {
		if !isDenied(err) {
			s.refuse(cmd, err)
			return
		}
		// The client may get no quota root for a mailbox.
		s.out.B = append(imap.AppendMailbox(append(s.out.B[:at], "* QUOTAROOT "...), a.Root, s.in.UTF8), "\r\n"...)
	}
	s.done(cmd, "", "GETQUOTAROOT completed")
}

func (s *session) appendQuota(f *mailbox.File, root string) error {
	u, err := f.Usage(s.c.Context())
	if err == nil {
		s.out.B = imap.AppendQuota(s.out.B, root, u.Used, u.Limit, s.in.UTF8)
	}
	return err
}

// setQuota sets the quota of a mail file, for administrators.
//
// Implements: RFC 9208 §4.1.4 SETQUOTA
func (s *session) setQuota(cmd *imap.Command) {
	a := cmd.Args.(*imap.Quota)
	f, err := s.root(a.Root)
	limit := uint64(0)
	for _, l := range a.Limits {
		if l.Resource != "STORAGE" || l.Limit > 1<<50 {
			s.no(cmd, "CANNOT", "Only STORAGE can be limited")
			return
		}
		// 0 means no limit in the store, so a quota of 0 is stored as one byte.
		limit = max(1, l.Limit*1024)
	}
	if err == nil {
		err = s.srv.backend.SetQuota(s.c.Context(), s.account.Who, f.Database(), limit)
	}
	if err == nil {
		err = s.appendQuota(f, a.Root)
	}
	if err != nil {
		s.refuse(cmd, hidden(f, err))
		return
	}
	s.done(cmd, "", "SETQUOTA completed")
}

// deletedStorage returns the size in bytes of the messages that are marked \Deleted.
//
// Implements: RFC 9208 §4.1.4 STATUS DELETED-STORAGE
func (s *session) deletedStorage(f *mailbox.Folder) uint64 {
	if f.Deleted == 0 {
		return 0
	}
	file, err := s.at(f.Name)
	if err != nil {
		return 0
	}
	n, err := file.DeletedSize(s.c.Context(), f.Name)
	if err != nil && !isDenied(err) {
		s.srv.env.Log.Error("imapd: size of deleted messages", "account", s.account.Name, "err", err)
	}
	return n
}

func isDenied(err error) bool { return errors.Is(err, store.ErrDenied) }
