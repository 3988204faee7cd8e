package itip

import (
	"slices"
	"strings"
	"time"

	"doublet/calendar"
	"doublet/wire/ical"
)

// Attend returns the object to store and the REPLY that follow from a change of an attendee: old is the stored object,
// nil for one that the attendee's program puts in the calendar first, changed the object in its place, nil if it is
// removed. me reports whether an address is the attendee's. The message is nil if there is no answer to send.
// It returns ErrNotAllowed for a change that belongs to the organizer.
//
// Implements: RFC 6638 §3.2.2 Attendee Scheduling Object Resources
func Attend(old, changed *calendar.Object, me func(string) bool, now time.Time) (*calendar.Object, *Message, error) {
	x := attending{old: old, was: byKey(old), me: me, now: now.UTC().Truncate(time.Second)}
	if changed == nil {
		return nil, x.declineAll(), nil
	}
	if old != nil {
		if err := allowed(old, changed, me); err != nil {
			return nil, nil, err
		}
	}
	x.reply = Message{Method: Reply, UID: changed.UID, Kind: changed.Kind, whole: changed.Whole}
	x.stamp(changed.Parts)
	parts := make([]*ical.Component, len(changed.Parts))
	for i, c := range changed.Parts {
		parts[i] = x.renewed(changed.Whole, c)
	}
	x.exceptions(changed)
	out, err := assemble(changed.Whole, parts)
	if err != nil {
		return nil, nil, err
	}
	return out, x.message(), nil
}

// attending is one call of Attend.
type attending struct {
	old   *calendar.Object
	was   map[string]*ical.Component
	me    func(string) bool
	now   time.Time // DTSTAMP of the answer
	reply Message
	// silent is set if the attendee's program sends the answer itself (SCHEDULE-AGENT=CLIENT or NONE).
	silent bool
}

// stamp makes the answer newer than all answers before.
func (x *attending) stamp(parts []*ical.Component) {
	for _, list := range [][]*ical.Component{parts, slicesOf(x.old)} {
		for _, c := range list {
			if p := attendee(c, x.me); p != nil && !x.now.After(replied(p).stamp) {
				x.now = replied(p).stamp.Add(time.Second)
			}
		}
	}
}

func slicesOf(o *calendar.Object) []*ical.Component {
	if o == nil {
		return nil
	}
	return o.Parts
}

// renewed returns a component as it is stored: with the version that the organizer gave it. It adds an answer to the
// reply if the person's status changed.
func (x *attending) renewed(whole, c *ical.Component) *ical.Component {
	out := clone(c)
	was := x.was[key(whole, c)]
	if was == nil {
		was = x.was[master]
	}
	force := x.forced(out, was)
	before, last := "NEEDS-ACTION", ""
	if was != nil {
		setVersion(out, versionOf(was))
		if q := attendee(was, x.me); q != nil {
			before, last = status(q), q.Param(paramReply)
		}
		x.keepOthers(out, was)
		keepAttachments(out, was)
	}
	if x.old == nil {
		calendar.Unmanage(out) // they are those of the organizer's server
	}
	p := attendee(out, x.me)
	if p == nil {
		return out
	}
	setParam(p, paramReply, last)
	if (status(p) == "DECLINED") != (before == "DECLINED") { // a declined event leaves the time free
		transparent(out, status(p) == "DECLINED")
		p = attendee(out, x.me)
	}
	if (status(p) != before || force) && !cancelled(out) {
		setReplied(p, version{sequence(out), x.now})
		setParam(p, "RSVP", "")
		x.add(out, status(p))
	}
	return out
}

// forced reports whether the answer is sent in any case: the program asks for it, or an earlier one was not sent.
//
// Implements: RFC 6638 §7.2 SCHEDULE-FORCE-SEND
func (x *attending) forced(out, was *ical.Component) bool {
	o := out.Get("ORGANIZER")
	if o == nil {
		return false
	}
	x.silent = x.silent || !served(o)
	force := strings.EqualFold(o.Param("SCHEDULE-FORCE-SEND"), Reply)
	setParam(o, "SCHEDULE-FORCE-SEND", "")
	return force || attendee(was, x.me) != nil && o.Param("SCHEDULE-STATUS") == Pending
}

// keepOthers keeps the answers of the other attendees as they are stored: the program may not know the last ones.
func (x *attending) keepOthers(out, was *ical.Component) {
	for _, p := range attendees(out) {
		if q := attendee(was, same(Address(p.Value))); q != nil && !x.me(Address(p.Value)) {
			setParam(p, "PARTSTAT", q.Param("PARTSTAT"))
		}
	}
}

// keepAttachments keeps the managed attachments of the organizer, which a program may have left out.
//
// Implements: RFC 8607 §3.12.2 attendees neither add, update nor remove managed attachments
func keepAttachments(out, was *ical.Component) {
	if slices.Equal(managedIDs(out), managedIDs(was)) {
		return
	}
	isManaged := func(p ical.Property) bool { return calendar.ManagedID(&p) != "" }
	out.Properties = slices.DeleteFunc(out.Properties, isManaged)
	for _, p := range was.Properties {
		if isManaged(p) {
			out.Properties = append(out.Properties, p)
		}
	}
}

// managedIDs returns the ids of the managed attachments of a component.
func managedIDs(c *ical.Component) (ids []string) {
	for i := range c.Properties {
		if id := calendar.ManagedID(&c.Properties[i]); id != "" {
			ids = append(ids, id)
		}
	}
	return ids
}

// add adds an answer for a component to the reply.
//
// Implements: RFC 5546 §3.2.3 REPLY
func (x *attending) add(c *ical.Component, status string) {
	out := outward(without(c, "ATTACH", "DESCRIPTION", "RRULE", "RDATE", "EXDATE"))
	only(out, x.me)
	p := attendee(out, x.me)
	if p == nil {
		return
	}
	setParam(p, "PARTSTAT", status)
	setParam(p, "RSVP", "")
	mine := Address(p.Value)
	if status == "DELEGATED" { // the organizer learns of the delegate
		for _, q := range attendees(outward(c)) {
			if Address(q.Param("DELEGATED-FROM")) == mine {
				out.Properties = append(out.Properties, *q)
			}
		}
	}
	set(out, "DTSTAMP", x.now.Format(stampForm))
	out.Properties = append(out.Properties, ical.Property{Name: "REQUEST-STATUS", Value: "2.0;Success"})
	x.reply.Parts = append(x.reply.Parts, out)
}

// exceptions declines the instances that the attendee took out of a recurring event.
//
// Implements: RFC 6638 §3.2.2.2 EXDATE of an attendee
func (x *attending) exceptions(changed *calendar.Object) {
	m := byKey(changed)[master]
	if m == nil || x.was[master] == nil {
		return
	}
	before := dates(x.old.Whole, x.was[master], "EXDATE")
	for k, id := range dates(changed.Whole, m, "EXDATE") {
		if _, known := before[k]; known {
			continue
		}
		id.Name = "RECURRENCE-ID"
		c := x.was[k]
		if c == nil {
			c = instanceOf(x.old, &id)
		}
		if p := attendee(c, x.me); p != nil && status(p) != "DECLINED" {
			x.add(c, "DECLINED")
		}
	}
}

// declineAll returns the answer to an event that the attendee removes.
func (x *attending) declineAll() *Message {
	x.reply = Message{Method: Reply, UID: x.old.UID, Kind: x.old.Kind, whole: x.old.Whole}
	x.stamp(nil)
	for _, c := range x.old.Parts {
		if o := c.Get("ORGANIZER"); o != nil {
			x.silent = x.silent || !served(o)
		}
		p := attendee(c, x.me)
		if p == nil || cancelled(c) || status(p) == "DECLINED" {
			continue
		}
		x.add(c, "DECLINED")
		if c.Get("RECURRENCE-ID") == nil {
			break
		}
	}
	return x.message()
}

// message returns the reply, nil if it says nothing or the server is not to send it.
func (x *attending) message() *Message {
	if len(x.reply.Parts) == 0 {
		return nil
	}
	organizer := x.reply.Parts[0].Get("ORGANIZER")
	if organizer == nil || x.silent {
		return nil
	}
	x.reply.To = strings.TrimSpace(organizer.Value)
	return &x.reply
}

// allowed checks that an attendee changes nothing that belongs to the organizer: the times, the organizer, the other
// attendees, and the managed attachments.
//
// Implements: RFC 6638 §3.2.2.1 Allowed "Attendee" Changes
func allowed(old, changed *calendar.Object, me func(string) bool) error {
	was, now := byKey(old), byKey(changed)
	if (was[master] == nil) != (now[master] == nil) {
		return ErrNotAllowed
	}
	known := old.Managed()
	for _, id := range changed.Managed() {
		if !slices.Contains(known, id) {
			return ErrNotAllowed
		}
	}
	for k, c := range now {
		before := whenOf(old, was, k, c.Get("RECURRENCE-ID"))
		from := was[k]
		if from == nil {
			from = was[master]
		}
		if from == nil || before != when(changed.Whole, c, nil, k == master) ||
			Address(from.Text("ORGANIZER")) != Address(c.Text("ORGANIZER")) || !sameCompany(from, c, me) {
			return ErrNotAllowed
		}
	}
	return nil
}

// sameCompany reports whether two components have the same other attendees. Delegates of the person may come.
func sameCompany(was, now *ical.Component, me func(string) bool) bool {
	others := func(c *ical.Component) (list []string) {
		for _, p := range attendees(c) {
			if a := Address(p.Value); !me(a) && !me(Address(p.Param("DELEGATED-FROM"))) {
				list = append(list, a)
			}
		}
		slices.Sort(list)
		return slices.Compact(list)
	}
	return slices.Equal(others(was), others(now))
}
