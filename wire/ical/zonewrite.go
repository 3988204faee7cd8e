package ical

import (
	"fmt"
	"time"
)

// Location returns the location of a zone of the IANA database, nil for one that has the rules of a VTIMEZONE.
func (z *Zone) Location() *time.Location { return z.at }

// HasZone reports whether the IANA database has a zone of exactly this name.
func HasZone(name string) bool {
	found, at := iana(name)
	return at != nil && found == name
}

// ruledYears is the number of years over which a rule of a zone must hold, and for which a zone without such a rule
// lists its changes.
const ruledYears = 15

// NewTimezone returns a VTIMEZONE for a zone of the IANA database, which holds from the start of a year on. It returns
// nil for UTC and for names that the database does not have. A zone whose changes follow no yearly rule has them listed
// for ruledYears.
//
// Implements: RFC 5545 §3.6.5 VTIMEZONE
func NewTimezone(name string, year int) *Component {
	_, at := iana(name)
	if at == nil || at == time.UTC {
		return nil
	}
	out := &Component{Name: "VTIMEZONE", Properties: []Property{{Name: "TZID", Value: name}}}
	begin := time.Date(year-1, 1, 1, 0, 0, 0, 0, at)
	changes := changesOf(begin, begin.AddDate(ruledYears, 0, 0))
	_, offset := begin.Zone()
	if rules := yearlyRules(changes); rules != nil {
		for i, rule := range rules {
			out.Children = append(out.Children, observance(changes[i], rule))
		}
		return out
	}
	first := change{at: begin, from: offset, to: offset, dst: begin.IsDST()}
	out.Children = append(out.Children, observance(first, ""))
	for _, c := range changes {
		out.Children = append(out.Children, observance(c, ""))
	}
	return out
}

// change is a change of the offset of a zone, in seconds.
type change struct {
	at       time.Time
	from, to int
	dst      bool
}

// wall returns the time of the change on the clocks before it.
func (c *change) wall() time.Time { return c.at.UTC().Add(time.Duration(c.from) * time.Second) }

// changesOf lists the changes of a zone between two times.
func changesOf(from, to time.Time) (list []change) {
	_, offset := from.Zone()
	for t := from; ; {
		_, end := t.ZoneBounds()
		if !end.IsZero() && !end.After(t) {
			end = t.AddDate(0, 0, 1) // package time ends a leap year a day early where a rule goes on behind the table
		}
		if end.IsZero() || !end.Before(to) {
			return list
		}
		_, next := end.Zone()
		if next != offset {
			list = append(list, change{end, offset, next, end.IsDST()})
		}
		t, offset = end, next
	}
}

// yearlyRules returns the rules of a zone that changes twice a year on the same weekdays of the same months, at the
// same time and with the same offsets; nil for others.
func yearlyRules(list []change) []string {
	if len(list) != 2*ruledYears {
		return nil
	}
	for _, last := range []bool{true, false} {
		a, b := ruleOf(&list[0], last), ruleOf(&list[1], last)
		same := true
		for i := range list {
			c, like, rule := &list[i], &list[i%2], a
			if i%2 == 1 {
				rule = b
			}
			same = same && ruleOf(c, last) == rule && c.from == like.from && c.to == like.to &&
				c.wall().Format("150405") == like.wall().Format("150405")
		}
		if same {
			return []string{a, b}
		}
	}
	return nil
}

// ruleOf returns the rule of the day of a change: the last weekday of its month, or the nth one.
func ruleOf(c *change, last bool) string {
	w := c.wall()
	n := (w.Day()-1)/7 + 1
	if last && w.AddDate(0, 0, 7).Month() != w.Month() {
		n = -1
	}
	day := weekdays[2*int(w.Weekday()):]
	return fmt.Sprintf("FREQ=YEARLY;BYMONTH=%d;BYDAY=%d%s", int(w.Month()), n, day[:2])
}

func observance(c change, rule string) *Component {
	o := &Component{Name: "STANDARD", Properties: []Property{
		{Name: "DTSTART", Value: c.wall().Format("20060102T150405")},
		{Name: "TZOFFSETFROM", Value: printOffset(c.from)}, {Name: "TZOFFSETTO", Value: printOffset(c.to)}}}
	if c.dst {
		o.Name = "DAYLIGHT"
	}
	if rule != "" {
		o.Properties = append(o.Properties, Property{Name: "RRULE", Value: rule})
	}
	return o
}

func printOffset(seconds int) string {
	sign := '+'
	if seconds < 0 {
		sign, seconds = '-', -seconds
	}
	s := fmt.Sprintf("%c%02d%02d", sign, seconds/3600, seconds/60%60)
	if seconds%60 != 0 {
		s += fmt.Sprintf("%02d", seconds%60)
	}
	return s
}
