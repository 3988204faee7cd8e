package calendar

import (
	"slices"
	"strconv"
	"strings"

	"doublet/wire/ical"
	"doublet/wire/jmap"
)

// alarm is a VALARM that JSCalendar can describe, with its id.
type alarm struct {
	id string
	c  *ical.Component
}

// alarms returns the alarms of the event. The id of one is its UID where that is an id, else its number.
func (e *event) alarms() (list []alarm) {
	seen := map[string]bool{}
	for _, c := range e.c.Children {
		if c.Name != "VALARM" || !hasTrigger(c) {
			continue
		}
		id := c.Text("UID")
		if !jmap.ValidID(id) || seen[id] {
			id = strconv.Itoa(len(list) + 1)
		}
		if !seen[id] {
			seen[id], list = true, append(list, alarm{id, c})
		}
	}
	return list
}

// hasTrigger reports whether an alarm goes off at a time: some clients write alarms that never do.
func hasTrigger(c *ical.Component) bool {
	p := c.Get("TRIGGER")
	if p == nil || strings.EqualFold(c.Text("ACTION"), "NONE") {
		return false
	}
	if m, ok := p.Moment(); ok {
		return m.Zone == "UTC"
	}
	_, ok := ical.Duration(p.Value)
	return ok
}

// printAlerts prints the alarms of the event.
//
// Implements: RFC 8984 §4.5.2 alerts
func printAlerts(e *event, w *jmap.Writer, _ func(string) bool) {
	list := e.alarms()
	if len(list) == 0 {
		return
	}
	w.Object("alerts", func(o *jmap.Writer) {
		for _, a := range list {
			o.Object(a.id, func(o *jmap.Writer) { a.print(o) })
		}
	})
}

func (a *alarm) print(o *jmap.Writer) {
	o.Text("@type", "Alert")
	p := a.c.Get("TRIGGER")
	o.Object("trigger", func(o *jmap.Writer) {
		if m, ok := p.Moment(); ok {
			o.Text("@type", "AbsoluteTrigger")
			o.Text("when", m.Wall.Format(utcTime))
			return
		}
		o.Text("@type", "OffsetTrigger")
		o.Text("offset", strings.TrimPrefix(p.Value, "+"))
		if strings.EqualFold(p.Param("RELATED"), "END") {
			o.Text("relativeTo", "end")
		} else {
			o.Text("relativeTo", "start")
		}
	})
	action := "display"
	if strings.EqualFold(a.c.Text("ACTION"), "EMAIL") {
		action = "email"
	}
	o.Text("action", action)
	if m, ok := a.c.Get("ACKNOWLEDGED").Moment(); ok {
		o.Text("acknowledged", m.Wall.Format(utcTime))
	}
}

// setAlerts writes the alarms of the event. Those of the same ids keep what JSCalendar does not describe.
func setAlerts(e *event, old, want *jmap.Value) error {
	have := map[string]*ical.Component{}
	for _, a := range e.alarms() {
		have[a.id] = a.c
	}
	lines := map[*ical.Component]*ical.Component{}
	var added []*ical.Component
	err := entries(want, "alerts", func(id string, v *jmap.Value) error {
		if err := e.setAlert(have, id, old.Get("alerts").Get(id), v); err != nil {
			return err
		}
		if c := have[id]; slices.Contains(e.c.Children, c) {
			lines[c] = c
		} else {
			added = append(added, c)
		}
		return nil
	})
	if err != nil {
		return err
	}
	e.c.Children = slices.DeleteFunc(slices.Clone(e.c.Children), func(c *ical.Component) bool {
		return c.Name == "VALARM" && hasTrigger(c) && lines[c] == nil
	})
	e.c.Children = append(e.c.Children, added...)
	return nil
}

// setAlert changes the alarm of an id in have, and makes one where there is none.
func (e *event) setAlert(have map[string]*ical.Component, id string, old, want *jmap.Value) error {
	c := have[id]
	if c == nil {
		c = &ical.Component{Name: "VALARM"}
		c.SetText("UID", id)
		have[id] = c
	} else if c.Text("UID") != id {
		c.SetText("UID", id) // its number may change
	}
	if c.Get("TRIGGER") == nil || !old.Get("trigger").Equal(want.Get("trigger")) {
		p, ok := triggerOf(want.Get("trigger"))
		if !ok {
			return invalid("the trigger of an alert is no time", "alerts")
		}
		c.Set(p)
	}
	action, ok := textOf(want, "action")
	switch {
	case !ok || action != "" && action != "display" && action != "email":
		return invalid("the action of an alert is display or email", "alerts")
	case c.Get("ACTION") == nil || !old.Get("action").Equal(want.Get("action")):
		e.setAction(c, action)
	}
	at, ok := utcDate(want, "acknowledged")
	if !ok {
		return invalid("acknowledged is no UTCDateTime", "alerts")
	}
	if c.Drop("ACKNOWLEDGED"); !at.IsZero() {
		c.Set(ical.Property{Name: "ACKNOWLEDGED", Value: at.Format(stamp)})
	}
	return nil
}

// setAction sets the action of an alarm, with the texts that RFC 5545 section 3.6.6 asks for.
func (e *event) setAction(c *ical.Component, action string) {
	c.Set(ical.Property{Name: "ACTION", Value: "DISPLAY"})
	text := e.c.Text("SUMMARY")
	if text == "" {
		text = "Reminder"
	}
	if c.Get("DESCRIPTION") == nil {
		c.SetText("DESCRIPTION", text)
	}
	if action != "email" {
		return
	}
	c.Set(ical.Property{Name: "ACTION", Value: "EMAIL"})
	if c.Get("SUMMARY") == nil {
		c.SetText("SUMMARY", text)
	}
}

// triggerOf returns the line of a trigger.
func triggerOf(v *jmap.Value) (p ical.Property, ok bool) {
	p.Name = "TRIGGER"
	if when, isText := v.Get("when").Text(); isText {
		at, ok := jmap.ParseDate(when, true)
		p.SetParam("VALUE", "DATE-TIME")
		p.Value = at.Format(stamp)
		return p, ok
	}
	offset, _ := v.Get("offset").Text()
	_, ok = ical.Duration(offset)
	p.Value = offset
	switch to, _ := v.Get("relativeTo").Text(); to {
	case "", "start":
	case "end":
		p.SetParam("RELATED", "END")
	default:
		ok = false
	}
	return p, ok
}
