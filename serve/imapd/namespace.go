package imapd

import (
	"doublet/mailbox"
	"doublet/wire/imap"
)

const separator = '/'

// namespace prints the prefixes of the person's own mailboxes and of those of others.
//
// Implements: RFC 9051 §6.3.10 NAMESPACE
func (s *session) namespace(cmd *imap.Command) {
	n := imap.Namespace{
		Personal: []imap.NamespaceItem{{Prefix: "", Delimiter: separator}},
		Other:    []imap.NamespaceItem{{Prefix: mailbox.OthersPrefix, Delimiter: separator}},
		Shared:   []imap.NamespaceItem{{Prefix: mailbox.SharedPrefix, Delimiter: separator}},
	}
	s.out.B = imap.AppendNamespace(s.out.B, &n, s.in.UTF8)
	s.done(cmd, "", "NAMESPACE completed")
}
