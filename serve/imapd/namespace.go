package imapd

import "doublet/wire/imap"

const separator = '/'

// namespace tells that all mailboxes are the person's own.
//
// Implements: RFC 9051 §6.3.10 NAMESPACE
func (s *session) namespace(cmd *imap.Command) {
	n := imap.Namespace{Personal: []imap.NamespaceItem{{Prefix: "", Delimiter: separator}}}
	s.out.b = imap.AppendNamespace(s.out.b, &n, s.rev2)
	s.done(cmd, "", "NAMESPACE completed")
}
