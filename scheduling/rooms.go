package scheduling

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"doublet/calendar"
	"doublet/calendar/itip"
	"doublet/directory"
	"doublet/groupware"
	"doublet/note"
	"doublet/wire/ical"
)

// Limits of a booking: how far ahead its last time may be, and how many times it may have.
const (
	maxAhead = 2 * 366 * 24 * time.Hour
	maxTimes = 800
)

// desks are the locks of rooms, by a part of the database id: on one server one booking of a room is decided after the
// other, so that many at once do not repeat each other's work. The state of the calendar in the commit decides in any
// case.
type desks [64]sync.Mutex

// book finds the rooms among the recipients, and decides on their bookings before anybody else gets a message: the
// others see the answers.
func (c *change) book(ctx context.Context) error {
	var rooms []party
	var locks []int
	for _, m := range c.messages {
		p, err := c.find(ctx, itip.Address(m.To))
		if err != nil {
			return err
		}
		if p.resource && c.s.groupware.Leads(p.file) && !slices.ContainsFunc(rooms, func(q party) bool {
			return q.file == p.file
		}) {
			rooms, locks = append(rooms, p), append(locks, int(uint64(p.file)%uint64(len(c.s.desks))))
		}
	}
	slices.Sort(locks)
	for _, i := range slices.Compact(locks) {
		c.s.desks[i].Lock()
		c.locked = append(c.locked, i)
	}
	for _, p := range rooms {
		if err := c.bookOne(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// bookOne applies the messages to one room, and the room's answer to the organizer's object.
func (c *change) bookOne(ctx context.Context, p party) error {
	if err := c.s.groupware.File(note.System, p.file).EnsureCalendar(ctx); err != nil {
		return err
	}
	for _, m := range c.messages {
		if itip.Address(m.To) == p.address {
			if err := c.draft(ctx, m, p); err != nil {
				return err
			}
		}
	}
	d := c.drafts[p.file]
	if d == nil || d.object == nil || c.object == nil || itip.Status(d.object, p.me) == "" {
		return nil
	}
	r, err := c.s.dir.MailIns.Get(ctx, p.id)
	if err != nil {
		return err
	}
	var answer string
	if answer, d.claim, err = c.s.decide(ctx, &r, d.file, d.object, p.me, c.t.File.Who()); err != nil {
		return err
	}
	return c.answered(p, d, answer)
}

// answered writes the answer of a room into both calendars. A booking that was declined is not in the room's calendar
// unless an earlier one was.
func (c *change) answered(p party, d *draft, answer string) error {
	changed, err := itip.WithStatus(d.object, p.me, answer)
	if err != nil {
		return err
	}
	stored, reply, err := itip.Attend(d.object, changed, p.me, c.s.env.Clock.Now())
	if err != nil {
		return err
	}
	if d.object = stored; answer == "DECLINED" && d.stored == nil {
		d.object = nil
	}
	c.s.stats.booked(answer)
	if reply == nil {
		return nil
	}
	o, err := itip.Receive(c.object, reply, p.address, c.me)
	if errors.Is(err, itip.ErrStale) {
		return nil
	}
	if err != nil {
		return err
	}
	c.object = o
	for _, m := range c.messages {
		m.Tell(p.address, answer)
	}
	return nil
}

// decide returns the answer of a room to a booking of who, TENTATIVE while its owners have to decide, and the state of
// the room's calendar that it holds for.
func (s *Service) decide(ctx context.Context, r *directory.MailIn, f *groupware.File, o *calendar.Object,
	me func(string) bool, who note.Who) (answer, state string, err error) {
	if o, err = itip.WithStatus(o, me, "ACCEPTED"); err != nil {
		return "", "", err
	}
	zone := ical.Named(r.Resource.TimeZone)
	list, ok := s.times(&r.Resource, o, zone)
	clash, state, err := f.Clash(ctx, o.UID, list, zone)
	switch owns := who.System || r.Resource.Owns(who); {
	case err != nil:
		return "", "", err
	case !ok || clash:
		return "DECLINED", state, nil
	case len(r.Resource.Owners) == 0 || owns:
		return "ACCEPTED", state, nil
	case r.Resource.Approval:
		return "TENTATIVE", state, nil // the time is held until an owner decides
	}
	return "DECLINED", state, nil
}

// times returns the times of a booking from now on; ok is false for one that reaches too far ahead, has too many times,
// or is outside of the hours.
func (s *Service) times(r *directory.ResourceFields, o *calendar.Object,
	zone *ical.Zone) (list []calendar.Period, ok bool) {
	now := s.env.Clock.Now()
	if _, last := o.Series.Span(); o.Kind != calendar.Event || last > now.Add(maxAhead).Unix() {
		return nil, false
	}
	ok = true
	err := o.Series.Between(now, now.Add(maxAhead), zone, func(x calendar.Occurrence) bool {
		if x.Busy == calendar.Free {
			return true
		}
		list = append(list, calendar.Period{From: x.Start, To: x.End, Busy: x.Busy})
		ok = len(list) <= maxTimes && isOpen(r, zone, x.Start, x.End)
		return ok
	})
	return list, ok && err == nil
}

// isOpen reports whether a time is within the hours of a resource.
func isOpen(r *directory.ResourceFields, zone *ical.Zone, from, to time.Time) bool {
	first, last, err := r.Day()
	if err != nil || r.Hours == "" {
		return err == nil
	}
	a, b := zone.Wall(from), zone.Wall(to)
	day := a.Truncate(24 * time.Hour)
	return !a.Before(day.Add(first)) && !b.After(day.Add(last))
}

// Errors of Decide.
var (
	// ErrNoBooking reports that a room has no booking that waits for a decision.
	ErrNoBooking = errors.New("no booking waits for a decision")
	// ErrTaken reports that the room cannot be booked at the time: it is taken, or outside of the room's hours.
	ErrTaken = errors.New("room cannot be booked at this time")
)

// Booking is a reservation of a room.
type Booking struct {
	UID, Subject, Organizer, Status string
	Start                           time.Time
}

// Bookings lists the reservations of a room, at most limit, those that wait for a decision first.
func (s *Service) Bookings(ctx context.Context, r *directory.MailIn, limit int) (list []Booking, err error) {
	f, me := s.groupware.File(note.System, r.Database), s.people.is(ctx, r.ID)
	zone := ical.Named(r.Resource.TimeZone)
	name, err := f.DefaultFor(ctx, calendar.Event)
	if errors.Is(err, groupware.ErrNoCollection) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	err = f.Entries(ctx, groupware.Calendar, name, groupware.Select{Text: true}, func(e *groupware.Entry) bool {
		o, err := calendar.ReadObject(e.Text)
		if err != nil {
			return true
		}
		list = append(list, Booking{UID: o.UID, Subject: e.Subject, Organizer: organizerOf(o),
			Status: itip.Status(o, me), Start: firstOf(o, zone)})
		return len(list) < maxEntries
	})
	slices.SortStableFunc(list, func(a, b Booking) int {
		if x, y := waits(a.Status), waits(b.Status); x != y {
			if x {
				return -1
			}
			return 1
		}
		return a.Start.Compare(b.Start)
	})
	return list[:min(len(list), limit)], err
}

// firstOf returns the start of the first occurrence of an object, zero if it has none.
func firstOf(o *calendar.Object, floating *ical.Zone) (start time.Time) {
	_ = o.Series.Between(time.Unix(0, 0), time.Unix(1<<33, 0), floating, func(x calendar.Occurrence) bool {
		start = x.Start.UTC()
		return false
	})
	return start
}

// maxEntries bounds the entries that Bookings reads.
const maxEntries = 10_000

func waits(status string) bool { return status == "TENTATIVE" || status == "NEEDS-ACTION" }

// Decide accepts or declines a booking that waits for the owners of a room. Errors match ErrNoBooking or ErrTaken.
func (s *Service) Decide(ctx context.Context, r *directory.MailIn, uid string, accept bool) error {
	b := &booking{room: r, file: s.groupware.File(note.System, r.Database), me: s.people.is(ctx, r.ID)}
	list, err := b.file.ByUID(ctx, uid)
	if err != nil {
		return err
	}
	for _, e := range list {
		o, err := calendar.ReadObject(e.Text)
		if err != nil || !waits(itip.Status(o, b.me)) {
			continue
		}
		b.entry, b.object = e, o
		answer, state := "DECLINED", ""
		if accept {
			answer, state, err = s.decide(ctx, r, b.file, o, b.me, note.System)
			if err == nil && answer != "ACCEPTED" {
				err = ErrTaken
			}
		}
		if err != nil {
			return err
		}
		return s.answer(ctx, b, answer, state)
	}
	return ErrNoBooking
}

// booking is an entry in the calendar of a room that has no answer yet.
type booking struct {
	room   *directory.MailIn
	file   *groupware.File
	me     func(address string) bool
	entry  groupware.Placed
	object *calendar.Object
}

// answer writes the answer to a booking, and sends it. With a state it returns groupware.ErrChanged unless the room's
// calendar is in it.
func (s *Service) answer(ctx context.Context, b *booking, answer, state string) error {
	o, err := itip.WithStatus(b.object, b.me, answer)
	if err != nil {
		return err
	}
	_, err = s.Put(ctx, &Target{File: b.file, Owner: b.room.ID, Place: b.entry.Place, claim: state,
		Condition: groupware.Condition{ETag: b.entry.ETag}}, itip.Print(o))
	if err == nil {
		s.stats.booked(answer)
	}
	return err
}

// Reserver decides on the bookings that came by mail while the home of a room was away, or from other servers.
type Reserver struct {
	s *Service
	// seen has the state of each room's calendar at its last reading.
	seen map[note.DatabaseID]string
	// merged has the moment of each room's calendar up to which its events were merged, see Service.merge.
	merged map[note.DatabaseID]groupware.Moment
}

// NewReserver returns the Reserver. It has one user, the task RnRMgr.
func (s *Service) NewReserver() *Reserver {
	return &Reserver{s, map[note.DatabaseID]string{}, map[note.DatabaseID]groupware.Moment{}}
}

// Run decides on all bookings that wait in the calendars of rooms whose home is here, in the order of their arrival.
func (x *Reserver) Run(ctx context.Context) error {
	var errs []error
	for after, more := "", true; more; {
		list, next, err := x.s.dir.MailIns.List(ctx, "", 200, after)
		if err != nil {
			return err
		}
		for i := range list {
			r := &list[i]
			if r.Resource.Kind == "" || !r.Removed.IsZero() {
				continue
			}
			if !x.s.groupware.Leads(r.Database) {
				delete(x.seen, r.Database)
				continue
			}
			if err := x.one(ctx, r); err != nil {
				errs = append(errs, err)
			}
		}
		after, more = next, next != ""
	}
	return errors.Join(errs...)
}

// one decides on the bookings that wait in the calendar of a room.
func (x *Reserver) one(ctx context.Context, r *directory.MailIn) error {
	f := x.s.groupware.File(note.System, r.Database)
	name, err := f.DefaultFor(ctx, calendar.Event)
	if errors.Is(err, groupware.ErrNoCollection) {
		return nil
	}
	if err != nil {
		return err
	}
	c, err := f.Collection(ctx, groupware.Calendar, name)
	if err != nil || c.Token == x.seen[r.Database] {
		return err
	}
	now, err := x.s.merge(ctx, f, r.ID, true, x.merged[r.Database])
	soon := errors.Is(err, errSoon)
	if err != nil && !soon {
		return err
	}
	x.merged[r.Database] = now
	waiting, taken, err := x.bookings(ctx, r, f, name)
	if err == nil {
		err = x.doubles(ctx, taken)
	}
	for _, b := range waiting {
		if err == nil {
			err = x.answer(ctx, b)
		}
	}
	if err == nil && !soon {
		x.seen[r.Database] = c.Token // that before the answers: the next run reads once more
	}
	return err
}

// bookings returns the bookings in a calendar of a room: those that wait for an answer, and those that have the room.
func (x *Reserver) bookings(ctx context.Context, r *directory.MailIn, f *groupware.File,
	name string) (waiting, taken []*booking, err error) {
	me := x.s.people.is(ctx, r.ID)
	err = f.Entries(ctx, groupware.Calendar, name, groupware.Select{Text: true}, func(e *groupware.Entry) bool {
		o, err := calendar.ReadObject(e.Text)
		if err != nil || o.Parts[0].Text("STATUS") == "CANCELLED" {
			return true
		}
		b := &booking{r, f, me, groupware.Placed{Place: groupware.Place{Collection: name, Name: e.Name}, Entry: *e}, o}
		switch itip.Status(o, me) {
		case "NEEDS-ACTION":
			waiting = append(waiting, b)
		case "ACCEPTED", "TENTATIVE":
			taken = append(taken, b)
		}
		return true
	})
	return waiting, taken, err
}

// answer decides on one booking, in the name of its organizer, and sends the answer.
func (x *Reserver) answer(ctx context.Context, b *booking) error {
	who := note.Who{} // somebody of another server
	if from, err := itip.OrganizerOf(b.object); err == nil {
		if p, err := x.s.people.find(ctx, from); err == nil && !p.id.IsZero() {
			if known, err := x.s.dir.Names.WhoOf(ctx, p.id); err == nil {
				who = known
			}
		}
	}
	answer, state, err := x.s.decide(ctx, b.room, b.file, b.object, b.me, who)
	if err != nil {
		return err
	}
	return x.s.answer(ctx, b, answer, state)
}
