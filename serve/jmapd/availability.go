package jmapd

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"doublet/calendar"
	"doublet/directory"
	"doublet/groupware"
	"doublet/note"
	"doublet/scheduling"
	"doublet/store"
	"doublet/wire/ical"
	"doublet/wire/jmap"
)

// maxAvailability is the longest time for which Principal/getAvailability answers.
const maxAvailability = 366 * 24 * time.Hour

// busyPeriod is a time in which a Principal is busy; event is nil if the caller may not see why.
type busyPeriod struct {
	calendar.Period
	event []byte
}

// getAvailability answers Principal/getAvailability with the busy times of a person.
//
// Implements: draft-ietf-jmap-calendars §2.2 Principal/getAvailability
func getAvailability(c *call) error {
	if err := c.arguments(own, "id", "utcStart", "utcEnd", "showDetails", "eventProperties"); err != nil {
		return err
	}
	id, err := c.needText("id")
	if err != nil {
		return err
	}
	from, to, err := c.period()
	if err != nil {
		return err
	}
	details, err := c.bool("showDetails", false)
	if err != nil {
		return err
	}
	properties, some, err := c.list("eventProperties")
	if err != nil {
		return err
	}
	of, err := c.calendarsOf(id)
	if err != nil {
		return err
	}
	var list []busyPeriod
	replica := c.s.backend.Scheduling().Replica(of.File)
	if details {
		f := c.s.backend.Groupware().File(c.caller.Who, of.File)
		view := &eventView{t: events, c: c, self: self{}}
		if some {
			view.setProperties(properties)
		}
		list, err = c.detailed(f, from, to, view)
	}
	if !details || away(err) { // other servers tell the times alone
		list, replica, err = c.plain(of, from, to)
	}
	if err != nil {
		return unavailable(err)
	}
	c.appendBusy(list, replica)
	return nil
}

// period reads the arguments utcStart and utcEnd.
func (c *call) period() (from, to time.Time, err error) {
	for name, at := range map[string]*time.Time{"utcStart": &from, "utcEnd": &to} {
		text, err := c.needText(name)
		if err != nil {
			return from, to, err
		}
		ok := false
		if *at, ok = jmap.ParseDate(text, true); !ok {
			return from, to, invalid("%s is no UTCDate", name)
		}
	}
	if !from.Before(to) {
		return from, to, invalid("utcEnd is not after utcStart")
	}
	if to.Sub(from) > maxAvailability {
		return from, to, &jmap.Error{Type: "tooLarge", Description: "At most " + durationText(maxAvailability) + "."}
	}
	return from, to, nil
}

// calendarsOf returns the calendars of the person or room that a Principal is.
func (c *call) calendarsOf(id string) (of scheduling.Calendars, err error) {
	u, ok := parseID(letterPrincipal, id)
	if !ok {
		return of, &jmap.Error{Type: "notFound"}
	}
	names := c.s.backend.Directory().Names
	list, _, err := names.Entries(c.ctx, []note.UNID{u})
	if err != nil {
		return of, err
	}
	if len(list) == 0 {
		return c.calendarOfRoom(u)
	}
	if list[0].Kind == directory.TargetGroup {
		return of, &jmap.Error{Type: "forbidden", Description: "A group has no calendar."}
	}
	p, err := names.Person(c.ctx, u)
	if err != nil {
		return of, err
	}
	if p.MailDatabase == 0 {
		return of, &jmap.Error{Type: "forbidden", Description: "This person has no calendar here."}
	}
	return scheduling.Calendars{File: p.MailDatabase, MailServer: p.MailServer}, nil
}

// away reports whether an error means that a mail file is not on this server, or on none that answers.
func away(err error) bool {
	return errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrOutOfService) ||
		errors.Is(err, scheduling.ErrAway)
}

// unavailable converts the error for a mail file that is not here.
func unavailable(err error) error {
	if away(err) {
		return &jmap.Error{Type: "serverUnavailable", Description: "The calendars of this person are not here now."}
	}
	if errors.Is(err, store.ErrDenied) {
		return &jmap.Error{Type: "forbidden", Description: "This person does not share the busy times."}
	}
	return err
}

// plain returns the busy times without events, from this server or another one.
func (c *call) plain(of scheduling.Calendars, from, to time.Time) ([]busyPeriod, *scheduling.Replica, error) {
	b := c.s.backend.Scheduling().BusyTimes(c.ctx, c.caller.Who, []scheduling.Calendars{of}, from, to)[0]
	list, err := plainPeriods(b.Periods, b.Err)
	return list, b.Replica, err
}

func plainPeriods(list []calendar.Period, err error) (out []busyPeriod, _ error) {
	for _, p := range list {
		out = append(out, busyPeriod{Period: p})
	}
	return out, err
}

// detailed returns the busy times with the events that the caller may read. Those of other calendars are merged.
func (c *call) detailed(f *groupware.File, from, to time.Time, view *eventView) (list []busyPeriod, err error) {
	if list, err = plainPeriods(f.BusyHidden(c.ctx, from, to)); err != nil {
		return nil, err
	}
	ids, at, err := c.busyInstances(f, from, to)
	if err != nil {
		return nil, err
	}
	size, full := 0, error(nil)
	err = f.ByID(c.ctx, groupware.Calendar, ids, true, func(e *groupware.Entry) bool {
		o := events.of(e) // nil for one that a newer program wrote
		for _, x := range at[e.UNID] {
			b := busyPeriod{Period: calendar.Period{From: later(x.Start, from), To: earlier(x.End, to), Busy: x.Busy}}
			if o != nil && !e.Private {
				b.event = view.busy(e, o, x.ID)
			}
			size += len(b.event)
			list = append(list, b)
		}
		full = c.room(size)
		return full == nil
	})
	slices.SortStableFunc(list, func(a, b busyPeriod) int { return a.From.Compare(b.From) })
	return list, cmp.Or(err, full)
}

// busy prints the event of a busy time, nil if it has no such instance any more.
func (x *eventView) busy(e *groupware.Entry, o *calendar.Object, id time.Time) []byte {
	one, ok := o.Instance(id)
	switch {
	case !ok:
		return nil
	case o.Series.Recurs():
		return x.append(nil, e, o, &one)
	}
	return x.append(nil, e, o, nil)
}

// busyInstances returns the events that are busy times between two instants, in the calendars that the caller may read,
// and the instances of each.
func (c *call) busyInstances(f *groupware.File, from, to time.Time) (ids []note.UNID,
	at map[note.UNID][]calendar.Occurrence, err error) {
	zones, err := countedCalendars(c, f)
	if err != nil {
		return nil, nil, err
	}
	at, count := map[note.UNID][]calendar.Occurrence{}, 0
	err = f.Times(c.ctx, groupware.Range{From: from, To: to, Component: calendar.Event}, func(t *groupware.Times) bool {
		zone, counts := zones[t.Collection]
		if !counts {
			return true
		}
		_ = t.Series.Between(from, to, zone, func(x calendar.Occurrence) bool { // a rule that is too long has no times
			if x.Busy != calendar.Free {
				at[t.UNID] = append(at[t.UNID], x)
				count++
			}
			return count <= maxResults
		})
		if len(at[t.UNID]) > 0 {
			ids = append(ids, t.UNID)
		}
		return count <= maxResults
	})
	if err == nil && count > maxResults {
		err = &jmap.Error{Type: "tooLarge", Description: "There are too many busy times between utcStart and utcEnd."}
	}
	return ids, at, err
}

// countedCalendars returns the time zones of the calendars that the caller may read and whose events are busy times.
func countedCalendars(c *call, f *groupware.File) (map[note.UNID]*ical.Zone, error) {
	list, err := f.Collections(c.ctx, groupware.Calendar)
	zones := map[note.UNID]*ical.Zone{}
	for i := range list {
		if x := &list[i]; calendars.is(x) && !x.Transparent {
			zones[x.UNID] = ical.Named(x.TimeZone)
		}
	}
	return zones, err
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// appendBusy appends the response. fromReplica is set if the server of the primary does not answer.
func (c *call) appendBusy(list []busyPeriod, replica *scheduling.Replica) {
	o := jmap.NewWriter(c.out)
	o.Name("list")
	o.B = append(o.B, '[')
	for i, p := range list {
		if i > 0 {
			o.B = append(o.B, ',')
		}
		in := jmap.NewWriter(o.B)
		in.Name("utcStart")
		in.B = jmap.AppendUTCDate(in.B, p.From)
		in.Name("utcEnd")
		in.B = jmap.AppendUTCDate(in.B, p.To)
		in.Text("busyStatus", map[calendar.Busy]string{calendar.BusyConfirmed: "confirmed",
			calendar.BusyTentative: "tentative"}[p.Busy])
		if p.event == nil {
			in.Raw("event", "null")
		} else {
			in.Raw("event", string(p.event))
		}
		o.B = in.End()
	}
	o.B = append(o.B, ']')
	if replica != nil {
		o.Object("fromReplica", func(in *jmap.Writer) {
			if replica.AsOf.IsZero() {
				in.Raw("asOf", "null")
				return
			}
			in.Name("asOf")
			in.B = jmap.AppendUTCDate(in.B, replica.AsOf)
		})
	}
	c.out = o.End()
}
