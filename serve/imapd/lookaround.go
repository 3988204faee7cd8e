package imapd

import (
	"crypto/sha256"
	"errors"
	"slices"
	"strings"

	"doublet/mailbox"
	"doublet/wire/imap"
)

// errOverflow means that NOTIFY would have to remember more mailboxes than the limit.
var errOverflow = errors.New("imapd: too many mailboxes are watched")

// lookAround compares the mailboxes with their last reported state. If tell is set it prints the differences; if status
// is set, also the state of the mailboxes watched for messages. It omits the selected mailbox.
func (s *session) lookAround(status, tell bool) error {
	n := s.notifier
	folders, others, err := s.candidates(func(yield func(*imap.MailboxFilter) bool) {
		for i := 0; i < len(n.groups) && yield(&n.groups[i].Filter); i++ {
		}
	})
	if err == nil && others {
		err = s.watchOthers()
	}
	if err != nil {
		return err
	}
	n.round++
	var moved rename
	for i := range folders {
		if folders[i].UNID.IsZero() {
			continue // a level above mailboxes of others
		}
		if err := s.lookAtFolder(&folders[i], &moved, status, tell); err != nil {
			return err
		}
		if len(s.out.B) > sendAt && s.flush() != nil {
			return nil
		}
	}
	s.forgetGone(tell)
	wanted := slices.ContainsFunc(n.groups, func(g imap.NotifyGroup) bool {
		return g.Events&imap.EventServerMetadata != 0
	})
	n.server, err = s.lookAtAnnotations("", wanted, &n.server, tell)
	return err
}

// lookAtFolder compares one mailbox with its last reported state. moved is the last reported change of a name.
func (s *session) lookAtFolder(f *mailbox.Folder, moved *rename, status, tell bool) (err error) {
	n := s.notifier
	e, denied := s.eventsOf(f)
	was, known := n.seen[f.UNID]
	if denied && (known || !tell) {
		s.tellNoAccess(f)
	}
	if !known {
		if e == 0 {
			return nil
		}
		if !s.srv.watch(1) {
			return errOverflow
		}
	}
	now := seenAs(f, e, n.round)
	now.annotations = was.annotations
	n.seen[f.UNID] = now
	if tell && !denied {
		moved.explain(&was, &now, known)
		s.tellMailbox(f, &was, &now, known)
	}
	wanted := e&imap.EventMailboxMetadata != 0
	if now.annotations, err = s.lookAtAnnotations(f.Name, wanted, &was.annotations, tell); err != nil {
		return err
	}
	n.seen[f.UNID] = now
	switch {
	case denied, s.shows(f): // a denied one exists, but is no longer watched
	case tell:
		s.tellStatus(f, &was, &now, known)
	case status && e&messageEvents != 0:
		s.notifyStatus(f, e&imap.EventFlagChange != 0)
	}
	return nil
}

// shows reports whether f is the selected mailbox.
func (s *session) shows(f *mailbox.Folder) bool { return s.view != nil && s.view.Is(f) }

// watchOthers watches the mail files of other people in which the person has lookup rights.
func (s *session) watchOthers() error {
	list, err := s.shares()
	for i := 0; i < len(list) && err == nil; i++ {
		err = s.watch(s.srv.backend.Mail().SharedFile(s.account.Who, list[i].ID, list[i].prefix))
	}
	return err
}

// rename holds the last reported change of a name.
type rename struct{ from, to string }

// explain suppresses a change of name that follows from the change of a parent mailbox.
//
// Implements: RFC 5465 §5.4 children of a renamed mailbox
func (r *rename) explain(was, now *seenMailbox, known bool) {
	if !known || was.name == now.name {
		return
	}
	rest, below := strings.CutPrefix(was.name, r.from+string(separator))
	if below && r.from != "" && now.name == r.to+string(separator)+rest {
		was.name = now.name
	} else if (was.events|now.events)&imap.EventMailboxName != 0 {
		*r = rename{was.name, now.name}
	}
}

// tellNoAccess reports that a requested mailbox is not readable.
//
// Implements: RFC 5465 §3.1 \NoAccess
func (s *session) tellNoAccess(f *mailbox.Folder) {
	d := s.listData([]string{`\NoAccess`}, f, 0, false)
	s.out.B = imap.AppendList(s.out.B, "LIST", &d, s.in.UTF8)
}

// forgetGone drops the mailboxes that were deleted or are no longer watched.
func (s *session) forgetGone(tell bool) {
	n := s.notifier
	for id, was := range n.seen {
		if was.round == n.round && was.events != 0 {
			continue
		}
		if tell && was.round != n.round && was.events&imap.EventMailboxName != 0 {
			s.out.B = imap.AppendList(s.out.B, "LIST", &imap.ListData{
				Attrs: []string{`\NonExistent`}, Delimiter: separator, Mailbox: was.name}, s.in.UTF8)
		}
		delete(n.seen, id)
		s.srv.unwatch(1)
		s.forgetAnnotations(&was.annotations)
	}
}

// tellMailbox prints a mailbox that is new, was renamed, gained its first or lost its last child, or whose subscription
// changed.
//
// Implements: RFC 5465 §5.4 MailboxName
// Implements: RFC 5465 §5.5 SubscriptionChange
// Implements: RFC 9051 §7.3.1 OLDNAME
func (s *session) tellMailbox(f *mailbox.Folder, was, now *seenMailbox, known bool) {
	named := (was.events|now.events)&imap.EventMailboxName != 0
	oldName := ""
	switch {
	case !known && named:
	case known && named && was.name != now.name:
		oldName = was.name
	case known && named && was.children != now.children: // parent of an added or removed mailbox
	case known && was.subscribed != now.subscribed && (was.events|now.events)&imap.EventSubscription != 0:
	default:
		return
	}
	d := s.listData(nil, f, imap.ListSubscribed, false)
	d.OldName = oldName
	s.out.B = imap.AppendList(s.out.B, "LIST", &d, s.in.UTF8)
}

// annotations holds the last reported annotations of a mailbox or of the server: a digest of each value by name, at a
// state of the mailbox. The zero value means that the annotations were not read yet.
type annotations struct {
	at     uint64
	values map[string][sha256.Size]byte
}

// lookAtAnnotations compares annotations with their last reported state, if the client watches them. If tell is set, it
// prints the names of those that were set, changed or removed.
//
// Implements: RFC 5465 §5.6 MailboxMetadataChange
// Implements: RFC 5465 §5.7 ServerMetadataChange
func (s *session) lookAtAnnotations(name string, wanted bool, was *annotations, tell bool) (annotations, error) {
	if !wanted {
		s.forgetAnnotations(was)
		return annotations{}, nil
	}
	f, err := s.annotated(name)
	var list []mailbox.Annotation
	var now annotations
	if err == nil {
		list, now.at, err = f.AnnotationsSince(s.c.Context(), name, was.at)
	}
	switch {
	case errors.Is(err, mailbox.ErrNoFolder): // deleted after the mailboxes were listed
		return *was, nil
	case err != nil || now.at == was.at:
		return *was, err
	}
	// Removed entries free their room first, so that fewer entries always fit.
	s.forgetAnnotations(was)
	if !s.srv.watch(int64(len(list))) {
		return annotations{}, errOverflow
	}
	s.notifier.room += int64(len(list))
	now.values = make(map[string][sha256.Size]byte, len(list))
	var changed []string
	for _, a := range list {
		sum := sha256.Sum256([]byte(a.Value))
		now.values[a.Name] = sum
		if before, there := was.values[a.Name]; !there || before != sum {
			changed = append(changed, a.Name)
		}
	}
	for old := range was.values {
		if _, there := now.values[old]; !there {
			changed = append(changed, old)
		}
	}
	if tell && len(changed) > 0 {
		slices.Sort(changed)
		s.out.B = imap.AppendMetadataChange(s.out.B, name, changed, s.in.UTF8)
	}
	return now, nil
}

// forgetAnnotations frees the room of annotations.
func (s *session) forgetAnnotations(a *annotations) {
	n := int64(len(a.values))
	s.notifier.room -= n
	s.srv.unwatch(n)
}

// tellStatus prints the state of a mailbox whose messages or flags changed.
//
// Implements: RFC 5465 §5.1 FlagChange
// Implements: RFC 5465 §5.2 MessageNew
// Implements: RFC 5465 §5.3 MessageExpunge
func (s *session) tellStatus(f *mailbox.Folder, was, now *seenMailbox, known bool) {
	moved := was.uidNext != now.uidNext || was.total != now.total
	if !known {
		moved = now.total > 0
	}
	switch e := now.events; {
	case moved && e&imap.EventMessageNew != 0:
	case known && !moved && was.mod != now.mod && e&imap.EventFlagChange != 0:
	default:
		return
	}
	s.notifyStatus(f, false)
}

// notifyStatus prints the state of a mailbox. If modSeq is set, HIGHESTMODSEQ is included even for a client without
// CONDSTORE.
func (s *session) notifyStatus(f *mailbox.Folder, modSeq bool) {
	items := imap.StatusMessages | imap.StatusUIDNext | imap.StatusUIDValidity | imap.StatusUnseen
	if s.condstore || modSeq {
		items |= imap.StatusHighestModSeq
	}
	s.appendStatus(f, items)
}

// fetchNew prints the items that NOTIFY requests for new messages in the selected mailbox.
//
// Implements: RFC 5465 §5.2 MessageNew with items
func (s *session) fetchNew(from uint32) {
	a := imap.Fetch{Items: s.notifier.items}
	f := fetcher{s: s, items: a.Items, uid: true}
	opts := f.prepare(&a)
	opts.MarkSeen = false
	set := mailbox.Set{{Start: from, Stop: s.view.UIDNext() - 1}}
	if err := s.view.Fetch(s.c.Context(), set, true, opts, f.message, s.flushPart); err != nil && s.failed == nil {
		s.srv.env.Log.Error("imapd: cannot read new messages", "account", s.account.Name, "err", err)
	}
}
