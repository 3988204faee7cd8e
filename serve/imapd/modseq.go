package imapd

import "doublet/mailbox"

// heard holds the MODSEQs that a client with CONDSTORE has heard of in the selected mailbox.
type heard struct {
	// highest is the highest MODSEQ that it was told.
	highest uint64
	// skipped is the MODSEQ of the first change that NOTIFY has it not told of, 0 for none.
	skipped uint64
}

// hear notes that the client is told the MODSEQ of a message.
func (s *session) hear(mod uint64) uint64 {
	s.heard.highest = max(s.heard.highest, mod)
	return mod
}

// skip notes that the client is not told of a change, because it wants to hear of none.
func (s *session) skip(m *mailbox.Message) {
	if s.heard.skipped == 0 {
		s.heard.skipped = m.ModSeq()
	}
}

// reached is the MODSEQ up to which the client was told everything in the selected mailbox, and may resynchronise
// from later. Expunges count for clients with QRESYNC alone: others look for what is gone by themselves.
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

// tellPending tells a client that goes by MODSEQs how much of what it has heard it may rely on: a higher MODSEQ that it
// saw in a FETCH response must not become what it resynchronises from, while expunges are held back, or changes.
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
