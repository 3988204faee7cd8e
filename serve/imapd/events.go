package imapd

import (
	"errors"
	"slices"

	"doublet/mailbox"
	"doublet/wire/imap"
)

// poll sends the changes in the selected mailbox.
func (s *session) poll(expunges bool) {
	s.pollBy(func(v *mailbox.View) error { return v.Poll(s.c.Context(), expunges, (*events)(s)) })
}

// pollUnasked sends changes, without expunges, while no command runs. A client with QRESYNC may lose its connection
// after any line. So it gets no MODSEQ above that of an expunge that is held back.
func (s *session) pollUnasked() {
	if !s.qresync {
		s.poll(false)
		return
	}
	s.pollBy(func(v *mailbox.View) error { return v.PollInOrder(s.c.Context(), (*events)(s)) })
}

func (s *session) pollBy(poll func(*mailbox.View) error) {
	if s.view == nil {
		return
	}
	before := s.view.UIDNext()
	err := poll(s.view)
	s.tellVanished()
	switch {
	case errors.Is(err, mailbox.ErrFolderGone):
		s.folderGone()
		return
	case errors.Is(err, mailbox.ErrParted):
		s.cannotMove(err)
		return
	}
	if err != nil {
		// The next Poll sends the changes that could not be read now.
		s.srv.env.Log.Error("imapd: poll failed", "account", s.account.Name, "err", err)
	}
	if err == nil && len(s.contexts) > 0 {
		s.update()
	}
	if s.notifier != nil && len(s.notifier.items) > 0 && s.view.UIDNext() > before {
		s.fetchNew(before)
	}
}

// events prints the events of Poll: expunges, then the count, then flags.
//
// Implements: RFC 9051 §5.2 Mailbox size and message status updates
// Implements: RFC 9051 §7.4.1 EXISTS
// Implements: RFC 3501 §7.3.2 RECENT
// Implements: RFC 9051 §7.5.1 EXPUNGE
type events session

// Expunge prints one expunge. For a client with QRESYNC or UIDONLY it collects them for one VANISHED.
func (e *events) Expunge(seq, uid uint32) {
	s := (*session)(e)
	s.expunged(seq, uid)
	if s.qresync || s.uidOnly {
		s.gone = append(s.gone, uid)
		return
	}
	s.out.B = imap.AppendNumber(s.out.B, seq, "EXPUNGE")
}

func (e *events) Exists(n uint32) {
	s := (*session)(e)
	s.tellVanished()
	s.out.B = imap.AppendNumber(s.out.B, n, "EXISTS")
	if !s.rev2 {
		s.out.B = imap.AppendNumber(s.out.B, s.view.Recent().Count(), "RECENT")
	}
}

func (e *events) Changed(m *mailbox.Message) {
	s := (*session)(e)
	s.tellVanished()
	if s.notifier != nil {
		if e, _ := s.selectedEvents(); e&imap.EventFlagChange == 0 {
			s.skip(m)
			return
		}
	}
	s.appendFlagsFetch(m, true)
}

// tellVanished prints the expunges collected for a client with QRESYNC or UIDONLY.
//
// Implements: RFC 7162 §3.2.10 VANISHED
func (s *session) tellVanished() {
	if len(s.gone) == 0 {
		return
	}
	slices.Sort(s.gone)
	var set imap.Set
	for _, uid := range s.gone {
		set = set.Add(uid)
	}
	s.out.B = imap.AppendVanished(s.out.B, set, false)
	s.gone = nil
}

// appendFlagsFetch prints a FETCH response with flags, and with the MODSEQ for a client that uses CONDSTORE.
//
// Implements: RFC 9051 §7.5.2 FETCH without request
// Implements: RFC 7162 §3.1.4.3 MODSEQ in every FETCH response with flags
func (s *session) appendFlagsFetch(m *mailbox.Message, uid bool) {
	fl := m.Flags()
	s.announce(fl)
	b := s.appendFetchHead(s.out.B, m, uid)
	b = append(b, "FLAGS ("...)
	b = fl.AppendIMAP(b)
	b = append(b, ')')
	if s.condstore {
		b = imap.AppendModSeq(append(b, ' '), s.hear(m.ModSeq()))
	}
	s.out.B = append(b, ")\r\n"...)
}
