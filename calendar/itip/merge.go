package itip

import (
	"slices"
	"time"

	"doublet/calendar"
	"doublet/wire/ical"
)

// Merge returns one object of several versions of an event that servers have written without each other's changes: the
// version whose component for all instances is the newest, the newer components of the others, and for each attendee
// the last answer to the time that stands. Of equally new ones the first in the list counts.
func Merge(list []*calendar.Object) (*calendar.Object, error) {
	base := list[0]
	for _, o := range list[1:] {
		if !IsAnswer(o) && newest(o).after(newest(base)) {
			base = o
		}
	}
	parts := byKey(base)
	for _, o := range list {
		for k, c := range byKey(o) {
			if was := parts[k]; k != master && !IsAnswer(o) && versionOf(c).after(newest(base)) &&
				(was == nil || versionOf(c).after(versionOf(was))) {
				parts[k] = c
			}
		}
	}
	out := make([]*ical.Component, 0, len(parts))
	for _, k := range sortedKeys(parts) {
		c := clone(parts[k])
		for _, o := range list {
			takeAnswers(base, c, o, k)
		}
		out = append(out, c)
	}
	return assemble(base.Whole, out)
}

// newest returns the version of the component for all instances, or of the newest one without that.
func newest(o *calendar.Object) (v version) {
	parts := byKey(o)
	if m := parts[master]; m != nil {
		return versionOf(m)
	}
	for _, c := range parts {
		if w := versionOf(c); w.after(v) {
			v = w
		}
	}
	return v
}

// Compare compares the versions of two objects of one event: it returns a number above 0 if a is newer than b, below 0
// if it is older.
func Compare(a, b *calendar.Object) int {
	switch v, w := newest(a), newest(b); {
	case v.after(w):
		return 1
	case w.after(v):
		return -1
	}
	return 0
}

func sortedKeys(parts map[string]*ical.Component) (keys []string) {
	for k := range parts {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// takeAnswers sets the answers in a component for the instance k to those of another version that are newer and concern
// the same time.
func takeAnswers(base *calendar.Object, c *ical.Component, from *calendar.Object, k string) {
	other := byKey(from)[k]
	if other == nil || when(base.Whole, c, nil, k == master) != when(from.Whole, other, nil, k == master) {
		return
	}
	for _, p := range attendees(c) {
		q := attendee(other, same(Address(p.Value)))
		if q == nil || !replied(q).after(replied(p)) {
			continue
		}
		setParam(p, "PARTSTAT", q.Param("PARTSTAT"))
		setParam(p, paramReply, q.Param(paramReply))
	}
}

// Renew returns the object that an organizer's calendar had before and the one to write in its place, so that Organize
// asks all attendees of a merged object again, and tells those that only another version names that they are not
// invited.
func Renew(merged *calendar.Object, list []*calendar.Object) (before, after *calendar.Object, err error) {
	was, now := make([]*ical.Component, len(merged.Parts)), make([]*ical.Component, len(merged.Parts))
	for i, c := range merged.Parts {
		was[i], now[i] = clone(c), clone(c)
		for _, o := range list {
			for _, p := range attendees(byKey(o)[key(merged.Whole, c)]) {
				if attendee(was[i], same(Address(p.Value))) == nil {
					was[i].Properties = append(was[i].Properties, *p)
				}
			}
		}
		for _, p := range attendees(now[i]) {
			setParam(p, "SCHEDULE-FORCE-SEND", Request)
		}
	}
	if before, err = assemble(merged.Whole, was); err == nil {
		after, err = assemble(merged.Whole, now)
	}
	return before, after, err
}

// Owes reports whether a message about an object was not sent yet, because the server crashed in between, or the
// organizer does not have the answer: the next change sends it.
func Owes(o *calendar.Object) bool {
	for _, c := range o.Parts {
		for i := range c.Properties {
			if p := &c.Properties[i]; (p.Name == "ATTENDEE" || p.Name == "ORGANIZER") &&
				p.Param("SCHEDULE-STATUS") == Pending {
				return true
			}
		}
	}
	return false
}

// Repeat returns an attendee's object that makes Attend send the answer again. With busy the time is free only if the
// attendee has declined, or is a room that has not answered: the merged version may say otherwise.
func Repeat(o *calendar.Object, me func(string) bool, busy, room bool) (*calendar.Object, error) {
	parts := make([]*ical.Component, len(o.Parts))
	for i, c := range o.Parts {
		parts[i] = clone(c)
		if p := parts[i].Get("ORGANIZER"); p != nil {
			setParam(p, "SCHEDULE-FORCE-SEND", Reply)
		}
		if p := attendee(parts[i], me); p != nil && busy {
			transparent(parts[i], status(p) == "DECLINED" || room && status(p) == "NEEDS-ACTION")
		}
	}
	return assemble(o.Whole, parts)
}

// propAnswer marks the object of AnswerOf.
const propAnswer = "X-DOUBLET-ANSWER"

// AnswerOf returns an object that holds the answer of a REPLY to an event that the organizer's calendar does not have,
// or not in that version: Merge takes the answer from it when the event has come from another server. from and me are
// those of Receive. It returns ErrStranger if from may not send this.
func AnswerOf(m *Message, from string, me func(string) bool) (*calendar.Object, error) {
	if m.Method != Reply || from == "" || from != m.Sender() || me(from) || !me(m.Organizer()) {
		return nil, ErrStranger
	}
	parts := make([]*ical.Component, len(m.Parts))
	for i, c := range m.Parts {
		parts[i] = clone(c)
		set(parts[i], propAnswer, "TRUE")
		p := attendee(parts[i], same(from))
		if p == nil || !slices.Contains(statuses, status(p)) {
			return nil, ErrStranger
		}
		setReplied(p, versionOf(c))
	}
	return assemble(m.whole, parts)
}

// IsAnswer reports whether an object is one of AnswerOf.
func IsAnswer(o *calendar.Object) bool { return o.Parts[0].Get(propAnswer) != nil }

// Ahead reports whether an answer is to a newer version of the event than o.
func Ahead(answer, o *calendar.Object) bool { return newest(answer).sequence > newest(o).sequence }

// AnsweredAt returns the time of the last answer of an attendee, zero if there is none.
func AnsweredAt(o *calendar.Object, is func(address string) bool) (at time.Time) {
	for _, c := range o.Parts {
		if p := attendee(c, is); p != nil {
			if v := replied(p); v.stamp.After(at) {
				at = v.stamp
			}
		}
	}
	return at
}

// Answers copies the answers of attendees, but those of me, from the organizer's object into the object of an attendee.
// It returns nil if that has the answers already.
func Answers(organizers, stored *calendar.Object, me func(string) bool) (*calendar.Object, error) {
	from := byKey(organizers)
	parts := make([]*ical.Component, len(stored.Parts))
	changed := false
	for i, c := range stored.Parts {
		parts[i] = clone(c)
		source := from[key(stored.Whole, c)]
		if source == nil {
			continue
		}
		for _, p := range attendees(parts[i]) {
			q := attendee(source, same(Address(p.Value)))
			if q == nil || me(Address(p.Value)) || status(p) == status(q) {
				continue
			}
			setParam(p, "PARTSTAT", status(q))
			changed = true
		}
	}
	if !changed {
		return nil, nil
	}
	return assemble(stored.Whole, parts)
}
