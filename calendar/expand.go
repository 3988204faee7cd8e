package calendar

import (
	"errors"
	"slices"
	"strings"
	"time"

	"doublet/wire/ical"
)

// ErrTooMany is the error for an answer with more instances than a server makes.
var ErrTooMany = errors.New("calendar: too many instances")

// maxExpanded bounds the instances of one object that Expand makes, and maxExpandedSize their text in bytes.
const (
	maxExpanded     = 5000
	maxExpandedSize = 16 << 20
)

// Expand returns the object with a component for each instance between two instants, and without rules: times are in
// UTC, but those of whole days and those without a zone.
//
// Implements: RFC 4791 §9.6.5 CALDAV:expand
func (o *Object) Expand(from, to time.Time, floating *ical.Zone) (*ical.Component, error) {
	out := &ical.Component{Name: o.Whole.Name, Properties: o.Whole.Properties}
	z := &zoned{object: o.Whole, found: map[string]*ical.Zone{}}
	var list []Occurrence
	err := o.Series.Between(from, to, floating, func(x Occurrence) bool {
		list = append(list, x)
		return len(list) <= maxExpanded
	})
	if err == nil && len(list) > maxExpanded {
		err = ErrTooMany
	}
	if err != nil {
		return nil, err
	}
	if len(list) > 1 && o.textOf(list) > maxExpandedSize {
		return nil, ErrTooMany
	}
	slices.SortStableFunc(list, func(a, b Occurrence) int { return a.Start.Compare(b.Start) })
	for _, x := range list {
		out.Children = append(out.Children, o.single(z, x))
	}
	return out, nil
}

// textOf returns about the size of the text of occurrences in bytes: a component is repeated for each of its own.
func (o *Object) textOf(list []Occurrence) (n int) {
	sizes := make([]int, len(o.Parts))
	for _, x := range list {
		if sizes[x.Part] == 0 {
			sizes[x.Part] = len(ical.Append(nil, o.Parts[x.Part]))
		}
		n += sizes[x.Part]
	}
	return n
}

// recurs reports whether the object has more than one time by itself.
func (o *Object) recurs() bool {
	return len(o.Series.rules) > 0 || len(o.Series.added) > 0 || len(o.Series.instances) > 0
}

// single returns the component of one occurrence.
func (o *Object) single(z *zoned, x Occurrence) *ical.Component {
	from := o.Parts[x.Part]
	c := &ical.Component{Name: from.Name, Children: from.Children}
	for _, p := range from.Properties {
		switch p.Name {
		case "RRULE", "RDATE", "EXDATE", "RECURRENCE-ID", "DURATION":
			continue
		case "DTSTART":
			c.Properties = append(c.Properties, utc(p, x.Start))
			if d := from.Get("DURATION"); d != nil {
				c.Properties = append(c.Properties, *d)
			}
		case "DTEND":
			c.Properties = append(c.Properties, utc(p, x.End))
		case "DUE":
			if from.Get("DTSTART") == nil {
				x.End = x.Start
			}
			c.Properties = append(c.Properties, utc(p, x.End))
		default:
			c.Properties = append(c.Properties, p)
		}
	}
	if o.recurs() {
		c.Properties = append(c.Properties, o.recurrenceID(z, x, from))
	}
	return c
}

// recurrenceID returns the RECURRENCE-ID of an occurrence that a component describes.
func (o *Object) recurrenceID(z *zoned, x Occurrence, from *ical.Component) ical.Property {
	id := ical.Property{Name: "RECURRENCE-ID", Value: x.ID.Format("20060102T150405")}
	if m := o.Series.master; m != nil && m.start.Day {
		id.Params, id.Value = []ical.Param{{Name: "VALUE", Values: []string{"DATE"}}}, x.ID.Format("20060102")
	} else if m != nil && m.zone != nil {
		id.Value = m.zone.At(x.ID).Format(stamp)
	} else if p := from.Get("RECURRENCE-ID"); m == nil && p != nil {
		at, _ := p.Moment()
		if zone, _ := z.of(at); zone != nil && !at.Day {
			id.Value = zone.At(at.Wall).Format(stamp)
		} else {
			id = *p
		}
	}
	return id
}

// utc returns a property of a time, moved to another instant. A day stays a day, and a local time a local one.
func utc(p ical.Property, at time.Time) ical.Property {
	m, ok := p.Moment()
	switch {
	case !ok:
		return p
	case m.Day:
		p.Value = at.Format("20060102")
		return p
	case m.Zone == "":
		p.Value = at.Format("20060102T150405")
		return p
	}
	p.Value = at.UTC().Format(stamp)
	p.Params = slices.DeleteFunc(slices.Clone(p.Params), func(x ical.Param) bool { return x.Name == "TZID" })
	return p
}

// Limit returns the object without the instances that do not concern the time between two instants.
//
// Implements: RFC 4791 §9.6.6 CALDAV:limit-recurrence-set
func (o *Object) Limit(from, to time.Time, floating *ical.Zone) (*ical.Component, error) {
	wanted := map[*ical.Component]bool{}
	if o.master {
		wanted[o.Parts[0]] = true
	}
	err := o.Series.Between(from, to, floating, func(x Occurrence) bool { wanted[o.Parts[x.Part]] = true; return true })
	if err != nil {
		return nil, err
	}
	for i := range o.Series.instances { // one that was moved out of the time takes an instance out of it
		x := &o.Series.instances[i]
		if at := time.Unix(x.replaced, 0); x.onwards || !at.Before(from.Add(-slack)) && at.Before(to.Add(slack)) {
			wanted[o.Parts[x.part]] = true
		}
	}
	out := &ical.Component{Name: o.Whole.Name, Properties: o.Whole.Properties}
	for _, c := range o.Whole.Children {
		if wanted[c] || c.Name == "VTIMEZONE" || strings.HasPrefix(c.Name, "X-") {
			out.Children = append(out.Children, c)
		}
	}
	return out, nil
}
