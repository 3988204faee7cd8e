package scheduling

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"doublet/calendar"
	"doublet/calendar/itip"
	"doublet/groupware"
	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
)

// change is one change of an entry with the messages that follow from it.
type change struct {
	s        *Service
	t        *Target
	old      *groupware.Entry
	parsed   *groupware.Parsed // as the client wrote it, nil for a removal
	object   *calendar.Object  // to store in its place, nil if the client's is stored
	me       func(address string) bool
	from     string // the address of the owner that the messages come from, normalized
	messages []*itip.Message
	parties  map[string]party // those that find found, by normalized address
	drafts   map[note.DatabaseID]*draft
	outside  []*itip.Message
	states   map[string]string // SCHEDULE-STATUS by normalized address
	held     []*groupware.Parsed
	locked   []int             // of the desks
	inline   map[string]string // managed attachments in base64 by MANAGED-ID, see inlineText
	// gone are the removed entries with the UID of a new event of the organizer.
	gone []*calendar.Object
}

// draft is the event in the calendar of somebody else, as it will be after the messages.
type draft struct {
	to     string // normalized address
	file   *groupware.File
	stored *groupware.Placed // nil for an event that is new there
	object *calendar.Object  // nil if nothing changes
	tag    string            // Schedule-Tag
	claim  string            // state of the calendar in which a room is free, "" for a person
	write  *groupware.Parsed
}

func (c *change) release() {
	for _, p := range c.held {
		p.Release()
	}
	c.leave()
}

// leave unlocks the desks.
func (c *change) leave() {
	for _, i := range c.locked {
		c.s.desks[i].Unlock()
	}
	c.locked = nil
}

// rules finds the messages and the object to store.
func (c *change) rules(was, now *calendar.Object, before, after role) (err error) {
	switch {
	case before == attendee && now != nil && organizerOf(was) != organizerOf(now),
		before == organizer && after == attendee: // the organizer hands the event to somebody else
		return itip.ErrNotAllowed
	case before == attendee:
		return c.attend(was, now)
	case after == attendee:
		return c.attend(nil, now)
	}
	x := itip.Change{Me: c.me, Now: c.s.env.Clock.Now(), KeepStatus: c.t.Condition.ScheduleTag != ""}
	if before == organizer {
		x.Old = was
	}
	if after == organizer {
		x.New = now
	}
	x.Gone = c.gone
	c.from = organizerOf(cmp.Or(x.New, x.Old))
	c.object, c.messages, err = itip.Organize(x)
	return err
}

func (c *change) attend(was, now *calendar.Object) error {
	o, m, err := itip.Attend(was, now, c.me, c.s.env.Clock.Now())
	if err != nil {
		return err
	}
	c.object = o
	if m != nil && !(now == nil && c.t.Silent) {
		c.messages, c.from = []*itip.Message{m}, m.Sender()
	}
	return nil
}

// find finds the party of a normalized address, once in a change.
func (c *change) find(ctx context.Context, address string) (party, error) {
	if p, known := c.parties[address]; known {
		return p, nil
	}
	p, err := c.s.people.find(ctx, address)
	if err == nil {
		c.parties[address] = p
	}
	return p, err
}

// address sorts the messages: those to calendars here become drafts, the others go by mail.
func (c *change) address(ctx context.Context) error {
	if err := c.book(ctx); err != nil {
		return err
	}
	for _, m := range c.messages {
		p, err := c.find(ctx, itip.Address(m.To))
		if err != nil {
			return err
		}
		switch {
		case p.unknown:
			c.states[p.address] = itip.InvalidUser
		case p.resource && c.drafts[p.file] != nil: // it is booked
		case p.file != 0 && c.s.groupware.Leads(p.file):
			if err := c.draft(ctx, m, p); err != nil {
				return err
			}
		case len(c.outside) >= maxOutside:
			c.states[p.address] = itip.Undelivered
		default:
			c.outside = append(c.outside, m)
			c.states[p.address] = itip.Pending
		}
	}
	return c.share(ctx)
}

// draft applies a message to the calendar of a person here.
func (c *change) draft(ctx context.Context, m *itip.Message, p party) error {
	d, err := c.open(ctx, p, m.UID)
	if err != nil {
		return err
	}
	stored := d.object
	if stored == nil && d.stored != nil {
		if stored, err = calendar.ReadObject(d.stored.Text); err != nil {
			c.states[p.address] = itip.Refused
			return nil
		}
	}
	if stored == nil {
		list, err := d.file.Gone(ctx, m.UID)
		if err != nil {
			return err
		}
		stored = ofOrganizer(list, m)
	}
	o, err := itip.Receive(stored, m, c.from, p.me)
	if early(m, err) {
		o, err = itip.AnswerOf(m, c.from, p.me)
		d.stored = nil
	}
	if err != nil {
		c.states[p.address] = stateAfter(m, err)
		return nil
	}
	c.states[p.address] = itip.Delivered
	d.object, d.tag = o, c.s.groupware.NewScheduleTag()
	if m.Method == itip.Reply && d.stored != nil && d.stored.ScheduleTag != "" {
		d.tag = d.stored.ScheduleTag // RFC 6638 section 3.2.10: an answer does not change it
	}
	return nil
}

// early reports whether an error of itip.Receive is that of an answer to an event, or a version of it, that may only
// not have come yet from another server that was the primary of the calendar.
func early(m *itip.Message, err error) bool {
	return m.Method == itip.Reply && (errors.Is(err, itip.ErrUnknown) || errors.Is(err, itip.ErrAhead))
}

// stateAfter returns the delivery state of a message that itip.Receive refused with an error. An event that a
// cancellation does not find was removed before.
func stateAfter(m *itip.Message, err error) string {
	if m.Method == itip.Cancel && errors.Is(err, itip.ErrUnknown) {
		return itip.Delivered
	}
	return itip.Refused
}

// ofOrganizer returns the last cancelled event of some removed ones that has the organizer of a message, nil for none.
func ofOrganizer(list []*groupware.Departed, m *itip.Message) (last *calendar.Object) {
	for _, e := range list {
		if itip.IsCancelled(e.Object) && organizerOf(e.Object) == m.Organizer() {
			last = e.Object
		}
	}
	return last
}

// open returns the draft of the calendar of a person.
func (c *change) open(ctx context.Context, p party, uid string) (*draft, error) {
	if d := c.drafts[p.file]; d != nil {
		return d, nil
	}
	d := &draft{to: p.address, file: c.s.groupware.File(note.System, p.file)}
	list, err := d.file.ByUID(ctx, uid)
	if err != nil {
		return nil, err
	}
	if len(list) > 0 {
		d.stored = &list[0]
	}
	c.drafts[p.file] = d
	return d, nil
}

// run makes the change in one commit with the calendars of others here, then sends mail to the rest.
func (c *change) run(ctx context.Context) (Written, error) {
	if err := c.prepare(ctx); err != nil {
		return Written{}, err
	}
	list := c.list()
	files := []*groupware.File{c.t.File}
	for _, d := range list {
		files = append(files, d.file)
	}
	var w Written
	refused := false
	err := c.s.groupware.Change(ctx, files, func(all []*groupware.Changing) (err error) {
		refused = false
		if w, err = c.own(all[0]); err != nil {
			return err
		}
		for i, d := range list {
			d.write.Offer(c.t.offers(w.Attachments)...)
			err := d.put(all[i+1])
			var conflict *groupware.UIDConflictError // the event came by mail meanwhile
			switch {
			case errors.Is(err, groupware.ErrChanged), errors.Is(err, groupware.ErrNoCollection),
				errors.As(err, &conflict):
				return errAgain
			case errors.Is(err, mailbox.ErrOverQuota), errors.Is(err, groupware.ErrFull),
				errors.Is(err, groupware.ErrComponent):
				c.states[d.to], refused = itip.Undelivered, true
			case err != nil:
				return err
			}
		}
		return nil
	})
	c.leave()
	if errors.Is(err, store.ErrNotHome) && c.s.groupware.Leads(c.t.File.Database()) {
		err = errAgain // a mail file moved to another server: its owner gets mail
	}
	if err != nil {
		return w, err
	}
	c.s.stats.delivered.Add(uint64(len(list)))
	if len(c.outside) > 0 || refused {
		c.mail(ctx)
		if e, err := c.record(ctx); err == nil && e != nil {
			w.Entry = *e
		}
	}
	return w, nil
}

// list returns the drafts that are written.
func (c *change) list() (list []*draft) {
	for _, d := range c.drafts {
		if d.write != nil {
			list = append(list, d)
		}
	}
	slices.SortFunc(list, func(a, b *draft) int { return int(a.file.Database()) - int(b.file.Database()) })
	return list
}

// prepare prints and parses what the commit writes.
func (c *change) prepare(ctx context.Context) error {
	parse := func(f *groupware.File, o *calendar.Object, tag string) (*groupware.Parsed, error) {
		p, err := f.Parse(ctx, groupware.Calendar, itip.Print(o))
		if err == nil {
			p.ScheduleTag = tag
			c.held = append(c.held, p)
		}
		return p, err
	}
	for _, d := range c.drafts {
		if d.object == nil {
			continue
		}
		var err error
		if d.write, err = parse(d.file, d.object, d.tag); err != nil {
			return err
		}
	}
	if c.object == nil {
		return nil
	}
	o, err := itip.SetStatus(c.object, c.states)
	if err != nil {
		return err
	}
	c.object = o
	c.parsed, err = parse(c.t.File, o, c.s.groupware.NewScheduleTag())
	return err
}

// own writes the entry itself.
func (c *change) own(x *groupware.Changing) (w Written, err error) {
	now := groupware.Condition{New: true}
	if c.old != nil {
		now = groupware.Condition{ETag: c.old.ETag}
	}
	if err := x.Unchanged(c.t.claim); err != nil {
		return w, err
	}
	put := func() (err error) {
		c.t.offer(c.parsed)
		w.Entry, w.Created, err = x.Put(groupware.Calendar, c.t.Collection, c.t.Name, c.parsed, now)
		w.Changed = c.object != nil
		return err
	}
	switch {
	case c.t.torn != nil && c.parsed == nil:
		err = c.t.torn.Settle(x, nil)
	case c.t.torn != nil:
		err = c.t.torn.Settle(x, put)
	case c.parsed == nil:
		err = x.Remove(groupware.Calendar, c.t.Collection, c.t.Name, now)
	default:
		err = put()
	}
	if errors.Is(err, groupware.ErrChanged) {
		err = errAgain
	}
	return w, err
}

// put writes a draft, without new attachments if they have no room.
func (d *draft) put(x *groupware.Changing) error {
	err := d.putWhole(x)
	if errors.Is(err, mailbox.ErrOverQuota) && d.write.Withdraw() {
		err = d.putWhole(x)
	}
	return err
}

// putWhole writes a draft. If it has no room, nothing is written.
func (d *draft) putWhole(x *groupware.Changing) error {
	if err := x.Unchanged(d.claim); err != nil {
		return err
	}
	if d.stored == nil {
		return x.Invite(d.write)
	}
	_, _, err := x.Put(groupware.Calendar, d.stored.Place.Collection, d.stored.Place.Name, d.write,
		groupware.Condition{ETag: d.stored.ETag})
	return err
}

// record writes the delivery states of mails into the entry.
func (c *change) record(ctx context.Context) (*groupware.Entry, error) {
	if c.object == nil {
		return nil, nil
	}
	for range maxAttempts {
		e, err := c.t.File.Entry(ctx, groupware.Calendar, c.t.Collection, c.t.Name)
		if err != nil {
			return nil, err
		}
		o, err := calendar.ReadObject(e.Text)
		if err != nil {
			return nil, err
		}
		if o, err = itip.SetStatus(o, c.states); err != nil {
			return nil, err
		}
		p, err := c.t.File.Parse(ctx, groupware.Calendar, itip.Print(o))
		if err != nil {
			return nil, err
		}
		p.ScheduleTag = e.ScheduleTag
		c.held = append(c.held, p)
		err = c.t.File.Change(ctx, func(x *groupware.Changing) error {
			e, _, err = x.Put(groupware.Calendar, c.t.Collection, c.t.Name, p, groupware.Condition{ETag: e.ETag})
			return err
		})
		if !errors.Is(err, groupware.ErrChanged) {
			return &e, err
		}
	}
	return nil, groupware.ErrChanged
}
