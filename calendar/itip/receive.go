package itip

import (
	"errors"
	"slices"
	"strings"

	"doublet/calendar"
	"doublet/wire/ical"
)

// Receive returns a stored object after a message. stored is nil if the calendar does not have the event. from is the
// normalized address that the transport vouches for, me reports whether an address is the owner's of the calendar.
//
// A CANCEL of an event that is not stored returns the event with STATUS:CANCELLED, to be kept as one that was removed;
// stored has it for the messages that follow.
//
// With an error the object stays as it is: ErrStranger if from may not send this, ErrStale for a repeated or late
// message, ErrUnknown if it concerns nothing that is stored, ErrNoEffect if a person has to decide, ErrMalformed if the
// result would be no object that a calendar can keep.
//
// Implements: RFC 5546 §2.1.5 Message Sequencing
func Receive(stored *calendar.Object, m *Message, from string, me func(string) bool) (*calendar.Object, error) {
	if stored != nil && (stored.UID != m.UID || stored.Kind != m.Kind) {
		return nil, ErrUnknown
	}
	switch m.Method {
	case Reply:
		return receiveReply(stored, m, from, me)
	case Counter, Refresh:
		if from != m.Sender() || !me(m.Organizer()) {
			return nil, ErrStranger
		}
		return nil, ErrNoEffect
	}
	if !organizes(stored, m, from) || me(from) {
		return nil, ErrStranger
	}
	switch m.Method {
	case Request:
		return receiveRequest(stored, m, me)
	case Cancel:
		if stored == nil {
			return buried(m, me)
		}
		return receiveCancel(stored, m)
	case Add:
		return receiveAdd(stored, m)
	}
	return nil, ErrNoEffect
}

// organizes reports whether an address is that of the organizer, of a message and of the stored object.
func organizes(stored *calendar.Object, m *Message, from string) bool {
	if stored == nil {
		return from == m.Organizer()
	}
	organizer, err := OrganizerOf(stored)
	return err == nil && organizer == from && from == m.Organizer()
}

// receiveRequest invites, or replaces an event or instances of it.
//
// Implements: RFC 5546 §3.2.2 REQUEST
func receiveRequest(stored *calendar.Object, m *Message, me func(string) bool) (*calendar.Object, error) {
	if attendeeIn(m.Parts, me) == nil {
		return nil, ErrStranger
	}
	if stored == nil {
		return m.Object()
	}
	parts, out := byKey(stored), byKey(stored)
	whole := masterOf(m)
	if whole != nil {
		if was := parts[master]; was != nil && !versionOf(whole).after(versionOf(was)) {
			return nil, ErrStale
		}
		out = newer(parts, m.Parts)
	}
	fresh := false
	for _, c := range m.Parts {
		k := key(m.whole, c)
		was := parts[k]
		if was == nil {
			was = parts[master]
		}
		if was != nil && !versionOf(c).after(versionOf(was)) {
			if parts[k] != nil {
				out[k] = parts[k]
			}
			continue
		}
		fresh = true
		out[k] = kept(stored, m, was, c, me)
	}
	if !fresh {
		return nil, ErrStale
	}
	return merged(stored, m, out, whole != nil)
}

// masterOf returns the component of a message that concerns all instances, or nil.
func masterOf(m *Message) *ical.Component {
	for _, c := range m.Parts {
		if c.Get("RECURRENCE-ID") == nil {
			return c
		}
	}
	return nil
}

// newer returns the stored components that are newer than all of a message that replaces the rest.
func newer(parts map[string]*ical.Component, list []*ical.Component) map[string]*ical.Component {
	latest := versionOf(list[0])
	for _, c := range list {
		if v := versionOf(c); v.after(latest) {
			latest = v
		}
	}
	out := map[string]*ical.Component{}
	for k, c := range parts {
		if versionOf(c).after(latest) {
			out[k] = c
		}
	}
	return out
}

// attendeeIn returns the first attendee of components for which is returns true, or nil.
func attendeeIn(parts []*ical.Component, is func(string) bool) *ical.Property {
	for _, c := range parts {
		if p := attendee(c, is); p != nil {
			return p
		}
	}
	return nil
}

// own lists the properties that belong to the owner of a calendar in an event of others.
var own = []string{"TRANSP", "COLOR", "CATEGORIES", "CLASS"}

// kept returns a component of a message with what belongs to the owner of the stored one: the alarms, the marks, and
// the answer, unless the time changed or the stored one was cancelled.
func kept(stored *calendar.Object, m *Message, was, c *ical.Component, me func(string) bool) *ical.Component {
	out := clone(c)
	out.Properties = slices.DeleteFunc(out.Properties, func(p ical.Property) bool { return p.Name == "REQUEST-STATUS" })
	if was == nil {
		return out
	}
	for _, p := range was.Properties {
		if slices.Contains(own, p.Name) || strings.HasPrefix(p.Name, "X-") {
			out.Properties = slices.DeleteFunc(out.Properties, func(q ical.Property) bool { return q.Name == p.Name })
		}
	}
	for _, p := range was.Properties {
		if slices.Contains(own, p.Name) || strings.HasPrefix(p.Name, "X-") {
			out.Properties = append(out.Properties, p)
		}
	}
	addAlarms(out, was)
	if attendee(was, me) == nil || attendee(out, me) == nil {
		return out
	}
	keepAnswer(stored, m, was, c, out, me)
	return out
}

// keepAnswer keeps the answer of the owner in a component of a message, unless the time changed or the stored one was
// cancelled.
func keepAnswer(stored *calendar.Object, m *Message, was, c, out *ical.Component, me func(string) bool) {
	before, now := attendee(was, me), attendee(out, me)
	k := key(m.whole, c)
	setParam(now, paramReply, before.Param(paramReply))
	moved := whenOf(stored, byKey(stored), k, c.Get("RECURRENCE-ID")) != when(m.whole, c, nil, k == master)
	invitedAgain := cancelled(was) && !cancelled(c) // the answer was one to the former invitation
	if !invitedAgain && (!moved || status(now) != "NEEDS-ACTION") {
		if o := out.Get("ORGANIZER"); o != nil && status(now) == "NEEDS-ACTION" && status(before) != "NEEDS-ACTION" {
			setParam(o, "SCHEDULE-STATUS", Pending) // the organizer does not have the answer, see Owes
		}
		setParam(now, "PARTSTAT", before.Param("PARTSTAT"))
	} else if status(before) == "DECLINED" && status(now) != "DECLINED" {
		transparent(out, false)
	}
}

// merged returns the object of components, with the time zones of the stored object and of the message.
func merged(stored *calendar.Object, m *Message, parts map[string]*ical.Component,
	whole bool) (*calendar.Object, error) {
	base := clone(stored.Whole)
	base.Children = nil
	zones := [2]*ical.Component{stored.Whole, m.whole}
	if whole {
		zones = [2]*ical.Component{m.whole, stored.Whole}
	}
	known := map[string]bool{}
	for _, z := range zones {
		for _, c := range zonesFor(z, nil) {
			if id := c.Text("TZID"); !known[id] {
				known[id] = true
				base.Children = append(base.Children, c)
			}
		}
	}
	keys := make([]string, 0, len(parts))
	for k := range parts {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	list := make([]*ical.Component, len(keys))
	for i, k := range keys {
		list[i] = parts[k]
	}
	return assemble(base, list)
}

// receiveCancel marks an event, or instances of it, as cancelled. They stay with their version, so that an older
// REQUEST that arrives late does not bring them back.
//
// Implements: RFC 5546 §3.2.5 CANCEL
func receiveCancel(stored *calendar.Object, m *Message) (*calendar.Object, error) {
	parts := byKey(stored)
	fresh, known := false, false
	cancel := func(k string, was, by *ical.Component) {
		if known = true; versionOf(by).after(versionOf(was)) {
			fresh, parts[k] = true, cancelledBy(was, by)
		}
	}
	for _, c := range m.Parts {
		k := key(m.whole, c)
		if k == master { // all instances with it
			for k, was := range byKey(stored) {
				cancel(k, was, c)
			}
			continue
		}
		was := parts[k]
		if was == nil {
			was = instanceOf(stored, inStored(stored, m, c))
		}
		if was != nil {
			cancel(k, was, c)
		}
	}
	switch {
	case !known:
		return nil, ErrUnknown
	case !fresh:
		return nil, ErrStale
	}
	return merged(stored, m, parts, false)
}

// buried returns the event of a CANCEL that overtook its REQUEST: a calendar keeps it out of sight, so that the REQUEST
// does not bring the event when it arrives.
func buried(m *Message, me func(string) bool) (*calendar.Object, error) {
	if masterOf(m) == nil || attendeeIn(m.Parts, me) == nil {
		return nil, ErrUnknown
	}
	parts := make([]*ical.Component, len(m.Parts))
	for i, c := range m.Parts {
		parts[i] = cancelledBy(c, c)
	}
	return assemble(m.whole, parts)
}

// inStored returns the RECURRENCE-ID of a component of a message on the clocks of the stored object's zones: a time in
// UTC if the stored object does not define the message's time zone.
func inStored(stored *calendar.Object, m *Message, c *ical.Component) *ical.Property {
	p := *c.Get("RECURRENCE-ID")
	at, ok := p.Moment()
	if !ok || at.Day || at.Zone == "" || stored.Whole.Zone(at.Zone) != nil {
		return &p
	}
	p.Params = nil
	p.Value = instant(m.whole, at).UTC().Format(stampForm)
	return &p
}

// cancelledBy returns a stored component as a CANCEL leaves it.
func cancelledBy(was, c *ical.Component) *ical.Component {
	out := clone(was)
	setVersion(out, versionOf(c))
	set(out, "STATUS", "CANCELLED")
	return out
}

// receiveAdd adds an instance to a recurring event.
//
// Implements: RFC 5546 §3.2.4 ADD
func receiveAdd(stored *calendar.Object, m *Message) (*calendar.Object, error) {
	if stored == nil {
		return nil, ErrUnknown
	}
	parts := byKey(stored)
	base := parts[master]
	if base == nil {
		return nil, ErrUnknown
	}
	newest := version{}
	for _, c := range m.Parts {
		start := c.Get("DTSTART")
		if start == nil || c.Get("RECURRENCE-ID") != nil || c.Get("RRULE") != nil {
			return nil, ErrMalformed
		}
		if !versionOf(c).after(versionOf(base)) {
			return nil, ErrStale
		}
		k := momentKey(m.whole, start)
		if old := parts[k]; old != nil && !versionOf(c).after(versionOf(old)) {
			return nil, ErrStale
		}
		out := clone(c)
		out.Properties = append(out.Properties, ical.Property{Name: "RECURRENCE-ID", Params: start.Params,
			Value: start.Value})
		addAlarms(out, base)
		parts[k] = out
		if v := versionOf(c); v.after(newest) {
			newest = v
		}
		base = clone(base)
		base.Properties = append(base.Properties,
			ical.Property{Name: "RDATE", Params: start.Params, Value: start.Value})
		parts[master] = base
	}
	setVersion(base, newest)
	return merged(stored, m, parts, false)
}

// receiveReply sets the answer of an attendee in the organizer's object. Answers to a version before the attendee was
// asked again have no effect.
//
// Implements: RFC 5546 §3.2.3 REPLY
func receiveReply(stored *calendar.Object, m *Message, from string, me func(string) bool) (*calendar.Object, error) {
	if err := mayReply(stored, m, from, me); err != nil {
		return nil, err
	}
	parts := byKey(stored)
	err := ErrUnknown
	fresh := false
	for _, c := range m.Parts {
		k := key(m.whole, c)
		was := parts[k]
		if was == nil && k != master && parts[master] != nil {
			was = instanceOf(stored, inStored(stored, m, c))
		}
		if was == nil {
			continue
		}
		out, bad := answered(was, c, from)
		if bad != nil {
			if !errors.Is(err, ErrStale) && !errors.Is(err, ErrAhead) {
				err = bad
			}
			continue
		}
		fresh, parts[k] = true, out
	}
	if !fresh {
		return nil, err
	}
	return merged(stored, m, parts, false)
}

// mayReply checks that a reply is from its sender, to the organizer of a stored event.
func mayReply(stored *calendar.Object, m *Message, from string, me func(string) bool) error {
	switch {
	case stored == nil:
		return ErrUnknown
	case from == "" || from != m.Sender() || me(from):
		return ErrStranger
	}
	if organizer, err := OrganizerOf(stored); err != nil || !me(organizer) {
		return ErrStranger
	}
	return nil
}

// statuses are the answers that an attendee can give.
var statuses = []string{"NEEDS-ACTION", "ACCEPTED", "DECLINED", "TENTATIVE", "DELEGATED", "COMPLETED", "IN-PROCESS"}

// answered returns a component with the answer of an attendee.
func answered(was, c *ical.Component, from string) (*ical.Component, error) {
	out := clone(was)
	p, said := attendee(out, same(from)), attendee(c, same(from))
	if p == nil || said == nil || !slices.Contains(statuses, status(said)) {
		return nil, ErrStranger
	}
	v := versionOf(c)
	switch {
	case v.sequence > sequence(was):
		return nil, ErrAhead
	case !v.after(replied(p)):
		return nil, ErrStale
	}
	setReplied(p, v)
	setParam(p, "PARTSTAT", status(said))
	setParam(p, "SCHEDULE-STATUS", "2.0")
	setParam(p, "DELEGATED-TO", said.Param("DELEGATED-TO"))
	if status(said) == "DELEGATED" {
		delegate := Address(said.Param("DELEGATED-TO"))
		if d := attendee(c, same(delegate)); delegate != "" && d != nil && attendee(out, same(delegate)) == nil &&
			len(attendees(out)) < MaxAttendees {
			q := *d
			q.Params = slices.Clone(d.Params)
			setParam(&q, "PARTSTAT", "")
			setParam(&q, "DELEGATED-FROM", strings.TrimSpace(p.Value))
			out.Properties = append(out.Properties, q)
		}
	}
	return out, nil
}
