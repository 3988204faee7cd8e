package imapd

import (
	"errors"

	"doublet/mailbox"
	"doublet/wire/imap"
)

// errUIDRequired refuses a message number where UIDONLY is enabled.
var errUIDRequired = errors.New("imapd: message numbers are not used here")

// byNumber says whether a verb without UID means messages by their numbers.
func byNumber(verb string) bool {
	switch verb {
	case "FETCH", "STORE", "SEARCH", "SORT", "THREAD", "COPY", "MOVE", "REPLACE":
		return true
	}
	return false
}

// uidRequired answers a command that means messages by their numbers.
//
// Implements: RFC 9586 §3.2 UIDREQUIRED
func (s *session) uidRequired(cmd *imap.Command) {
	s.out.B = imap.AppendResult(s.out.B, cmd.Tag, imap.BAD, "UIDREQUIRED", "Message numbers are off in this session")
	s.fault()
}

// appendFetchHead begins a FETCH response that has no UID among its items; the UID goes first where the client
// goes by it.
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
