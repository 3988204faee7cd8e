package imapd

import "doublet/mailbox"

// heard holds the MODSEQs that a client with CONDSTORE has seen in the selected mailbox.
type heard struct {
	// highest is the highest MODSEQ that the client has seen.
	highest uint64
	// skipped is the MODSEQ of the first change that NOTIFY suppressed, or 0.
	skipped uint64
}

// hear records that the client sees the MODSEQ of a message, and returns it.
func (s *session) hear(mod uint64) uint64 {
	s.heard.highest = max(s.heard.highest, mod)
	return mod
}

// skip records a change that NOTIFY suppresses.
func (s *session) skip(m *mailbox.Message) {
	if s.heard.skipped == 0 {
		s.heard.skipped = m.ModSeq()
	}
}

// reached returns the MODSEQ up to which the client has been told all changes in the selected mailbox, so it may
// resynchronise from there. Expunges matter only for clients with QRESYNC; other clients find expunged messages by
// other means.
func (s *session) reached() (upTo uint64, expunges bool) {
	n, upTo := s.view.Pending()
	if expunges = n > 0 && s.qresync; !expunges {
		upTo = s.view.ModSeq()
	}
	if s.heard.skipped > 0 {
		upTo = min(upTo, s.heard.skipped-1)
	}
	return max(upTo, 1), expunges
}

// tellPending prints the HIGHESTMODSEQ on which a client with CONDSTORE or QRESYNC may rely. While expunges (with
// QRESYNC) or changes are held back, the client must not resynchronise from a higher MODSEQ in a FETCH response.
//
// Implements: RFC 7162 §3.2.5 HIGHESTMODSEQ below expunges that are held back
func (s *session) tellPending() {
	if !s.condstore || s.view == nil {
		return
	}
	switch upTo, expunges := s.reached(); {
	case expunges:
		s.number("HIGHESTMODSEQ", upTo, "Expunges are still to be told")
	case s.heard.highest > upTo:
		s.number("HIGHESTMODSEQ", upTo, "Changes are still to be told")
	}
}
