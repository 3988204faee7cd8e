package imapd

import (
	"errors"

	"doublet/mailbox"
	"doublet/store"
	"doublet/wire/imap"
)

// fetcher prints the messages of one FETCH.
type fetcher struct {
	s     *session
	items []imap.FetchItem
	paths [][]int // of the items' sections
	uid   bool    // UID is the first item, even if not requested
	flags bool    // FLAGS is among the items
	// flagged holds the flags of the current message if they are printed.
	flagged mailbox.Flags
	// modseq adds MODSEQ as the last item, although the client did not request it.
	modseq bool

	count   uint64 // messages printed
	damaged int    // messages that could not be read
	refused string // code of an item that could not be returned
}

// fetch reads messages.
//
// Implements: RFC 9051 §6.4.5 FETCH
// Implements: RFC 7162 §3.1.4 CHANGEDSINCE
// Implements: RFC 7162 §3.2.6 VANISHED UID FETCH modifier
// Implements: RFC 9394 §3.3 PARTIAL
func (s *session) fetch(cmd *imap.Command) {
	a := cmd.Args.(*imap.Fetch)
	if a.Vanished && !(cmd.UID && s.qresync) {
		s.badly(cmd, "VANISHED is for UID FETCH with QRESYNC enabled")
		return
	}
	set, byUID, ok := s.target(cmd, &a.Target)
	if !ok {
		return
	}
	f := fetcher{s: s, items: a.Items, uid: cmd.UID}
	opts := f.prepare(a)
	var err error
	partial := a.Partial != imap.Partial{} && len(set) > 0
	if partial {
		set, err = s.view.Part(s.c.Context(), set, byUID, a.Partial.Bounds)
		byUID = true
	}
	if len(set) == 0 && err == nil {
		s.done(cmd, "", "FETCH completed")
		return
	}
	if a.Vanished && err == nil {
		err = s.fetchVanished(set, a.ChangedSince)
	}
	if err == nil {
		err = s.view.Fetch(s.c.Context(), set, byUID, opts, f.message, s.flushPart)
	}
	missing := !byUID && a.ChangedSince == 0 && f.count < wanted(a.Set, s.view.Exists())
	f.complete(cmd, missing, err)
}

// complete prints the tagged response. missing is set if messages were named that do not exist any more.
func (f *fetcher) complete(cmd *imap.Command, missing bool, err error) {
	s := f.s
	switch {
	case s.failed != nil:
	case err != nil:
		s.refuse(cmd, err)
	case f.damaged > 0:
		s.no(cmd, "CORRUPTION", "Some messages could not be read")
	case f.refused != "":
		s.no(cmd, f.refused, "Some parts could not be decoded")
	case missing:
		s.no(cmd, "EXPUNGEISSUED", expunged)
	default:
		s.done(cmd, "", "FETCH completed")
	}
}

// wanted returns the number of messages in a set of message numbers.
func wanted(set imap.Set, exists uint32) uint64 {
	if len(set) == 1 { // the usual case
		r := set[0]
		if r.Start == 0 {
			r.Start = exists
		}
		if r.Stop == 0 {
			r.Stop = exists
		}
		lo, hi := min(r.Start, r.Stop), min(max(r.Start, r.Stop), exists)
		if exists == 0 || lo > hi {
			return 0
		}
		return uint64(hi-lo) + 1
	}
	n := uint64(0)
	for _, r := range set.Resolve(exists) {
		if r.Start <= exists && r.Start > 0 {
			n += uint64(min(r.Stop, exists)-r.Start) + 1
		}
	}
	return n
}

// prepare derives the options of the fetch from the items.
func (f *fetcher) prepare(a *imap.Fetch) mailbox.FetchOptions {
	opts := mailbox.FetchOptions{ChangedSince: a.ChangedSince}
	modseq := false
	for i := range a.Items {
		it := &a.Items[i]
		switch it.Kind {
		case imap.ItemFlags:
			f.flags = true
		case imap.ItemModSeq:
			modseq = true
		case imap.ItemUID:
			f.uid = f.uid || i == 0
		}
		if !it.Peek {
			opts.MarkSeen = true
		}
	}
	f.findPaths()
	f.uid = f.uid || f.s.qresync // RFC 7162 section 3.2.4: such a client uses UIDs
	f.uid = f.uid && !f.s.uidOnly
	if modseq || a.ChangedSince > 0 {
		f.s.enableCondstore()
	}
	f.modseq = !modseq && (a.ChangedSince > 0 || f.s.condstore && f.flags)
	return opts
}

// findPaths converts the part numbers of the items for package mailbox.
func (f *fetcher) findPaths() {
	for i := range f.items {
		part := f.items[i].Section.Part
		if len(part) == 0 {
			continue
		}
		if f.paths == nil {
			f.paths = make([][]int, len(f.items))
		}
		f.paths[i] = make([]int, len(part))
		for k, n := range part {
			f.paths[i][k] = int(min(n, 1<<30))
		}
	}
}

// fetchVanished prints the UIDs of a set that were expunged since a MODSEQ.
func (s *session) fetchVanished(set mailbox.Set, since uint64) error {
	gone, err := s.view.VanishedSince(s.c.Context(), since, set)
	if err == nil && len(gone) > 0 {
		s.out.B = imap.AppendVanished(s.out.B, wireSet(gone), true)
	}
	return err
}

// flushPart sends a large part of a response. A short response is sent together with its tagged response.
func (s *session) flushPart() error {
	if s.out.large() {
		return s.flush()
	}
	return nil
}

// appendItems prints what the command requests of a message.
func (f *fetcher) appendItems(m *mailbox.Message) error {
	s := f.s
	head := s.out.here()
	if f.uid {
		s.out.B = appendUint(append(s.out.B, "UID "...), uint64(m.UID))
	}
	for i := range f.items {
		if f.items[i].Kind == imap.ItemUID && f.uid {
			continue
		}
		if s.out.here() != head {
			s.out.B = append(s.out.B, ' ')
		}
		if err := f.item(m, i); err != nil {
			return err
		}
		if err := s.room(0); err != nil {
			return err
		}
	}
	return nil
}

// message prints one message. It omits a message that cannot be read.
func (f *fetcher) message(m *mailbox.Message) (pause bool, err error) {
	s := f.s
	if f.flags || m.FlagsChanged {
		f.flagged = m.Flags()
		s.announce(f.flagged)
	}
	start := s.out.here()
	if s.uidOnly {
		s.out.B = imap.AppendUIDFetchHead(s.out.B, m.UID)
	} else {
		s.out.B = imap.AppendFetchHead(s.out.B, m.Seq)
	}
	err = f.appendItems(m)
	f.count++
	if err != nil {
		s.out.cut(start)
		if !errors.Is(err, store.ErrDamaged) && !errors.Is(err, store.ErrNotFound) {
			return false, err
		}
		f.damaged++
		s.srv.env.Log.Error("imapd: reading a message failed", "account", s.account.Name, "uid", m.UID, "err", err)
		return false, nil
	}
	if m.FlagsChanged && !f.flags {
		s.out.B = append(s.out.B, " FLAGS ("...)
		s.out.B = append(f.flagged.AppendIMAP(s.out.B), ')')
	}
	if f.modseq || m.FlagsChanged && s.condstore {
		s.out.B = imap.AppendModSeq(append(s.out.B, ' '), s.hear(m.ModSeq()))
	}
	s.out.B = append(s.out.B, ")\r\n"...)
	return s.out.large(), nil
}

// item prints one item with its name.
//
// Implements: RFC 9051 §7.5.2 FETCH data items
// Implements: RFC 8474 §5 EMAILID and THREADID
// Implements: RFC 8970 PREVIEW
// Implements: RFC 8514 SAVEDATE
func (f *fetcher) item(m *mailbox.Message, i int) error {
	s, it := f.s, &f.items[i]
	switch it.Kind {
	case imap.ItemBodySection, imap.ItemRFC822, imap.ItemRFC822Header, imap.ItemRFC822Text:
		return f.section(m, i)
	case imap.ItemBinary, imap.ItemBinarySize:
		return f.binary(m, i)
	case imap.ItemEnvelope, imap.ItemBodyStructure, imap.ItemBody:
		return f.structure(m, it)
	}
	b := append(imap.AppendItemName(s.out.B, it), ' ')
	var err error
	switch it.Kind {
	case imap.ItemFlags:
		b = append(f.flagged.AppendIMAP(append(b, '(')), ')')
	case imap.ItemUID:
		b = appendUint(b, uint64(m.UID))
	case imap.ItemInternalDate:
		b = imap.AppendDateTime(b, m.Date())
	case imap.ItemSize:
		b = appendUint(b, uint64(m.Size()))
	case imap.ItemModSeq:
		b = append(appendUint(append(b, '('), s.hear(m.ModSeq())), ')')
	case imap.ItemEmailID:
		b = append(append(append(b, '('), m.EmailID()...), ')')
	case imap.ItemThreadID:
		b = append(append(append(b, '('), m.ThreadID()...), ')')
	case imap.ItemPreview:
		var preview string
		preview, err = m.Preview()
		b = imap.AppendString(b, preview, s.in.UTF8)
	case imap.ItemSaveDate:
		b = imap.AppendDateTime(b, m.Saved())
	}
	s.out.B = b
	return err
}

// structure prints the envelope or the structure of a message, which are as long as its sender made them.
func (f *fetcher) structure(m *mailbox.Message, it *imap.FetchItem) error {
	read := m.BodyStructure
	if it.Kind == imap.ItemEnvelope {
		read = m.Envelope
	}
	text, err := read()
	if err != nil {
		return err
	}
	s := f.s
	if err := s.extend(len(text) + itemName); err != nil {
		return err
	}
	b := append(imap.AppendItemName(s.out.B, it), ' ')
	if it.Kind == imap.ItemBody { // shorter than the extensible structure
		s.out.B, err = imap.AppendBodyFromStructure(b, text)
		return err
	}
	s.out.B = append(b, text...)
	return nil
}
