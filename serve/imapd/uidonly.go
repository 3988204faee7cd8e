package imapd

import (
	"errors"

	"doublet/mailbox"
	"doublet/wire/imap"
)

// errUIDRequired reports a message number although UIDONLY is enabled.
var errUIDRequired = errors.New("imapd: message numbers are not used here")

// byNumber reports whether a verb without UID prefix uses message numbers.
func byNumber(verb string) bool {
	switch verb {
	case "FETCH", "STORE", "SEARCH", "SORT", "THREAD", "COPY", "MOVE", "REPLACE":
		return true
	}
	return false
}

// uidRequired rejects a command with message numbers.
//
// Implements: RFC 9586 §3.2 UIDREQUIRED
func (s *session) uidRequired(cmd *imap.Command) {
	s.out.B = imap.AppendResult(s.out.B, cmd.Tag, imap.BAD, "UIDREQUIRED", "Message numbers are off in this session")
	s.fault()
}

// appendFetchHead starts a FETCH response that has no UID among its items. The UID is the first item if the client
// needs it.
//
// Implements: RFC 9586 §3.3 UIDFETCH
func (s *session) appendFetchHead(dst []byte, m *mailbox.Message, uid bool) []byte {
	if s.uidOnly {
		return imap.AppendUIDFetchHead(dst, m.UID)
	}
	dst = imap.AppendFetchHead(dst, m.Seq)
	if uid || s.qresync {
		dst = append(appendUint(append(dst, "UID "...), uint64(m.UID)), ' ')
	}
	return dst
}
