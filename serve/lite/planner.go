package lite

import (
	"errors"
	"slices"
	"strings"
	"time"

	"doublet/calendar"
	"doublet/groupware"
	"doublet/note"
	"doublet/store"
	"doublet/wire/ical"
)

// planner is the calendars and address books of the selected mail file, as the user sees them.
type planner struct {
	*groupware.File
	v     *visit
	zone  *ical.Zone // of times without one, and of the page
	owner note.UNID  // whose mail file it is, zero for nobody's
	name  string
	// addresses are the owner's, in lower case, the usual one first.
	addresses []string
}

// planner opens the calendars and address books of the selected mail file. It creates the standard ones of the user's
// own, as the doors of CalDAV and JMAP do.
func (v *visit) planner() (*planner, error) {
	p := &planner{File: v.s.plans.File(v.id.Who, v.box.db), v: v, zone: ical.In(v.Location)}
	if v.box.ID == "" {
		if err := p.Ensure(v.ctx, p.zone.Name); err != nil && !errors.Is(err, store.ErrNotHome) {
			return nil, err
		}
	}
	var err error
	if p.owner, err = p.Owner(v.ctx); err != nil || p.owner.IsZero() {
		return p, err
	}
	person, err := v.s.dir.Names.Person(v.ctx, p.owner)
	if err != nil {
		return nil, err
	}
	p.name = person.Name()
	for _, a := range person.Addresses() {
		p.addresses = append(p.addresses, strings.ToLower(a))
	}
	return p, nil
}

// me reports whether a normalized address is the owner's.
func (p *planner) me(address string) bool { return slices.Contains(p.addresses, address) }

// calendars returns the calendars of events whose entries the user may read.
func (p *planner) calendars() ([]groupware.Collection, error) { return p.holding(calendar.Event) }

// holding returns the collections that take entries of a component and whose entries the user may read.
func (p *planner) holding(component string) (list []groupware.Collection, err error) {
	all, err := p.Collections(p.v.ctx, groupware.Calendar)
	for i := range all {
		c := &all[i]
		if c.Rights&note.Read != 0 && (len(c.Components) == 0 || slices.Contains(c.Components, component)) {
			list = append(list, *c)
		}
	}
	return list, err
}

// collectionOf returns the collection with a UNID, nil if it is not in the list.
func collectionOf(list []groupware.Collection, u note.UNID) *groupware.Collection {
	for i := range list {
		if list[i].UNID == u {
			return &list[i]
		}
	}
	return nil
}

// found is an entry of a calendar or of a task list, with its event or task.
type found struct {
	groupware.Entry
	object *calendar.Object
	in     *groupware.Collection
	// at is the instance that was asked for, nil for the event or task as a whole.
	at *calendar.Occurrence
}

// instanceForm is the form of the time that names an instance in an address.
const instanceForm = "20060102T150405"

// event reads the event that the request names, and its instance if it names one.
func (p *planner) event() (*found, error) { return p.find(calendar.Event) }

// find reads the event or the task that the request names, and its instance if it names one.
func (p *planner) find(component string) (*found, error) {
	id, err := unid(p.v.form.Get("e"))
	if err != nil {
		return nil, err
	}
	list, err := p.holding(component)
	if err != nil {
		return nil, err
	}
	x := &found{}
	err = p.ByID(p.v.ctx, groupware.Calendar, []note.UNID{id}, true, func(e *groupware.Entry) bool {
		if o, err := calendar.ReadObject(e.Text); err == nil && e.Component == component {
			x.Entry, x.object, x.in = *e, o, collectionOf(list, e.Collection)
		}
		return false
	})
	if err == nil && (x.object == nil || x.in == nil) {
		err = errNotFound
	}
	at := p.v.form.Get("at")
	if err != nil || at == "" {
		return x, err
	}
	t, err := time.Parse(instanceForm, at)
	one, ok := x.object.Instance(t)
	if err != nil || !ok {
		return nil, errNotFound
	}
	x.at = &one
	return x, nil
}

// place returns the entry's place.
func (x *found) place() groupware.Place { return groupware.Place{Collection: x.in.Name, Name: x.Name} }

// may reports whether the user has a right in the event's calendar.
func (x *found) may(r note.Rights) bool { return x.in.Rights&r != 0 }

// part returns the component of the instance, or of the event.
func (x *found) part() *ical.Component {
	if x.at != nil {
		return x.object.Parts[x.at.Part]
	}
	return x.object.Parts[0]
}

// span returns the time of the instance, or that of the first one.
func (x *found) span(zone *ical.Zone) (from, to time.Time) {
	if x.at != nil {
		return x.at.Start, x.at.End
	}
	_ = x.object.Series.Between(time.Unix(-1<<40, 0), time.Unix(1<<40, 0), zone, func(o calendar.Occurrence) bool {
		from, to = o.Start, o.End
		return false
	})
	return from, to
}

// isDay reports whether a component lasts whole days.
func isDay(c *ical.Component) bool {
	m, ok := c.Get("DTSTART").Moment()
	return ok && m.Day
}
