package imapd

import (
	"slices"

	"doublet/mailbox"
	"doublet/wire/imap"
)

// maxListed is the maximum number of keywords in FLAGS in addition to those of listedAlways. Clients may use other
// keywords too, because PERMANENTFLAGS has \*.
const maxListed = 300

// listedAlways reports whether FLAGS of every mailbox lists a keyword.
func listedAlways(keyword string) bool {
	switch keyword {
	case mailbox.Answered, mailbox.Flagged, mailbox.Draft, "$forwarded", "$mdnsent", "$junk", "$notjunk", "$phishing":
		return true
	}
	return false
}

// announce prints FLAGS and PERMANENTFLAGS if a message has a keyword that is new to the client. It must be called
// before the FETCH response starts.
//
// Implements: RFC 3501 §7.2.6 FLAGS before a FETCH response with a new keyword
// Implements: RFC 9051 §7.3.5 FLAGS
func (s *session) announce(fl mailbox.Flags) {
	fresh := false
	for _, k := range fl.Keywords {
		if listedAlways(k) || len(s.listed) >= maxListed {
			continue
		}
		if i, ok := slices.BinarySearch(s.listed, k); !ok {
			s.listed, fresh = slices.Insert(slices.Clone(s.listed), i, k), true
		}
	}
	if !fresh || s.view == nil {
		return
	}
	s.out.B = s.appendFlagLists(s.out.B, s.view)
}

// appendFlagLists prints FLAGS and PERMANENTFLAGS.
func (s *session) appendFlagLists(b []byte, v *mailbox.View) []byte {
	b = append(b, "* FLAGS ("+systemFlags+keywords...)
	for _, k := range s.listed {
		b = append(append(b, ' '), k...)
	}
	b = append(imap.AppendResultHead(append(b, ")\r\n"...), "*", imap.OK), "PERMANENTFLAGS ("...)
	return append(s.appendPermanent(b, v), ")] Limited\r\n"...)
}
