package imapd

import (
	"doublet/mailbox"
	"doublet/wire/imap"
)

// store changes flags. They are durable when the answer is said.
//
// Implements: RFC 9051 §6.4.6 STORE
// Implements: RFC 7162 §3.1.3 STORE with UNCHANGEDSINCE
func (s *session) store(cmd *imap.Command) {
	a := cmd.Args.(*imap.Store)
	set, byUID, ok := s.target(cmd, &a.Target)
	if !ok {
		return
	}
	flags, err := mailbox.ParseFlags(a.Flags)
	if err == nil && s.view.ReadOnly() {
		err = mailbox.ErrReadOnly
	}
	if err != nil {
		s.refuse(cmd, err)
		return
	}
	if a.HasUnchangedSince {
		s.enableCondstore()
	}
	if a.Silent {
		// What others changed is told even so; what follows is this client's own.
		if s.catchUp(cmd); s.over {
			return
		}
	}
	op := mailbox.StoreOp{
		Mode: storeModes[a.Op], Flags: flags,
		UnchangedSince: a.UnchangedSince, HasUnchangedSince: a.HasUnchangedSince,
	}
	var modified mailbox.Set
	if len(set) > 0 {
		// Implements: RFC 9051 §6.4.6 .SILENT does not hide changes from elsewhere
		step := s.counting(cmd, uint64(s.view.Exists()))
		modified, err = s.view.Store(s.c.Context(), set, byUID, op, func(m *mailbox.Message) {
			switch {
			case !a.Silent || m.FlagsChanged:
				// What others changed meanwhile is told whatever the client asked for.
				s.appendFlagsFetch(m, cmd.UID)
			case s.condstore:
				s.appendModSeqFetch(m, cmd.UID)
			}
			if step(); len(s.out.B) > sendAt {
				_ = s.flush() // outside of the store: a batch is committed
			}
		})
	}
	if err != nil {
		s.refuse(cmd, err)
		return
	}
	if len(modified) == 0 {
		s.done(cmd, "", "STORE completed")
		return
	}
	if s.catchUp(cmd); s.over {
		return
	}
	s.tellPending()
	b := imap.AppendResultHead(s.out.B, cmd.Tag, imap.OK)
	s.out.B = imap.AppendResultTail(imap.AppendCodeModified(b, wireSet(modified).Normalize()), "Conditional STORE failed for some")
}

var storeModes = [...]mailbox.StoreMode{
	imap.StoreReplace: mailbox.Replace, imap.StoreAdd: mailbox.Add, imap.StoreRemove: mailbox.Remove,
}

// appendModSeqFetch is what .SILENT leaves: the new MODSEQ.
func (s *session) appendModSeqFetch(m *mailbox.Message, uid bool) {
	b := s.appendFetchHead(s.out.B, m, uid)
	s.out.B = append(imap.AppendModSeq(b, s.hear(m.ModSeq())), ")\r\n"...)
}
