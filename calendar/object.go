package calendar

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"doublet/calendar/recur"
	"doublet/wire/ical"
)

// ErrObject is the error for a text that is no calendar object which a calendar can keep.
var ErrObject = errors.New("no calendar object")

// The kinds of object that a calendar keeps.
const (
	Event   = "VEVENT"
	Task    = "VTODO"
	Journal = "VJOURNAL"
)

// Kinds lists the kinds of object that a calendar keeps.
var Kinds = []string{Event, Task, Journal}

// Object is an event, a task or a journal entry: its component, and one more for each instance that differs.
type Object struct {
	Whole *ical.Component
	Kind  string
	UID   string
	// Parts holds the components of the kind. The master comes first, if there is one: it is the one without a
	// RECURRENCE-ID.
	Parts  []*ical.Component
	master bool
	Series *Series
	// Blobs are those that links are printed with, and that Edit may name in links. nil: links have no blobId.
	Blobs Blobs
}

// Limits bound the objects of calendars. The door bounds their size.
var Limits = ical.Limits{Size: 64 << 20, Lines: 100_000, Depth: 8}

// ReadObject parses an object and checks that a calendar can keep it. Errors match ErrObject, and say why.
//
// Implements: RFC 4791 §4.1 calendar object resource
func ReadObject(text []byte) (*Object, error) {
	all, err := ical.ParseAll(text, Limits)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrObject, err)
	case len(all) != 1:
		return nil, fmt.Errorf("%w: it is not one VCALENDAR", ErrObject)
	}
	return NewObject(all[0])
}

// NewObject checks that a calendar can keep a VCALENDAR. The object keeps the component: later changes of it are not
// seen in the times. Errors match ErrObject.
func NewObject(whole *ical.Component) (*Object, error) {
	switch {
	case whole.Name != "VCALENDAR":
		return nil, fmt.Errorf("%w: it is not one VCALENDAR", ErrObject)
	case whole.Get("METHOD") != nil:
		return nil, fmt.Errorf("%w: METHOD belongs to messages", ErrObject)
	}
	o := &Object{Whole: whole}
	for _, c := range o.Whole.Children {
		if c.Name == "VTIMEZONE" || strings.HasPrefix(c.Name, "X-") {
			continue
		}
		if err := o.add(c); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrObject, err)
		}
	}
	if len(o.Parts) == 0 {
		return nil, fmt.Errorf("%w: it has no event, task or journal entry", ErrObject)
	}
	var err error
	if o.Series, err = newSeries(o); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrObject, err)
	}
	return o, nil
}

// add checks a component against those before it.
func (o *Object) add(c *ical.Component) error {
	uid := strings.TrimSpace(c.Text("UID"))
	switch {
	case c.Name != Event && c.Name != Task && c.Name != Journal:
		return fmt.Errorf("calendars hold no %s", c.Name)
	case o.Kind != "" && c.Name != o.Kind:
		return fmt.Errorf("it has both %s and %s", o.Kind, c.Name)
	case uid == "" || len(uid) > maxUID:
		return fmt.Errorf("%s without a UID of at most %d bytes", c.Name, maxUID)
	case o.UID != "" && uid != o.UID:
		return errors.New("it has more than one UID")
	}
	o.Kind, o.UID = c.Name, uid
	if c.Get("RECURRENCE-ID") != nil {
		o.Parts = append(o.Parts, c)
		return nil
	}
	if o.master {
		return fmt.Errorf("it has more than one %s without a RECURRENCE-ID", c.Name)
	}
	o.Parts, o.master = append([]*ical.Component{c}, o.Parts...), true
	return nil
}

// maxUID bounds the UID of an object, in bytes.
const maxUID = 1000

// times are the times of a component. A time that it has not is zero.
type times struct {
	start, end         ical.Moment // end is DTEND or DUE
	zone, endZone      *ical.Zone  // of start and end; nil means the local time of each place
	completed, created time.Time   // in UTC
	// length is the time from start to end; exact says that a DURATION or an end gives it.
	length time.Duration
	exact  bool
	busy   Busy
}

// zoned finds the zones of an object by TZID, each once.
type zoned struct {
	object *ical.Component
	found  map[string]*ical.Zone
}

// of returns the zone of a moment; nil, without an error, means the local time of each place.
func (z *zoned) of(m ical.Moment) (*ical.Zone, error) {
	if m.Zone == "" {
		return nil, nil
	}
	zone, known := z.found[m.Zone]
	if !known {
		zone = z.object.Zone(m.Zone)
		z.found[m.Zone] = zone
	}
	if zone == nil {
		return nil, fmt.Errorf("its time zone %q is defined nowhere", m.Zone)
	}
	return zone, nil
}

// instant returns the instant of a moment, where local times are those of floating.
func (z *zoned) instant(m ical.Moment, floating *ical.Zone) (time.Time, error) {
	zone, err := z.of(m)
	if zone == nil {
		zone = floating
	}
	if err != nil {
		return time.Time{}, err
	}
	return zone.At(m.Wall), nil
}

// moment returns a property as a time; ok is false if the component has it not.
func moment(c *ical.Component, name string) (m ical.Moment, ok bool, err error) {
	p := c.Get(name)
	if p == nil {
		return m, false, nil
	}
	if m, ok = p.Moment(); !ok {
		return m, false, fmt.Errorf("%s is no time: %.40q", name, p.Value)
	}
	return m, true, nil
}

// readTimes reads the times of a component.
func readTimes(z *zoned, c *ical.Component) (t times, err error) {
	var hasStart, hasEnd bool
	if t.start, hasStart, err = moment(c, "DTSTART"); err != nil {
		return t, err
	}
	if c.Name == Event && !hasStart {
		return t, errors.New("event without DTSTART")
	}
	name := "DTEND"
	if c.Name == Task {
		name = "DUE"
	}
	if t.end, hasEnd, err = moment(c, name); err != nil {
		return t, err
	}
	for name, at := range map[string]*time.Time{"COMPLETED": &t.completed, "CREATED": &t.created} {
		if m, ok := c.Get(name).Moment(); ok {
			*at = m.Wall
		}
	}
	t.busy = busyOf(c)
	switch {
	case hasStart && hasEnd:
		t.exact = true
		if t.start.Day {
			t.length = max(0, t.end.Wall.Sub(t.start.Wall))
			break
		}
		from, err := z.instant(t.start, ical.UTC)
		if err != nil {
			return t, err
		}
		to, err := z.instant(t.end, ical.UTC)
		if err != nil {
			return t, err
		}
		t.length = max(0, to.Sub(from))
	case hasStart:
		if t.length, t.exact = ical.Duration(c.Text("DURATION")); t.length < 0 {
			t.length = 0
		}
		if !t.exact && t.start.Day && c.Name != Task {
			t.length, t.exact = 24*time.Hour, true
		}
	}
	if t.zone, err = z.of(t.start); err == nil {
		t.endZone, err = z.of(t.end)
	}
	return t, err
}

// Busy is the effect of an event on the free time of its owner.
type Busy uint8

// The kinds of time.
const (
	Free Busy = iota
	BusyTentative
	BusyConfirmed
)

// busyOf returns the effect of a component.
func busyOf(c *ical.Component) Busy {
	switch status := strings.ToUpper(c.Text("STATUS")); {
	case c.Name != Event || strings.EqualFold(c.Text("TRANSP"), "TRANSPARENT") || status == "CANCELLED":
		return Free
	case status == "TENTATIVE":
		return BusyTentative
	}
	return BusyConfirmed
}

// rulesOf parses the rules of a component: each RRULE (RFC 5545 allows one, older programs wrote several).
func rulesOf(c *ical.Component) (list []*recur.Rule, err error) {
	for i := range c.Properties {
		p := &c.Properties[i]
		switch p.Name {
		case "EXRULE":
			return nil, errors.New("EXRULE is of a version of iCalendar that is no more")
		case "RRULE":
			r, err := recur.Parse(p.Value)
			if err != nil {
				return nil, err
			}
			if list = append(list, r); len(list) > maxRules {
				return nil, fmt.Errorf("it has more than %d rules", maxRules)
			}
		}
	}
	return list, nil
}

// maxRules bounds the rules of an event.
const maxRules = 10
