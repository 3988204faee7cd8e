package imapd

import (
	"slices"
	"strings"

	"doublet/mailbox"
	"doublet/wire/imap"
)

// candidates returns the mailboxes that filters may select. It reads the mailboxes of other people only if a filter can
// select one.
func (s *session) candidates(filters func(yield func(*imap.MailboxFilter) bool)) ([]mailbox.Folder, bool, error) {
	others := s.view != nil && s.view.File().Database() != s.file.Database()
	for f := range filters {
		others = others || f.Kind == imap.FilterSubscribed || slices.ContainsFunc(f.Mailboxes, reserved)
	}
	patterns := []string{mailbox.Inbox, mailbox.RecoverableName}
	if others {
		patterns = nil
	}
	folders, err := s.folders(patterns)
	return folders, others, err
}

// filtered reports whether a filter selects a mailbox. FilterSelected and FilterSelectedDelayed select only the
// selected mailbox.
//
// Implements: RFC 5465 §6 mailbox specification
// Implements: RFC 7377 §2.2 ESEARCH sources
func (s *session) filtered(f *imap.MailboxFilter, b *mailbox.Folder) bool {
	switch f.Kind {
	case imap.FilterSelected, imap.FilterSelectedDelayed:
		return s.shows(b)
	case imap.FilterInboxes: // where mail is delivered
		return b.Is(mailbox.Inbox, mailbox.UseJunk) && !reserved(b.Name)
	case imap.FilterPersonal:
		return !reserved(b.Name)
	case imap.FilterSubscribed:
		return b.Subscribed
	case imap.FilterMailboxes:
		return slices.Contains(f.Mailboxes, b.Name)
	}
	for _, name := range f.Mailboxes {
		rest, below := strings.CutPrefix(b.Name, name)
		if !below || rest != "" && rest[0] != separator {
			continue
		}
		if f.Kind == imap.FilterSubtree || strings.LastIndexByte(rest, separator) <= 0 {
			return true
		}
	}
	return false
}
