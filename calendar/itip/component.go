package itip

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"doublet/calendar"
	"doublet/wire/ical"
)

// master is the key of the component without a RECURRENCE-ID.
const master = ""

// key names the instance of a component: equal for all spellings of one RECURRENCE-ID.
func key(whole, c *ical.Component) string {
	p := c.Get("RECURRENCE-ID")
	if p == nil {
		return master
	}
	return momentKey(whole, p)
}

// momentKey returns a key for the time of a property: the instant, or the local time of one without a time zone.
func momentKey(whole *ical.Component, p *ical.Property) string {
	m, ok := p.Moment()
	switch {
	case !ok:
		return "?" + p.Value
	case m.Day:
		return m.Wall.Format("20060102")
	case m.Zone == "":
		return m.Wall.Format("20060102T150405")
	}
	if zone := whole.Zone(m.Zone); zone != nil {
		return zone.At(m.Wall).UTC().Format(stampForm)
	}
	return m.Zone + m.Wall.Format("20060102T150405")
}

// byKey returns the components of an object by instance; nil stands for an object without any.
func byKey(o *calendar.Object) map[string]*ical.Component {
	list := map[string]*ical.Component{}
	if o != nil {
		for _, c := range o.Parts {
			list[key(o.Whole, c)] = c
		}
	}
	return list
}

// dates returns the keys of the times that properties of a name list, with a property for each.
func dates(whole, c *ical.Component, name string) map[string]ical.Property {
	list := map[string]ical.Property{}
	if c == nil {
		return list
	}
	for _, p := range c.Properties {
		if p.Name != name {
			continue
		}
		for v := range strings.SplitSeq(p.Value, ",") {
			one := ical.Property{Name: name, Params: p.Params, Value: v}
			list[momentKey(whole, &one)] = one
		}
	}
	return list
}

// clone returns a copy of a component whose properties can be changed.
func clone(c *ical.Component) *ical.Component {
	out := *c
	out.Properties = slices.Clone(c.Properties)
	out.Children = slices.Clone(c.Children)
	for i := range out.Properties {
		out.Properties[i].Params = slices.Clone(out.Properties[i].Params)
	}
	return &out
}

// without returns a copy of a component without the properties of some names.
func without(c *ical.Component, names ...string) *ical.Component {
	out := clone(c)
	out.Properties = slices.DeleteFunc(out.Properties, func(p ical.Property) bool {
		return slices.Contains(names, p.Name)
	})
	return out
}

// set sets the value of a property.
func set(c *ical.Component, name, value string) {
	if p := c.Get(name); p != nil {
		p.Value = value
		return
	}
	c.Properties = append(c.Properties, ical.Property{Name: name, Value: value})
}

// setParam sets a parameter of a property, or removes it with "".
func setParam(p *ical.Property, name, value string) {
	p.Params = slices.DeleteFunc(p.Params, func(x ical.Param) bool { return x.Name == name })
	if value != "" {
		p.Params = append(p.Params, ical.Param{Name: name, Values: []string{value}})
	}
}

func setVersion(c *ical.Component, v version) {
	set(c, "SEQUENCE", strconv.Itoa(v.sequence))
	set(c, "DTSTAMP", v.stamp.UTC().Format(stampForm))
}

// paramReply is the parameter of a stored ATTENDEE with the version of the last answer: SEQUENCE and DTSTAMP. It never
// leaves the calendar. Without it, an old answer that arrives late could replace a newer one.
const paramReply = "X-DOUBLET-REPLY"

func replied(p *ical.Property) version {
	number, stamp, _ := strings.Cut(p.Param(paramReply), "/")
	n, err := strconv.Atoi(number)
	if err != nil {
		return version{sequence: -1}
	}
	at, _ := time.Parse(stampForm, stamp)
	return version{n, at}
}

func setReplied(p *ical.Property, v version) {
	stamp := ""
	if !v.stamp.IsZero() {
		stamp = v.stamp.UTC().Format(stampForm)
	}
	setParam(p, paramReply, strconv.Itoa(v.sequence)+"/"+stamp)
}

// private lists the parameters that a message does not carry.
//
// Implements: RFC 6638 §7 Scheduling Property Parameters: not in messages
var private = []string{paramReply, "SCHEDULE-AGENT", "SCHEDULE-STATUS", "SCHEDULE-FORCE-SEND"}

func isAlarm(c *ical.Component) bool { return c.Name == "VALARM" }

// withoutAlarms returns a copy of a component whose properties can be changed, without alarms.
func withoutAlarms(c *ical.Component) *ical.Component {
	out := clone(c)
	out.Children = slices.DeleteFunc(out.Children, isAlarm)
	return out
}

// addAlarms adds the alarms of a component to another one.
func addAlarms(to, from *ical.Component) {
	for _, child := range from.Children {
		if isAlarm(child) {
			to.Children = append(to.Children, child)
		}
	}
}

// outward returns a copy of a component for a message: without alarms and without what concerns its own calendar.
func outward(c *ical.Component) *ical.Component {
	out := withoutAlarms(c)
	out.Properties = slices.DeleteFunc(out.Properties, func(p ical.Property) bool {
		return p.Name == "TRANSP" || p.Name == "REQUEST-STATUS" || strings.HasPrefix(p.Name, "X-")
	})
	for i := range out.Properties {
		p := &out.Properties[i]
		p.Params = slices.DeleteFunc(p.Params, func(x ical.Param) bool { return slices.Contains(private, x.Name) })
	}
	return out
}

// when returns the times of a component as a text: equal for two components with the same times. rules includes the
// recurrence. An instance that the object has no component for has the start start.
func when(whole, c *ical.Component, start *ical.Property, rules bool) string {
	from := c.Get("DTSTART")
	if start != nil {
		from = start
	}
	s := ""
	if from != nil {
		s = momentKey(whole, from)
	}
	s += " " + length(whole, c).String()
	if due := c.Get("DUE"); due != nil && c.Get("DTSTART") == nil {
		s += " " + momentKey(whole, due)
	}
	if !rules {
		return s
	}
	var list []string
	for _, p := range c.Properties {
		if p.Name == "RRULE" {
			list = append(list, p.Value)
		}
	}
	for k := range dates(whole, c, "RDATE") {
		list = append(list, k)
	}
	slices.Sort(list)
	return s + " " + strings.Join(list, " ")
}

// length returns the time from start to end.
func length(whole, c *ical.Component) time.Duration {
	if d, ok := ical.Duration(c.Text("DURATION")); ok {
		return d
	}
	end := c.Get("DTEND")
	if end == nil {
		end = c.Get("DUE")
	}
	from, ok := c.Get("DTSTART").Moment()
	to, also := end.Moment()
	if !ok || !also {
		return 0
	}
	return instant(whole, to).Sub(instant(whole, from))
}

func instant(whole *ical.Component, m ical.Moment) time.Time {
	if zone := whole.Zone(m.Zone); m.Zone != "" && zone != nil {
		return zone.At(m.Wall)
	}
	return m.Wall
}

// whenOf returns the times of an instance of an object: those of its component, or those that follow from the master.
// It returns "" if the object has neither.
func whenOf(o *calendar.Object, parts map[string]*ical.Component, k string, id *ical.Property) string {
	if c := parts[k]; c != nil {
		return when(o.Whole, c, nil, k == master)
	}
	if c := parts[master]; c != nil && id != nil {
		return when(o.Whole, c, id, false)
	}
	return ""
}

// instanceOf returns a component for an instance that follows from the master, or nil if there is no such instance.
func instanceOf(o *calendar.Object, id *ical.Property) *ical.Component {
	m := byKey(o)[master]
	at, is := id.Moment()
	if m == nil {
		return nil
	}
	start, ok := m.Get("DTSTART").Moment()
	if !ok || !is || start.Day != at.Day {
		return nil
	}
	from := instant(o.Whole, at)
	found := false
	err := o.Series.Between(from, from.Add(time.Second), ical.UTC, func(x calendar.Occurrence) bool {
		found = found || x.Start.Equal(from)
		return !found
	})
	if err != nil || !found {
		return nil
	}
	out := without(m, "RRULE", "RDATE", "EXDATE")
	shift := wallIn(o.Whole, start.Zone, from).Sub(start.Wall)
	for _, name := range []string{"DTSTART", "DTEND", "DUE"} {
		p := out.Get(name)
		t, ok := p.Moment()
		if !ok {
			continue
		}
		t.Wall = t.Wall.Add(shift)
		switch {
		case t.Day:
			p.Value = t.Wall.Format("20060102")
		case t.Zone == "UTC":
			p.Value = t.Wall.Format(stampForm)
		default:
			p.Value = t.Wall.Format("20060102T150405")
		}
	}
	out.Properties = append(out.Properties, ical.Property{Name: "RECURRENCE-ID", Params: id.Params, Value: id.Value})
	return out
}

// wallIn returns the clocks of a time zone of an object at an instant.
func wallIn(whole *ical.Component, zone string, at time.Time) time.Time {
	if z := whole.Zone(zone); zone != "" && z != nil {
		return z.Wall(at)
	}
	return at
}

// Print returns the text of an object.
func Print(o *calendar.Object) []byte { return ical.Append(nil, o.Whole) }

// SetStatus returns an object with the delivery states of messages to people, by their normalized addresses, in
// SCHEDULE-STATUS of ATTENDEE and ORGANIZER.
//
// Implements: RFC 6638 §7.3 SCHEDULE-STATUS
func SetStatus(o *calendar.Object, states map[string]string) (*calendar.Object, error) {
	parts := make([]*ical.Component, len(o.Parts))
	for i, c := range o.Parts {
		parts[i] = clone(c)
		for k := range parts[i].Properties {
			p := &parts[i].Properties[k]
			if p.Name != "ATTENDEE" && p.Name != "ORGANIZER" {
				continue
			}
			if state := states[Address(p.Value)]; state != "" {
				setParam(p, "SCHEDULE-STATUS", state)
			}
		}
	}
	return assemble(o.Whole, parts)
}

// WithStatus returns an object in which the attendee for whom me returns true has a participation status.
func WithStatus(o *calendar.Object, me func(string) bool, status string) (*calendar.Object, error) {
	parts := make([]*ical.Component, len(o.Parts))
	for i, c := range o.Parts {
		parts[i] = clone(c)
		if p := attendee(parts[i], me); p != nil && !cancelled(c) {
			setParam(p, "PARTSTAT", status)
		}
		transparent(parts[i], status == "DECLINED")
	}
	return assemble(o.Whole, parts)
}

// transparent makes a component leave the time free, or not.
func transparent(c *ical.Component, free bool) {
	c.Properties = slices.DeleteFunc(c.Properties, func(p ical.Property) bool { return p.Name == "TRANSP" })
	if free {
		set(c, "TRANSP", "TRANSPARENT")
	}
}

// IsCancelled reports whether an object is a cancelled event as a whole.
func IsCancelled(o *calendar.Object) bool {
	m := byKey(o)[master]
	return m != nil && cancelled(m)
}

// Waiting returns an object that leaves the time free until its attendee, a room, has answered.
func Waiting(o *calendar.Object) (*calendar.Object, error) {
	parts := make([]*ical.Component, len(o.Parts))
	for i, c := range o.Parts {
		parts[i] = clone(c)
		transparent(parts[i], true)
	}
	return assemble(o.Whole, parts)
}

// Tell sets the participation status of an attendee in a REQUEST for others.
func (m *Message) Tell(address, status string) {
	for _, c := range m.Parts {
		if p := attendee(c, same(address)); p != nil && m.Method == Request {
			setParam(p, "PARTSTAT", status)
			setParam(p, "RSVP", "")
		}
	}
}
