package calendar

import (
	"strings"
	"time"

	"doublet/wire/ical"
)

// Ring is a time at which an alarm of an object goes off.
type Ring struct {
	At time.Time
	// Alarm is the id of the alarm in its component.
	Alarm string
	// Occurrence is the instance that the alarm is for: of an alarm at an absolute time the first one of its component.
	Occurrence
}

// maxRings bounds the times that Rings returns.
const maxRings = 200

// HasAlarm reports whether a component of the object has an alarm with an action, such as EMAIL.
func (o *Object) HasAlarm(action string) bool {
	for _, c := range o.Parts {
		for _, a := range o.event(c).alarms() {
			if strings.EqualFold(strings.TrimSpace(a.c.Text("ACTION")), action) {
				return true
			}
		}
	}
	return false
}

// Rings returns the times after from and until to at which alarms with an action go off, at most maxRings. floating is
// the time zone of events and tasks without one. The end of a task is its due time; of one without a start both are.
// Repetitions (REPEAT) are left out.
//
// Implements: RFC 5545 §3.8.6.3 TRIGGER
func (o *Object) Rings(action string, from, to time.Time, floating *ical.Zone) (list []Ring, err error) {
	for part, c := range o.Parts {
		for _, a := range o.event(c).alarms() {
			if !strings.EqualFold(strings.TrimSpace(a.c.Text("ACTION")), action) {
				continue
			}
			found, err := o.ringsOf(&a, part, from, to, floating)
			if err != nil {
				return nil, err
			}
			list = append(list, found...)
		}
	}
	return list[:min(len(list), maxRings)], nil
}

// ringsOf returns the times of one alarm of a component.
func (o *Object) ringsOf(a *alarm, part int, from, to time.Time, floating *ical.Zone) (list []Ring, err error) {
	p := a.c.Get("TRIGGER")
	if m, ok := p.Moment(); ok {
		if !m.Wall.After(from) || m.Wall.After(to) {
			return nil, nil
		}
		err = o.Series.Between(time.Unix(-1<<40, 0), time.Unix(1<<40, 0), floating, func(x Occurrence) bool {
			if x.Part == part {
				list = append(list, Ring{m.Wall, a.id, x})
			}
			return len(list) == 0
		})
		return list, err
	}
	offset, _ := ical.Duration(p.Value)
	atEnd := strings.EqualFold(p.Param("RELATED"), "END")
	// An occurrence in the window begins or ends when the alarm goes off, less the offset.
	err = o.Series.Between(from.Add(-offset), to.Add(-offset+time.Second), floating, func(x Occurrence) bool {
		at := x.Start
		if atEnd {
			at = x.End
		}
		if at = at.Add(offset); x.Part == part && at.After(from) && !at.After(to) {
			list = append(list, Ring{at, a.id, x})
		}
		return len(list) < maxRings
	})
	return list, err
}
