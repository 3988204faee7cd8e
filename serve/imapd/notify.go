package imapd

import (
	"errors"
	"slices"
	"strings"

	"doublet/mailbox"
	"doublet/note"
	"doublet/wire/imap"
)

// The supported events, and those among them that concern messages.
const (
	messageEvents = imap.EventMessageNew | imap.EventMessageExpunge | imap.EventFlagChange
	knownEvents   = messageEvents | imap.EventMailboxName | imap.EventSubscription | imap.EventMailboxMetadata |
		imap.EventServerMetadata
)

// notifier holds the requests of a session that uses NOTIFY, and the last reported state of each mailbox in these
// requests. Sessions without NOTIFY have none.
//
// Implements: RFC 5465 §3 NOTIFY
type notifier struct {
	// watches holds the functions that stop the watches of mail files; nil after NOTIFY NONE.
	watches map[note.DatabaseID]func()
	groups  []imap.NotifyGroup
	// selected is set if a group names the selected mailbox, with its events. delayed holds expunges back until a
	// command.
	selected, delayed bool
	events            imap.NotifyEvent
	items             []imap.FetchItem // sent with a new message there
	seen              map[note.UNID]seenMailbox
	round             uint32 // number of the current look
	// room counts the groups, items and annotations within the limit of watched mailboxes.
	room int64
	// server holds the annotations of the server if their changes are reported.
	server annotations
}

// seenMailbox holds the last reported state of a mailbox.
type seenMailbox struct {
	name                          string
	mod                           uint64
	total, uidNext, unseen, round uint32
	subscribed, children          bool
	events                        imap.NotifyEvent
	annotations                   annotations
}

func seenAs(f *mailbox.Folder, e imap.NotifyEvent, round uint32) seenMailbox {
	return seenMailbox{name: f.Name, mod: f.HighestModSeq, total: f.Total, uidNext: f.UIDNext, unseen: f.Unseen,
		subscribed: f.Subscribed, children: f.HasChildren, events: e, round: round}
}

// notify executes NOTIFY: it sets the events to report to the client, between commands too.
//
// Implements: RFC 5465 §3.1 NOTIFY command
func (s *session) notify(cmd *imap.Command) {
	a := cmd.Args.(*imap.Notify)
	n := &notifier{}
	for i := range a.Groups {
		if text := n.take(&a.Groups[i]); text != "" {
			s.badly(cmd, text)
			return
		}
	}
	for i := range a.Groups {
		if g := &a.Groups[i]; g.Events&^knownEvents != 0 || len(g.Unknown) > 0 {
			s.no(cmd, string(imap.AppendNotifyEvents([]byte("BADEVENT "), knownEvents)),
				"Not an event that is told here")
			return
		}
	}
	// Pending changes are sent first, as for NOOP.
	if s.poll(true); s.over {
		return
	}
	s.dropNotify()
	if !a.Set {
		s.notifier = n
		s.done(cmd, "", "NOTIFY completed")
		return
	}
	n.watches, n.seen = make(map[note.DatabaseID]func()), make(map[note.UNID]seenMailbox)
	if n.groups, n.room = keptGroups(a.Groups); !s.srv.watch(n.room) {
		s.notifier = &notifier{}
		s.no(cmd, "NOTIFICATIONOVERFLOW", "Too many mailboxes are watched")
		return
	}
	s.notifier = n
	// The watch starts before the first look, so that no change is missed.
	err := s.watch(s.file)
	if err == nil && s.view != nil {
		err = s.watch(s.view.File())
	}
	if err == nil {
		err = s.lookAround(a.Status, false)
	}
	if err != nil {
		s.dropNotify()
		if errors.Is(err, errOverflow) {
			s.notifier = &notifier{}
			s.no(cmd, "NOTIFICATIONOVERFLOW", "Too many mailboxes are watched")
			return
		}
		s.refuse(cmd, err)
		return
	}
	s.done(cmd, "", "NOTIFY completed")
}

// take checks a group and stores its events of the selected mailbox. It returns an error text, or "".
//
// Implements: RFC 5465 §5 events that need each other
func (n *notifier) take(g *imap.NotifyGroup) string {
	e := g.Events
	const both = imap.EventMessageNew | imap.EventMessageExpunge
	if e&both != 0 && e&both != both {
		return "MessageNew and MessageExpunge go together"
	}
	if e&(imap.EventFlagChange|imap.EventAnnotation) != 0 && e&imap.EventMessageNew == 0 {
		return "FlagChange needs MessageNew and MessageExpunge"
	}
	if g.Filter.Kind != imap.FilterSelected && g.Filter.Kind != imap.FilterSelectedDelayed {
		if len(g.Fetch) > 0 {
			return "Items are fetched of the selected mailbox alone"
		}
		return ""
	}
	switch {
	case n.selected:
		return "The selected mailbox is named twice"
	case e&(imap.EventMailboxName|imap.EventSubscription|imap.EventMailboxMetadata|imap.EventServerMetadata) != 0:
		return "Of the selected mailbox only message events are told"
	}
	n.selected, n.delayed, n.events = true, g.Filter.Kind == imap.FilterSelectedDelayed, e
	n.items = slices.Clone(g.Fetch)
	for i := range n.items {
		it := &n.items[i]
		it.Peek, it.Section.Fields = true, keptStrings(it.Section.Fields)
	}
	return ""
}

// watch makes changes in a mail file wake the session from now on.
func (s *session) watch(f *mailbox.File) error {
	n := s.notifier
	if n == nil || n.watches == nil || n.watches[f.Database()] != nil {
		return nil
	}
	stop, err := f.Watch(s.c.Wake)
	if err == nil {
		n.watches[f.Database()] = stop
		s.c.Wake() // for changes between the last look and the watch
	}
	return err
}

// entrySize is the approximate memory in bytes of a watched mailbox.
const entrySize = 150

// keptGroups copies groups, so that they don't refer to the text of their command. It returns their memory in entries.
func keptGroups(groups []imap.NotifyGroup) (kept []imap.NotifyGroup, entries int64) {
	bytes := 0
	kept = slices.Clone(groups)
	for i := range kept {
		g := &kept[i]
		g.Filter.Mailboxes = keptStrings(g.Filter.Mailboxes)
		bytes += entrySize + entrySize*len(g.Fetch)
		for _, name := range g.Filter.Mailboxes {
			bytes += len(name) + 16
		}
		for k := range g.Fetch {
			bytes += 64 * (len(g.Fetch[k].Section.Fields) + len(g.Fetch[k].Section.Part))
		}
		g.Fetch = nil
	}
	return kept, int64(bytes/entrySize) - 1 // a short command is free
}

func keptStrings(list []string) []string {
	list = slices.Clone(list)
	for i := range list {
		list[i] = strings.Clone(list[i])
	}
	return list
}

// watch reserves room for entries of NOTIFY.
func (srv *Server) watch(entries int64) bool {
	if srv.watched.Add(entries) > int64(srv.cfg.NotifyMailboxes) {
		srv.watched.Add(-entries)
		return false
	}
	srv.stats.watched.Add(entries)
	return true
}

func (srv *Server) unwatch(entries int64) {
	srv.watched.Add(-entries)
	srv.stats.watched.Add(-entries)
}

// dropNotify ends the watches of NOTIFY and frees its room.
func (s *session) dropNotify() {
	n := s.notifier
	if n == nil {
		return
	}
	for _, stop := range n.watches {
		stop()
	}
	s.srv.unwatch(int64(len(n.seen)) + n.room)
	s.notifier = nil
}

// eventsOf returns the events that groups request for a mailbox. A group without events excludes the mailbox from later
// groups. A mailbox that is not readable has no events; denied reports that case.
//
// Implements: RFC 5465 §6 several groups for one mailbox
func (s *session) eventsOf(f *mailbox.Folder) (e imap.NotifyEvent, denied bool) {
	for i := range s.notifier.groups {
		g := &s.notifier.groups[i]
		if k := g.Filter.Kind; k != imap.FilterSelected && k != imap.FilterSelectedDelayed && s.filtered(&g.Filter, f) {
			if g.Events == 0 {
				break
			}
			e |= g.Events &^ imap.EventServerMetadata
		}
	}
	if e != 0 && f.Rights&note.Read == 0 {
		return 0, true
	}
	return e, false
}

// selectedEvents returns the events that the group of the selected mailbox requests.
//
// Implements: RFC 5465 §3.1 no SELECTED is SELECTED NONE
func (s *session) selectedEvents() (e imap.NotifyEvent, delayed bool) {
	return s.notifier.events, s.notifier.delayed
}

// muted reports whether the client rejects unrequested changes of the selected mailbox.
func (s *session) muted(cmd *imap.Command) bool {
	if s.notifier == nil || s.view == nil {
		return false
	}
	switch cmd.Name {
	case "EXPUNGE", "MOVE", "NOOP", "CHECK":
		return false
	}
	e, _ := s.selectedEvents()
	return e == 0
}

// news sends the events of NOTIFY, between commands or in IDLE. In IDLE, delayed expunges may be sent.
//
// Implements: RFC 5465 §4 IDLE
func (s *session) news(idle bool) {
	s.out.Take()
	if s.notifier.watches == nil {
		return // NOTIFY NONE
	}
	err := s.lookAround(false, true)
	switch {
	case errors.Is(err, errOverflow):
		s.dropNotify()
		s.notifier = &notifier{}
		s.untagged("NOTIFICATIONOVERFLOW", "Too many mailboxes are watched")
	case err != nil:
		s.srv.env.Log.Error("imapd: cannot watch mailboxes", "account", s.account.Name, "err", err)
	}
	if s.view == nil {
		return
	}
	if e, delayed := s.selectedEvents(); e != 0 {
		if idle || !delayed {
			s.poll(true)
		} else {
			s.pollUnasked()
		}
		s.tellPending()
	}
}
