package imapd

import (
	"doublet/mailbox"
	"doublet/wire/imap"
)

// settable parses flags for the selected mailbox, and returns an error if it cannot be changed.
func (s *session) settable(list []string) (mailbox.Flags, error) {
	flags, err := mailbox.ParseFlags(list)
	if err == nil {
		err = s.view.MayChange()
	}
	return flags, err
}

// appendStored prints the new state of a message. Changes of others are sent whatever the client asked for.
func (s *session) appendStored(m *mailbox.Message, silent, uid bool) {
	switch {
	case !silent || m.FlagsChanged:
		s.appendFlagsFetch(m, uid)
	case s.condstore:
		s.appendModSeqFetch(m, uid)
	}
}

// store changes flags. They are durable before the tagged response.
//
// Implements: RFC 9051 §6.4.6 STORE
// Implements: RFC 7162 §3.1.3 STORE with UNCHANGEDSINCE
func (s *session) store(cmd *imap.Command) {
	a := cmd.Args.(*imap.Store)
	set, byUID, ok := s.target(cmd, &a.Target)
	if !ok {
		return
	}
	flags, err := s.settable(a.Flags)
	if err != nil {
		s.refuse(cmd, err)
		return
	}
	if a.HasUnchangedSince {
		s.enableCondstore()
	}
	if a.Silent {
		// Changes by others are still sent, before those of this client.
		if s.catchUp(cmd); s.over {
			return
		}
	}
	op := mailbox.StoreOp{
		Mode: storeModes[a.Op], Flags: flags,
		UnchangedSince: a.UnchangedSince, HasUnchangedSince: a.HasUnchangedSince,
	}
	var modified mailbox.Set
	missing := uint64(0)
	if !byUID {
		missing = wanted(a.Set, s.view.Exists())
	}
	if len(set) > 0 {
		// Implements: RFC 9051 §6.4.6 .SILENT does not hide changes from elsewhere
		step := s.counting(cmd, uint64(s.view.Exists()))
		modified, err = s.view.Store(s.c.Context(), set, byUID, op, func(m *mailbox.Message) {
			s.appendStored(m, a.Silent, cmd.UID)
			missing--
			if step(); len(s.out.B) > sendAt {
				_ = s.flush() // not during a read of the store: a batch is committed
			}
		})
	}
	missing -= uint64(len(modified))
	switch {
	case err != nil:
		s.refuse(cmd, err)
	case len(modified) > 0:
		s.storeFailed(cmd, modified, !byUID && missing > 0)
	case !byUID && missing > 0:
		s.no(cmd, "EXPUNGEISSUED", expunged)
	default:
		s.done(cmd, "", "STORE completed")
	}
}

// storeFailed names the messages that failed UNCHANGEDSINCE; missing reports that others no longer exist.
//
// Implements: RFC 7162 §3.1.3 NO with MODIFIED where messages no longer exist
func (s *session) storeFailed(cmd *imap.Command, modified mailbox.Set, missing bool) {
	if s.catchUp(cmd); s.over {
		return
	}
	s.tellPending()
	status, text := imap.OK, "Conditional STORE failed for some"
	if missing {
		status, text = imap.NO, expunged
	}
	b := imap.AppendResultHead(s.out.B, cmd.Tag, status)
	s.out.B = imap.AppendResultTail(imap.AppendCodeModified(b, wireSet(modified).Normalize()), text)
}

var storeModes = [...]mailbox.StoreMode{
	imap.StoreReplace: mailbox.Replace, imap.StoreAdd: mailbox.Add, imap.StoreRemove: mailbox.Remove,
}

// appendModSeqFetch prints the new MODSEQ, which .SILENT does not suppress.
func (s *session) appendModSeqFetch(m *mailbox.Message, uid bool) {
	b := s.appendFetchHead(s.out.B, m, uid)
	s.out.B = append(imap.AppendModSeq(b, s.hear(m.ModSeq())), ")\r\n"...)
}
