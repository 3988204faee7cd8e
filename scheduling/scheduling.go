// Package scheduling carries invitations and answers between calendars: to people whose mail file is here in the commit
// of the change, to all others by mail (iMIP). Package calendar/itip has the rules, package groupware the calendars.
//
// Implements: RFC 6638 Scheduling Extensions to CalDAV
package scheduling

import (
	"context"
	"errors"

	"doublet/calendar"
	"doublet/calendar/itip"
	"doublet/directory"
	"doublet/env"
	"doublet/groupware"
	"doublet/mail"
	"doublet/note"
	"doublet/stat"
	"doublet/store"
)

// maxOutside bounds the recipients of other servers to whom one change sends messages. maxShared bounds the attendees
// up to which the answer of one is written into the calendars of the others.
const (
	maxOutside = 100
	maxShared  = 50
)

// maxAttempts bounds the attempts of a change that meets others in the same calendars.
const maxAttempts = 16

// ErrElsewhere reports that another calendar of the person has the event already, with its place.
type ErrElsewhere struct{ groupware.Place }

// Error implements error.
func (e *ErrElsewhere) Error() string {
	return "event is in calendar " + e.Collection + " already, as " + e.Name
}

// Options are the settings of the Service.
type Options struct {
	// Hostname is the server's name in the boundary and the identifiers of mails.
	Hostname string
	// Elsewhere asks other servers for busy times. nil: nobody is asked.
	Elsewhere Elsewhere
	Stats     *stat.Tree
}

// Service schedules: it takes the changes of calendars that may invite or answer people.
type Service struct {
	env       *env.Env
	dir       *directory.Directory
	groupware *groupware.Service
	mail      *mail.Service
	opt       Options
	people    people
	stats     counters
	desks     desks
}

// New returns the service.
func New(e *env.Env, d *directory.Directory, g *groupware.Service, m *mail.Service, o Options) *Service {
	return &Service{env: e, dir: d, groupware: g, mail: m, opt: o, people: people{d}, stats: newCounters(o.Stats)}
}

// Target is the entry of a calendar that somebody writes or removes.
type Target struct {
	// File is the mail file as the person sees it who writes. Owner is the person whose mail file it is.
	File  *groupware.File
	Owner note.UNID
	groupware.Place
	Condition groupware.Condition
	// Silent leaves out the answer to the organizer when an attendee removes an event.
	//
	// Implements: RFC 6638 §8.1 Schedule-Reply Request Header
	Silent bool
	// New holds managed attachments that the text may name, though neither the entry that it replaces nor another one
	// has them.
	New []groupware.Attachment

	// torn has the versions of the event that the change replaces, nil for a change of a person.
	torn  *groupware.Torn
	claim string // state of the calendar of a room that answers, see groupware.Changing.Unchanged; "" for any
}

// Written is an entry that was written.
type Written struct {
	groupware.Entry
	Created bool
	// Changed is set if the server stored another text than the client wrote: with versions and delivery states, or
	// with other addresses of managed attachments.
	Changed bool
}

// Put writes an entry of a calendar, and sends the messages that follow from it. Errors, besides those of
// groupware.Changing.Put: itip.ErrNotAllowed, itip.ErrOrganizers, itip.ErrTooMany, *ErrElsewhere, and store.ErrDenied
// if the person may not write in the name of the owner.
func (s *Service) Put(ctx context.Context, t *Target, text []byte) (Written, error) {
	p, err := t.File.Parse(ctx, groupware.Calendar, text)
	if err != nil {
		return Written{}, err
	}
	defer p.Release()
	return s.attempt(ctx, t, p)
}

// Remove removes an entry of a calendar, and sends the messages that follow from it.
func (s *Service) Remove(ctx context.Context, t *Target) error {
	_, err := s.attempt(ctx, t, nil)
	return err
}

// errAgain reports that a calendar changed between the reading and the update.
var errAgain = errors.New("scheduling: a calendar changed meanwhile")

// attempt makes a change, again if another one of the same calendars is faster. p is nil for a removal.
func (s *Service) attempt(ctx context.Context, t *Target, p *groupware.Parsed) (w Written, err error) {
	for range maxAttempts {
		w, err = s.try(ctx, t, p)
		if !errors.Is(err, errAgain) {
			return w, err
		}
	}
	return w, groupware.ErrChanged
}

func (s *Service) try(ctx context.Context, t *Target, p *groupware.Parsed) (w Written, err error) {
	var old *groupware.Entry
	e, err := t.File.Entry(ctx, groupware.Calendar, t.Collection, t.Name)
	switch {
	case err == nil:
		old = &e
	case p == nil || !errors.Is(err, groupware.ErrNoEntry):
		return w, err
	}
	if !t.Condition.Holds(old) {
		return w, groupware.ErrChanged
	}
	c, err := s.plan(ctx, t, old, p)
	if err != nil {
		return w, err
	}
	if c == nil { // it invites nobody: it is stored as it is
		err = t.File.Change(ctx, func(x *groupware.Changing) (err error) {
			if p == nil {
				return x.Remove(groupware.Calendar, t.Collection, t.Name, t.Condition)
			}
			t.offer(p)
			w.Entry, w.Created, err = x.Put(groupware.Calendar, t.Collection, t.Name, p, t.Condition)
			w.Changed = p.Rewritten
			return err
		})
		return w, err
	}
	defer c.release()
	return c.run(ctx)
}

// plan returns the change with its messages, nil if it concerns nobody else.
func (s *Service) plan(ctx context.Context, t *Target, old *groupware.Entry, p *groupware.Parsed) (*change, error) {
	c := s.newChange(ctx, t)
	c.old, c.parsed = old, p
	var was, now *calendar.Object
	if old != nil {
		was, _ = calendar.ReadObject(old.Text) // one of a newer program schedules nothing
	}
	if p != nil {
		now = p.Object
	}
	before, err := roleOf(was, c.me)
	if err != nil {
		before = bystander
	}
	after, err := roleOf(now, c.me)
	if err == nil && after != bystander {
		err = s.unique(ctx, t, now.UID)
	}
	if err != nil {
		return nil, err
	}
	if before == bystander && after == bystander {
		return nil, nil
	}
	if err := c.compose(ctx, was, now, before, after); err != nil {
		return nil, err
	}
	if err := c.address(ctx); err != nil {
		c.release()
		return nil, err
	}
	return c, nil
}

// compose finds the messages and the object of the change, and checks that the person may send the messages.
func (c *change) compose(ctx context.Context, was, now *calendar.Object, before, after role) error {
	if after == organizer && before == bystander {
		if err := c.findGone(ctx, now.UID); err != nil {
			return err
		}
	}
	if err := c.rules(was, now, before, after); err != nil {
		return err
	}
	if len(c.messages) == 0 {
		return nil
	}
	return c.s.mayWrite(ctx, c.t, c.from)
}

func (s *Service) newChange(ctx context.Context, t *Target) *change {
	return &change{s: s, t: t, me: s.people.is(ctx, t.Owner), states: map[string]string{}, parties: map[string]party{},
		drafts: map[note.DatabaseID]*draft{}, inline: map[string]string{}}
}

// findGone finds the removed entries of the owner with the UID of a new event.
func (c *change) findGone(ctx context.Context, uid string) error {
	list, err := c.s.groupware.File(note.System, c.t.File.Database()).Gone(ctx, uid)
	for _, e := range list {
		c.gone = append(c.gone, e.Object)
	}
	return err
}

// unique checks that no other calendar of the person has the event.
//
// Implements: RFC 6638 §3.2.4.1 CALDAV:unique-scheduling-object-resource
func (s *Service) unique(ctx context.Context, t *Target, uid string) error {
	list, err := s.groupware.File(note.System, t.File.Database()).ByUID(ctx, uid)
	if err != nil {
		return err
	}
	for _, e := range list {
		if e.Place.Collection != t.Collection {
			return &ErrElsewhere{e.Place}
		}
	}
	return nil
}

// mayWrite checks that the person who writes may send messages in the name of an address of the owner.
func (s *Service) mayWrite(ctx context.Context, t *Target, address string) error {
	who := t.File.Who()
	if who.System || who.Person == t.Owner {
		return nil
	}
	right, err := s.dir.Names.SendRight(ctx, who, address)
	if err == nil && right == directory.SendNever {
		err = store.ErrDenied
	}
	return err
}

// role is the part that a person has in an event.
type role uint8

const (
	bystander role = iota
	organizer
	attendee
)

// roleOf returns the role of a person in an object; nil is no event.
func roleOf(o *calendar.Object, me func(string) bool) (role, error) {
	if o == nil || o.Kind == calendar.Journal {
		return bystander, nil
	}
	from, err := itip.OrganizerOf(o)
	if err != nil || from == "" {
		return bystander, err
	}
	list := itip.Attendees(o.Parts)
	if len(list) > itip.MaxAttendees {
		return bystander, itip.ErrTooMany
	}
	mine := me(from)
	for _, a := range list {
		switch is := me(a); {
		case mine && !is:
			return organizer, nil
		case !mine && is:
			return attendee, nil
		}
	}
	return bystander, nil
}

// organizerOf returns the normalized address of the organizer of an object, "" if it has none or several.
func organizerOf(o *calendar.Object) string {
	address, _ := itip.OrganizerOf(o)
	return address
}
