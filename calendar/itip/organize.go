package itip

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"doublet/calendar"
	"doublet/wire/ical"
)

// Change is a change of an organizer's object.
type Change struct {
	// Old is the stored object, nil for a new one. New is the object in its place, nil if it is removed.
	Old, New *calendar.Object
	// Gone are objects of this UID that the organizer has removed: the attendees may have a CANCEL of them, with
	// the next SEQUENCE.
	Gone []*calendar.Object
	// Me reports whether an address is the organizer's.
	Me func(address string) bool
	// Now is the time of the change.
	Now time.Time
	// KeepStatus keeps the answers of attendees as they are stored: the client wrote without knowing the last ones.
	KeepStatus bool
}

// Organize returns the object to store and the messages to the attendees that follow from a change of the organizer.
// It keeps the versions of the components growing and, where the time of an instance changes, asks the attendees again.
// The object is nil if it is removed.
//
// Implements: RFC 6638 §3.2.1 Organizer Scheduling Object Resources
// Implements: RFC 6638 §3.2.8 Modifying the PARTSTAT property parameter
func Organize(c Change) (*calendar.Object, []*Message, error) {
	x := organizing{Change: c, old: byKey(c.Old), cut: map[string]bool{}}
	x.stamp = c.Now.UTC().Truncate(time.Second)
	for _, part := range x.old {
		if v := versionOf(part); !x.stamp.After(v.stamp) {
			x.stamp = v.stamp.Add(2 * time.Second) // a CANCEL of the same change is a second older
		}
	}
	for _, o := range c.Gone {
		if v := newest(o); !x.stamp.After(v.stamp) {
			x.stamp = v.stamp.Add(2 * time.Second)
		}
	}
	if c.New == nil {
		return nil, x.cancelAll(), nil
	}
	x.count()
	parts := make([]*ical.Component, len(c.New.Parts))
	for i, part := range c.New.Parts {
		parts[i] = x.renewed(part)
	}
	if len(Attendees(parts)) > MaxAttendees {
		return nil, nil, ErrTooMany
	}
	out, err := assemble(c.New.Whole, parts)
	if err != nil {
		return nil, nil, err
	}
	x.New, x.new = out, byKey(out)
	messages := x.messages()
	for _, p := range parts {
		for _, a := range attendees(p) {
			setParam(a, "SCHEDULE-FORCE-SEND", "")
		}
	}
	return out, messages, nil
}

// organizing is one call of Organize.
type organizing struct {
	Change
	old, new map[string]*ical.Component
	stamp    time.Time
	sequence int
	// cut holds the instances whose time changed, so that the attendees are asked again.
	cut map[string]bool
}

// count finds the instances whose time changed, and the SEQUENCE of all components of the new object: one number, so
// that a message about one of them is never older than one about another.
func (x *organizing) count() {
	grows := false
	last := -1
	for _, was := range x.old {
		last = max(last, sequence(was))
	}
	x.sequence = max(0, last)
	for _, o := range x.Gone {
		x.sequence = max(x.sequence, newest(o).sequence+2)
	}
	for _, part := range x.New.Parts {
		k := key(x.New.Whole, part)
		x.sequence = max(x.sequence, sequence(part))
		was := x.before(k)
		if was == nil {
			continue
		}
		before := whenOf(x.Old, x.old, k, part.Get("RECURRENCE-ID"))
		x.cut[k] = before != "" && before != when(x.New.Whole, part, nil, k == master)
		grows = grows || x.cut[k] || x.narrowed(k, was, part)
	}
	if grows && x.sequence <= last {
		x.sequence = last + 1
	}
}

// before returns the stored component of an instance, or the master that it follows from; nil for none.
func (x *organizing) before(k string) *ical.Component {
	if c := x.old[k]; c != nil {
		return c
	}
	return x.old[master]
}

// renewed returns a component of the new object with its version, and with the answers that the attendees gave.
func (x *organizing) renewed(part *ical.Component) *ical.Component {
	out := clone(part)
	k := key(x.New.Whole, part)
	v := version{x.sequence, x.stamp}
	setVersion(out, v)
	for _, p := range attendees(out) {
		x.answer(p, x.before(k), x.cut[k], v)
	}
	return out
}

// narrowed reports whether a component loses attendees or instances, or is cancelled.
func (x *organizing) narrowed(k string, was, part *ical.Component) bool {
	now := Attendees([]*ical.Component{part})
	for _, a := range Attendees([]*ical.Component{was}) {
		if !slices.Contains(now, a) {
			return true
		}
	}
	old, now2 := dates(x.Old.Whole, was, "EXDATE"), dates(x.New.Whole, part, "EXDATE")
	return k == master && !maps.EqualFunc(old, now2, func(a, b ical.Property) bool { return true }) ||
		cancelled(was) != cancelled(part)
}

func cancelled(c *ical.Component) bool { return strings.EqualFold(c.Text("STATUS"), "CANCELLED") }

// answer sets the answer of an attendee in a component that is written.
func (x *organizing) answer(p *ical.Property, was *ical.Component, moved bool, v version) {
	before := attendee(was, same(Address(p.Value)))
	setParam(p, paramReply, "")
	if x.Me(Address(p.Value)) {
		return
	}
	if moved {
		setParam(p, "PARTSTAT", "NEEDS-ACTION")
		setParam(p, "RSVP", "TRUE")
		setReplied(p, version{sequence: v.sequence})
		return
	}
	if before == nil {
		return
	}
	setParam(p, paramReply, before.Param(paramReply))
	setParam(p, "SCHEDULE-STATUS", before.Param("SCHEDULE-STATUS"))
	if x.KeepStatus || status(p) == "NEEDS-ACTION" { // a program that does not know the answer takes none back
		setParam(p, "PARTSTAT", before.Param("PARTSTAT"))
	}
}

// served reports whether the server sends messages to an attendee, by the parameter of the newest component.
//
// Implements: RFC 6638 §7.1 SCHEDULE-AGENT
func served(p *ical.Property) bool {
	agent := p.Param("SCHEDULE-AGENT")
	return agent == "" || strings.EqualFold(agent, "SERVER")
}

// invited returns the addresses, as they are spelled, of the attendees that the server sends messages to.
func (x *organizing) invited() (list []string) {
	seen := map[string]bool{}
	for _, o := range []*calendar.Object{x.New, x.Old} {
		if o == nil {
			continue
		}
		for _, c := range o.Parts {
			for _, p := range attendees(c) {
				a := Address(p.Value)
				if seen[a] || x.Me(a) {
					continue
				}
				seen[a] = true
				if served(p) {
					list = append(list, strings.TrimSpace(p.Value))
				}
			}
		}
	}
	return list
}

// cancelAll returns the messages that follow from the removal of the object.
func (x *organizing) cancelAll() (list []*Message) {
	for _, to := range x.invited() {
		view := x.view(x.old, Address(to))
		if m := x.cancel(to, view); m != nil {
			list = append(list, m)
		}
	}
	return list
}

// view returns the components that name an attendee.
func (x *organizing) view(parts map[string]*ical.Component, address string) map[string]*ical.Component {
	out := map[string]*ical.Component{}
	for k, c := range parts {
		if attendee(c, same(address)) != nil {
			out[k] = c
		}
	}
	return out
}

// cancel returns a CANCEL of instances of the stored object, nil if they are cancelled already. The cancellation of the
// whole stands for all.
func (x *organizing) cancel(to string, view map[string]*ical.Component) *Message {
	m := &Message{Method: Cancel, To: to, UID: x.Old.UID, Kind: x.Old.Kind, whole: x.Old.Whole}
	keys := slices.Sorted(maps.Keys(view))
	for _, k := range keys {
		c := view[k]
		if c == nil || cancelled(c) {
			continue
		}
		out := outward(c)
		v := version{x.sequence, x.stamp.Add(-time.Second)}
		if x.New == nil {
			v.sequence = sequence(c) + 1
		}
		setVersion(out, v)
		set(out, "STATUS", "CANCELLED")
		only(out, same(Address(to)))
		m.Parts = append(m.Parts, out)
		if k == master {
			break
		}
	}
	if len(m.Parts) == 0 {
		return nil
	}
	return m
}

// only removes all attendees but those for which is returns true.
func only(c *ical.Component, is func(string) bool) {
	c.Properties = slices.DeleteFunc(c.Properties, func(p ical.Property) bool {
		return p.Name == "ATTENDEE" && !is(Address(p.Value))
	})
}

// messages returns the messages to all attendees.
func (x *organizing) messages() (list []*Message) {
	for _, to := range x.invited() {
		list = append(list, x.toOne(to)...)
	}
	return list
}

// toOne returns the messages to one attendee.
func (x *organizing) toOne(to string) (list []*Message) {
	was, now := x.view(x.old, Address(to)), x.view(x.new, Address(to))
	if len(was) == 0 && len(now) == 0 {
		return nil
	}
	if len(now) == 0 {
		if m := x.cancel(to, was); m != nil {
			list = append(list, m)
		}
		return list
	}
	if gone := x.gone(to, was, now); gone != nil {
		list = append(list, gone)
	}
	changed, all := x.changed(to, was, now)
	if all {
		changed = slices.Sorted(maps.Keys(now))
	}
	if m := x.request(to, now, changed, was); m != nil {
		list = append(list, m)
	}
	return list
}

// changed returns the instances that an attendee has to learn of; all is set if it is the whole object.
func (x *organizing) changed(to string, was, now map[string]*ical.Component) (keys []string, all bool) {
	for _, c := range now {
		p := attendee(c, same(Address(to)))
		if strings.EqualFold(p.Param("SCHEDULE-FORCE-SEND"), Request) || p.Param("SCHEDULE-STATUS") == Pending {
			return nil, true
		}
	}
	before, after := was[master], now[master]
	if len(was) == 0 || (before == nil) != (after == nil) || after != nil && !x.equal(master, before, after) {
		return nil, true
	}
	for k, c := range now {
		if k != master && (was[k] == nil || !x.equal(k, was[k], c)) {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return keys, x.restored(was)
}

// restored reports whether an instance of an attendee is back, or is as the master again.
func (x *organizing) restored(was map[string]*ical.Component) bool {
	excluded := dates(x.New.Whole, x.new[master], "EXDATE")
	for k := range dates(x.Old.Whole, x.old[master], "EXDATE") {
		if _, still := excluded[k]; !still && x.new[k] == nil {
			return true
		}
	}
	for k := range was {
		if _, out := excluded[k]; x.new[k] == nil && !out {
			return true
		}
	}
	return false
}

// equal reports whether two states of a component are equal for its attendees: the answers do not count.
func (x *organizing) equal(k string, before, after *ical.Component) bool {
	if x.cut[k] {
		return false
	}
	return content(before, k) == content(after, k)
}

// content returns what attendees are told of a component, but for its version, its exceptions and the answers. Without
// the time of an instance: organizing.cut tells of that.
func content(c *ical.Component, k string) string {
	out := outward(c)
	out.Children = nil
	leave := []string{"SEQUENCE", "DTSTAMP", "LAST-MODIFIED", "CREATED", "EXDATE"}
	if k != master {
		leave = append(leave, "RECURRENCE-ID", "DTSTART", "DTEND", "DURATION", "DUE")
	}
	out.Properties = slices.DeleteFunc(out.Properties, func(p ical.Property) bool {
		return slices.Contains(leave, p.Name)
	})
	for i := range out.Properties {
		p := &out.Properties[i]
		if p.Name == "ATTENDEE" {
			setParam(p, "PARTSTAT", "")
			setParam(p, "RSVP", "")
		}
		if p.Name == "ATTENDEE" || p.Name == "ORGANIZER" {
			p.Value = Address(p.Value)
		}
	}
	slices.SortStableFunc(out.Properties, func(a, b ical.Property) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Value, b.Value))
	})
	return string(ical.Append(nil, out))
}

// gone returns the CANCEL of instances that an attendee takes part in no longer, nil if there are none.
func (x *organizing) gone(to string, was, now map[string]*ical.Component) *Message {
	if x.Old == nil {
		return nil
	}
	if was[master] != nil && now[master] == nil {
		return x.cancel(to, map[string]*ical.Component{master: was[master]})
	}
	list := map[string]*ical.Component{}
	excluded := dates(x.New.Whole, x.new[master], "EXDATE")
	if was[master] != nil && now[master] != nil {
		before := dates(x.Old.Whole, x.old[master], "EXDATE")
		for k, id := range excluded {
			if _, known := before[k]; known {
				continue
			}
			id.Name = "RECURRENCE-ID"
			if list[k] = was[k]; list[k] == nil {
				list[k] = instanceOf(x.Old, &id)
			}
		}
	}
	for k, c := range x.new {
		if k == master || now[k] != nil {
			continue
		}
		if list[k] = was[k]; was[k] == nil && was[master] != nil && x.old[k] == nil {
			list[k] = instanceOf(x.Old, c.Get("RECURRENCE-ID"))
		}
	}
	return x.cancel(to, list)
}

// request returns a REQUEST with instances, nil for none. A master has the instances that an attendee takes no part in
// as exceptions. If all instances are cancelled, the message is a CANCEL.
func (x *organizing) request(to string, now map[string]*ical.Component, keys []string,
	was map[string]*ical.Component) *Message {
	m := &Message{Method: Request, To: to, UID: x.New.UID, Kind: x.New.Kind, whole: x.New.Whole}
	over := true
	for _, k := range keys {
		c := outward(now[k])
		if k == master {
			for other, y := range x.new {
				if other != master && now[other] == nil {
					id := y.Get("RECURRENCE-ID")
					c.Properties = append(c.Properties, ical.Property{Name: "EXDATE", Params: id.Params,
						Value: id.Value})
				}
			}
		}
		over = over && cancelled(c)
		m.Parts = append(m.Parts, c)
	}
	if len(m.Parts) == 0 || over && len(was) == 0 {
		return nil
	}
	if over {
		m.Method = Cancel
	}
	return m
}
