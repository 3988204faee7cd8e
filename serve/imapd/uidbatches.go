package imapd

import "doublet/wire/imap"

// leastBatch is the smallest size of a batch.
const leastBatch = 500

// uidBatches prints ranges of UIDs with equal numbers of messages.
//
// Implements: RFC 10022 §3 UIDBATCHES
func (s *session) uidBatches(cmd *imap.Command) {
	a := cmd.Args.(*imap.UIDBatches)
	switch {
	case a.Size < leastBatch:
		s.no(cmd, "TOOFEW", "A batch has 500 messages at least")
		return
	case a.Last < a.First:
		s.badly(cmd, "Batches are named in ascending order")
		return
	}
	batches, err := s.view.Batches(s.c.Context(), a.Size, a.First, a.Last)
	if err != nil {
		s.refuse(cmd, err)
		return
	}
	s.out.B = imap.AppendUIDBatches(s.out.B, &imap.UIDBatchData{Tag: cmd.Tag, Ranges: wireSet(batches)})
	s.done(cmd, "", "UIDBATCHES completed")
}
