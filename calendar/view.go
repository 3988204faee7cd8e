package calendar

import (
	"slices"
	"strconv"
	"time"

	"doublet/wire/ical"
	"doublet/wire/jmap"
)

// View selects what is printed of an event.
type View struct {
	// Properties lists the properties; nil means all that the event has, but those in UTC and isDraft.
	Properties []string
	// After and Before bound the instances of recurrenceOverrides: After ≤ t < Before. A zero time is no bound.
	After, Before time.Time
	// Sees reports whether a participant with an address in lower case is printed; nil means all are. Owners always
	// are.
	Sees func(address string) bool
	// Floating is the time zone for the times in UTC of an event without one.
	Floating *ical.Zone
}

// wants reports whether a property is printed.
func (v *View) wants(name string) bool {
	if v.Properties == nil {
		return !inUTC(name) && name != "isDraft"
	}
	return slices.Contains(v.Properties, name)
}

// defaults has the values of properties that an event does not have, as JSON. Those of all others are null.
var defaults = map[string]string{"sequence": "0", "title": `""`, "description": `""`,
	"descriptionContentType": `"text/plain"`, "duration": `"PT0S"`, "showWithoutTime": "false", "status": `"confirmed"`,
	"priority": "0", "freeBusyStatus": `"busy"`, "privacy": `"public"`, "useDefaultAlerts": "false",
	"progress":      `"needs-action"`,
	"mayInviteSelf": "false", "mayInviteOthers": "false", "hideAttendees": "false", "isDraft": "false"}

// Append prints the members of the event: a series with its overrides, or the first instance of an object that has
// instances alone. Of the properties that the View names it prints those that the event does not have with their
// defaults.
//
// Implements: RFC 8984 §5.1 Event
func (o *Object) Append(w *jmap.Writer, v *View) {
	e := o.view(o.Parts[0], v)
	if o.master && v.wants("recurrenceOverrides") {
		read := func(c *ical.Component) *jmap.Value { return o.view(c, v).value() }
		if list := o.overrides(e.value(), read, v.After, v.Before); len(list.keys) > 0 {
			w.Name("recurrenceOverrides")
			all := list.object()
			w.B = all.Append(w.B)
		} else if v.Properties != nil {
			w.Raw("recurrenceOverrides", "null")
		}
	}
	e.appendTo(w, v, ofSeries)
}

// AppendInstance prints the members of one instance of the event, with the properties that override those of the
// series.
//
// Implements: draft-ietf-jmap-calendars §5.7 CalendarEvent/get of an instance
func (o *Object) AppendInstance(w *jmap.Writer, x Occurrence, v *View) {
	e := o.instance(x)
	e.sees, e.floating = v.Sees, v.Floating
	if v.wants("recurrenceId") {
		w.Text("recurrenceId", x.ID.Format(localTime))
	}
	if v.wants("recurrenceIdTimeZone") {
		if zone := o.zoneName(); zone != "" {
			w.Text("recurrenceIdTimeZone", zone)
		} else if v.Properties != nil {
			w.Raw("recurrenceIdTimeZone", "null")
		}
	}
	for _, name := range ofInstance[2:] {
		if v.Properties != nil && v.wants(name) {
			w.Raw(name, "null")
		}
	}
	e.appendTo(w, v, ofInstance)
}

// zoneName returns the time zone of the series, "" for none.
func (o *Object) zoneName() string {
	m, _ := o.Parts[0].Get("DTSTART").Moment()
	name, _, _ := o.event(o.Parts[0]).instant(m)
	return name
}

func (o *Object) view(c *ical.Component, v *View) *event {
	return &event{object: o.Whole, c: c, sees: v.Sees, blobs: o.Blobs, floating: v.Floating}
}

// ofSeries lists properties that Append prints by itself, ofInstance those that AppendInstance does.
var (
	ofSeries   = []string{"recurrenceOverrides"}
	ofInstance = []string{"recurrenceId", "recurrenceIdTimeZone", "recurrenceRules", "recurrenceOverrides",
		"excludedRecurrenceRules"}
)

// appendTo prints the members of the component that are wanted, but those of done.
func (e *event) appendTo(w *jmap.Writer, v *View, done []string) {
	printUTC(e, w, v.wants)
	if e.c.Get(propExtra) != nil {
		e.appendValue(w, v, done)
		return
	}
	if v.Properties == nil {
		e.print(w, v.wants)
		return
	}
	for _, name := range v.Properties {
		if inUTC(name) || slices.Contains(done, name) {
			continue
		}
		before := len(w.B)
		if f := fieldFor(e.c.Name, name); f != nil {
			f.print(e, w, func(s string) bool { return s == name })
		}
		if len(w.B) == before {
			appendDefault(w, name)
		}
	}
}

// appendValue is appendTo for an event with parts in JSPROP.
func (e *event) appendValue(w *jmap.Writer, v *View, done []string) {
	all := e.value()
	for i := range all.Len() {
		if name := all.Name(i); v.wants(name) && !slices.Contains(done, name) {
			w.Key(name)
			w.B = all.At(i).Append(w.B)
		}
	}
	for _, name := range v.Properties {
		if !inUTC(name) && !slices.Contains(done, name) && all.Get(name) == nil {
			appendDefault(w, name)
		}
	}
}

// appendDefault prints the value of a property that an event does not have.
func appendDefault(w *jmap.Writer, name string) {
	w.Key(name)
	if json, ok := defaults[name]; ok {
		w.B = append(w.B, json...)
		return
	}
	w.B = append(w.B, "null"...)
}

// instance returns the event that an occurrence is: its component, or that of the series at another time.
func (o *Object) instance(x Occurrence) *event {
	from := o.Parts[x.Part]
	c := &ical.Component{Name: from.Name, Children: from.Children}
	z := &zoned{object: o.Whole, found: map[string]*ical.Zone{}}
	start, _ := from.Get("DTSTART").Moment()
	moved := true
	if m, ok := from.Get("RECURRENCE-ID").Moment(); ok {
		moved = !o.at(z, m).Equal(x.ID)
	}
	wall := func(at time.Time) time.Time {
		if zone, _ := z.of(start); zone != nil {
			return zone.Wall(at)
		}
		return at
	}
	set := func(p ical.Property, at time.Time) ical.Property { return onClocks(p.Name, from.Get("DTSTART"), at) }
	for _, p := range from.Properties {
		switch {
		case p.Name == "RRULE", p.Name == "RDATE", p.Name == "EXDATE", p.Name == "RECURRENCE-ID":
			continue
		case p.Name == "DTSTART" && moved:
			p = set(p, wall(x.Start))
		case p.Name == "DTEND" && moved:
			p = set(p, wall(x.End))
		case p.Name == "DUE" && moved && from.Get("DTSTART") != nil: // on its clocks, as instanceOf moves it
			due, _ := o.event(from).due()
			p = set(p, due.Add(wall(x.Start).Sub(start.Wall)))
		}
		c.Properties = append(c.Properties, p)
	}
	return o.event(c)
}

// onClocks returns a property with a time in the form, and on the clocks, of another property.
func onClocks(name string, of *ical.Property, wall time.Time) ical.Property {
	p := ical.Property{Name: name, Params: of.Params, Value: wall.Format(wallTime)}
	if m, _ := of.Moment(); m.Day {
		p.Value = wall.Format(dayForm)
	} else if m.Zone == "UTC" {
		p.Value += "Z"
	}
	return p
}

// Instance returns the instance of the object with a time as its recurrenceId; ok is false if it has none.
func (o *Object) Instance(id time.Time) (found Occurrence, ok bool) {
	take := func(x Occurrence) bool {
		if x.ID.Equal(id) {
			found, ok = x, true
		}
		return !ok
	}
	for i := range o.Series.instances {
		x := &o.Series.instances[i]
		s := &Series{kind: o.Kind, instances: []instance{*x}}
		w := window{s: s, from: time.Unix(-1<<40, 0), to: time.Unix(1<<40, 0), floating: ical.UTC, yield: take}
		own := x.id.Wall
		if m := o.Series.master; m != nil && m.zone != nil {
			own = m.zone.Wall(w.zone(x.idZone).At(own))
		}
		if w.offer(&x.times, x.times.start.Wall, x.times.length, own, x.part); ok {
			return found, ok
		}
	}
	if o.Series.master == nil {
		return found, ok
	}
	at := id
	if z := o.Series.master.zone; z != nil {
		at = z.At(id)
	}
	err := o.Series.Between(at.Add(-slack), at.Add(slack), nil, take)
	return found, ok && err == nil
}

// Flag reports whether the event has a boolean property that iCalendar has no line for, such as isDraft.
func (o *Object) Flag(name string) bool {
	return slices.ContainsFunc(o.Parts[0].Properties, func(p ical.Property) bool {
		return p.Name == propExtra && p.Param(paramExtra) == name && p.Text() == "true"
	})
}

// Sequence returns the number of the version of the event.
func (o *Object) Sequence() int64 {
	n, _ := strconv.ParseInt(o.Parts[0].Text("SEQUENCE"), 10, 32)
	return max(n, 0)
}
