package scheduling

import (
	"bytes"
	"context"
	"errors"
	"strings"

	"doublet/calendar"
	"doublet/calendar/itip"
	"doublet/directory"
	"doublet/groupware"
	"doublet/mail"
	"doublet/mailbox"
	"doublet/note"
	"doublet/stat"
	"doublet/store"
	"doublet/wire/mime"
)

// Inbox applies the scheduling messages that come by mail. It opens before package mail, which calls it.
//
// An answer or an update of an event that is in the calendar applies at once. An invitation of somebody outside stays
// in the mail until the recipient answers it: calendars that take invitations from anybody are used for advertising.
// One of a person of this directory goes into the calendar, as it does where no mail is needed.
//
// Implements: RFC 6047 §3 Security Considerations: only messages of verified authors
type Inbox struct {
	groupware *groupware.Service
	people    people
	stats     counters
}

// NewInbox returns the Inbox.
func NewInbox(d *directory.Directory, g *groupware.Service, t *stat.Tree) *Inbox {
	return &Inbox{groupware: g, people: people{d}, stats: newCounters(t)}
}

// maxText bounds the object of a mail in bytes.
const maxText = 256 << 10

// Read implements mail.Calendars.
func (b *Inbox) Read(ctx context.Context, raw []byte) mail.Invitation {
	if !bytes.Contains(raw, []byte("text/calendar")) && !bytes.Contains(raw, []byte("TEXT/CALENDAR")) {
		return nil
	}
	m := messageIn(raw)
	if m == nil {
		return nil
	}
	author := authorOf(raw)
	x := &incoming{b: b, m: m, ids: map[string]note.UNID{}, rooms: map[note.UNID]bool{}}
	for _, a := range append([]string{author, m.Organizer()}, itip.Attendees(m.Parts)...) {
		if _, known := x.ids[a]; known || a == "" {
			continue
		}
		p, err := b.people.find(ctx, a)
		if err != nil {
			return nil
		}
		x.ids[a] = p.id
		if p.resource {
			x.rooms[p.id] = true
		}
	}
	sender := m.Sender()
	if author == "" || author != sender && (x.ids[author].IsZero() || x.ids[author] != x.ids[sender]) {
		b.stats.refused.Inc()
		return nil
	}
	return x
}

// messageIn returns the scheduling message of a mail, nil if it has none. The parameter method must be equal to METHOD
// (RFC 6047 section 2.4).
func messageIn(raw []byte) *itip.Message {
	var found *mime.Part
	var walk func(p *mime.Part)
	walk = func(p *mime.Part) {
		if found == nil && p.Type == "text" && p.Subtype == "calendar" && p.Param("method") != "" {
			found = p
		}
		if p.IsMultipart() {
			for _, c := range p.Children {
				walk(c)
			}
		}
	}
	if walk(mime.Parse(raw, mime.DefaultLimits)); found == nil {
		return nil
	}
	text, cut := mime.DecodeText(found, raw, maxText)
	if cut {
		return nil
	}
	m, err := itip.Parse([]byte(text))
	if err != nil || !strings.EqualFold(found.Param("method"), m.Method) {
		return nil
	}
	return m
}

// authorOf returns the normalized address of the author of a mail, "" if From does not name exactly one.
func authorOf(raw []byte) string {
	author, n := "", 0
	for f := range mime.Fields(raw[:mime.HeaderEnd(raw)]) {
		if f.Is("From") {
			for _, a := range mime.ParseAddressList(f.Value) {
				author = strings.ToLower(a.Mailbox + "@" + a.Host)
				n++
			}
		}
	}
	if n != 1 {
		return ""
	}
	return author
}

// incoming is the scheduling message of a mail.
type incoming struct {
	b   *Inbox
	m   *itip.Message
	ids map[string]note.UNID // of the people and rooms of this directory among its addresses
	// rooms are those of ids that are rooms. The Reserver answers for them.
	rooms map[note.UNID]bool
}

// Apply implements mail.Invitation.
func (x *incoming) Apply(tx *store.Tx, recipient note.UNID, db note.DatabaseID) error {
	c, err := x.b.groupware.Within(tx, db)
	if err != nil {
		return err
	}
	list, err := c.ByUID(x.m.UID)
	if err != nil {
		return err
	}
	var stored *calendar.Object
	var entry *groupware.Placed
	if len(list) > 0 {
		entry = &list[0]
		if stored, err = calendar.ReadObject(entry.Text); err != nil {
			return nil //nolint:nilerr // it came from a newer program: the person answers by the mail
		}
	}
	if stored == nil && x.ids[x.m.Organizer()].IsZero() {
		return nil
	}
	if stored == nil {
		list, err := c.Gone(x.m.UID)
		if err != nil {
			return err
		}
		stored = ofOrganizer(list, x.m)
	}
	me := func(a string) bool { return x.ids[a] == recipient }
	o, err := itip.Receive(stored, x.m, x.m.Sender(), me)
	if x.early(err) {
		o, err = itip.AnswerOf(x.m, x.m.Sender(), me)
		entry = nil
	}
	if err == nil && x.rooms[recipient] && itip.Status(o, me) == "NEEDS-ACTION" {
		o, err = itip.Waiting(o)
	}
	var p *groupware.Parsed
	if err == nil {
		p, err = groupware.ParseEvent(itip.Print(o))
	}
	if err != nil {
		x.b.stats.refused.Inc()
		return nil //nolint:nilerr // the mail arrives in any case
	}
	return x.write(c, entry, p)
}

// early reports whether an error of itip.Receive is that of an early answer by a person of this directory.
func (x *incoming) early(err error) bool { return early(x.m, err) && !x.ids[x.m.Sender()].IsZero() }

// write writes the event. The mail arrives also if the calendar takes no more.
func (x *incoming) write(c *groupware.Changing, entry *groupware.Placed, p *groupware.Parsed) error {
	p.ScheduleTag = x.b.groupware.NewScheduleTag()
	var err error
	if entry == nil {
		err = c.Invite(p)
	} else {
		if x.m.Method == itip.Reply && entry.ScheduleTag != "" {
			p.ScheduleTag = entry.ScheduleTag
		}
		_, _, err = c.Put(groupware.Calendar, entry.Place.Collection, entry.Place.Name, p,
			groupware.Condition{ETag: entry.ETag})
	}
	if errors.Is(err, mailbox.ErrOverQuota) || errors.Is(err, groupware.ErrFull) ||
		errors.Is(err, groupware.ErrComponent) {
		x.b.stats.refused.Inc()
		return nil
	}
	if err == nil {
		x.b.stats.received.Inc()
	}
	return err
}
