// Package calendar turns iCalendar objects, as mail brings them, into JSCalendar events (RFC 8984).
package calendar

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"doublet/wire/ical"
	"doublet/wire/jmap"
)

// Bounds of what AppendEvents prints.
const (
	maxEvents    = 500
	maxAttendees = 1000
)

// Properties are the properties that AppendEvents prints. utcStart and utcEnd are those of JMAP for Calendars.
var Properties = []string{
	"@type", "uid", "method", "sequence", "updated", "title", "description", "start", "timeZone", "duration",
	"showWithoutTime", "status", "locations", "virtualLocations", "replyTo", "participants", "recurrenceId",
	"recurrenceIdTimeZone", "recurrenceRules", "utcStart", "utcEnd", "freeBusyStatus", "privacy", "color", "keywords",
}

// AppendEvents prints the events of an object as an array of JSCalendar events with the named properties; ok is false
// if there are none, or too many.
//
// Implements: RFC 8984 §5.1 Event, as far as Properties go
func AppendEvents(dst []byte, object *ical.Component, properties []string) (out []byte, ok bool) {
	if object.Name != "VCALENDAR" {
		return dst, false
	}
	out = append(dst, '[')
	n := 0
	for _, c := range object.Children {
		if c.Name != "VEVENT" {
			continue
		}
		if n++; n > maxEvents {
			return dst, false
		}
		if n > 1 {
			out = append(out, ',')
		}
		e := event{object: object, c: c}
		if out, ok = e.append(out, properties); !ok {
			return dst, false
		}
	}
	if n == 0 {
		return dst, false
	}
	return append(out, ']'), true
}

// event is a VEVENT of an object.
type event struct {
	object, c *ical.Component
}

// append prints the event; ok is false if it has too many attendees.
func (e *event) append(dst []byte, properties []string) (out []byte, ok bool) {
	w := jmap.NewWriter(dst)
	for _, name := range properties {
		switch name {
		case "@type":
			w.Text(name, "Event")
		case "uid":
			e.text(&w, name, "UID")
		case "method":
			if m := e.object.Text("METHOD"); m != "" {
				w.Text(name, strings.ToLower(m))
			}
		case "sequence":
			n, _ := strconv.ParseUint(e.c.Text("SEQUENCE"), 10, 31)
			w.Uint(name, n)
		case "updated":
			if m, ok := e.c.Get("DTSTAMP").Moment(); ok {
				w.Text(name, m.Wall.Format(utcTime))
			}
		case "title":
			e.text(&w, name, "SUMMARY")
		case "description":
			e.text(&w, name, "DESCRIPTION")
		case "status":
			if s := strings.ToLower(e.c.Text("STATUS")); s != "" {
				w.Text(name, s)
			}
		case "locations":
			e.locations(&w)
		case "virtualLocations":
			e.virtualLocations(&w)
		case "replyTo":
			if p := e.c.Get("ORGANIZER"); p != nil {
				w.Object(name, func(o *jmap.Writer) { o.Text("imip", strings.TrimSpace(p.Value)) })
			}
		case "participants":
			if !e.participants(&w) {
				return dst, false
			}
		case "recurrenceRules":
			e.rules(&w)
		}
	}
	e.times(&w, properties)
	e.marks(&w, properties)
	return w.End(), true
}

// text prints a TEXT property if the event has it.
func (e *event) text(w *jmap.Writer, name, property string) {
	if p := e.c.Get(property); p != nil {
		w.Text(name, p.Text())
	}
}

const (
	localTime = "2006-01-02T15:04:05"
	utcTime   = "2006-01-02T15:04:05Z"
)

// instant returns the name of a moment's time zone, "" for none, and the moment in UTC; ok is false if its time zone is
// unknown, or there is none.
func (e *event) instant(m ical.Moment) (zone string, utc time.Time, ok bool) {
	if m.Zone == "" {
		return "", time.Time{}, false
	}
	z := e.object.Zone(m.Zone)
	if z == nil {
		return "", time.Time{}, false
	}
	return z.Name, z.At(m.Wall), true
}

// times prints the properties that come of DTSTART, DTEND, DURATION and RECURRENCE-ID.
func (e *event) times(w *jmap.Writer, properties []string) {
	wants := func(name string) bool { return slices.Contains(properties, name) }
	if id, ok := e.c.Get("RECURRENCE-ID").Moment(); ok {
		zone, _, _ := e.instant(id)
		if wants("recurrenceId") {
			w.Text("recurrenceId", id.Wall.Format(localTime))
		}
		if wants("recurrenceIdTimeZone") && zone != "" {
			w.Text("recurrenceIdTimeZone", zone)
		}
	}
	start, ok := e.c.Get("DTSTART").Moment()
	if !ok {
		return
	}
	zone, begin, known := e.instant(start)
	length := e.length(start, begin, known)
	if wants("start") {
		w.Text("start", start.Wall.Format(localTime))
	}
	if wants("timeZone") {
		if zone == "" {
			w.Raw("timeZone", "null")
		} else {
			w.Text("timeZone", zone)
		}
	}
	if wants("duration") {
		w.Text("duration", duration(length, start.Day))
	}
	if wants("showWithoutTime") {
		w.Bool("showWithoutTime", start.Day)
	}
	if !known {
		return
	}
	if wants("utcStart") {
		w.Text("utcStart", begin.Format(utcTime))
	}
	if wants("utcEnd") {
		w.Text("utcEnd", begin.Add(length).Format(utcTime))
	}
}

// length returns how long the event lasts, 0 at least: until DTEND, else for DURATION, else for the day of a DATE.
func (e *event) length(start ical.Moment, begin time.Time, known bool) time.Duration {
	if end, ok := e.c.Get("DTEND").Moment(); ok {
		if _, utc, ok := e.instant(end); ok && known {
			return max(0, utc.Sub(begin))
		}
		return max(0, end.Wall.Sub(start.Wall))
	}
	if d, ok := ical.Duration(e.c.Text("DURATION")); ok {
		return max(0, d)
	}
	if start.Day {
		return 24 * time.Hour
	}
	return 0
}

// duration prints a duration; days that an event of whole days lasts are days, whatever a clock change does to them.
//
// Implements: RFC 8984 §1.4.6 Duration
func duration(d time.Duration, days bool) string {
	if days && d >= 24*time.Hour {
		return "P" + strconv.Itoa(int(d/(24*time.Hour))) + "D"
	}
	h, m, s := int(d/time.Hour), int(d/time.Minute%60), int(d/time.Second%60)
	out := "PT"
	for _, part := range [...]struct {
		n    int
		unit string
	}{{h, "H"}, {m, "M"}, {s, "S"}} {
		if part.n > 0 {
			out += strconv.Itoa(part.n) + part.unit
		}
	}
	if out == "PT" {
		return "PT0S"
	}
	return out
}

// locations prints the place of the event.
func (e *event) locations(w *jmap.Writer) {
	if name := e.c.Text("LOCATION"); name != "" {
		w.Object("locations", func(o *jmap.Writer) {
			o.Object("1", func(o *jmap.Writer) {
				o.Text("@type", "Location")
				o.Text("name", name)
			})
		})
	}
}

// meeting lists the properties that name an address to meet at: that of RFC 7986, and those of two big services.
var meeting = []string{"CONFERENCE", "X-GOOGLE-CONFERENCE", "X-MICROSOFT-SKYPETEAMSMEETINGURL"}

// virtualLocations prints the address of the event on the web.
func (e *event) virtualLocations(w *jmap.Writer) {
	for _, name := range meeting {
		if address := e.c.Text(name); strings.HasPrefix(address, "https://") {
			w.Object("virtualLocations", func(o *jmap.Writer) {
				o.Object("1", func(o *jmap.Writer) {
					o.Text("@type", "VirtualLocation")
					o.Text("uri", address)
				})
			})
			return
		}
	}
}

// participants prints the organizer and the attendees; one who is both is one participant. ok is false if there are too
// many.
func (e *event) participants(w *jmap.Writer) (ok bool) {
	type participant struct {
		*ical.Property
		owner bool
	}
	var list []participant
	at := map[string]int{}
	for i := range e.c.Properties {
		p := &e.c.Properties[i]
		if p.Name != "ATTENDEE" && p.Name != "ORGANIZER" {
			continue
		}
		address := strings.ToLower(strings.TrimSpace(p.Value))
		before, twice := at[address]
		switch {
		case !twice:
			at[address] = len(list)
			list = append(list, participant{p, p.Name == "ORGANIZER"})
		case p.Name == "ORGANIZER":
			list[before].owner = true
		case list[before].owner:
			list[before].Property = p // what the attendee's line says of the organizer is more
		}
		if len(list) > maxAttendees {
			return false
		}
	}
	if len(list) == 0 {
		return true
	}
	w.Object("participants", func(o *jmap.Writer) {
		for i, p := range list {
			o.Object(strconv.Itoa(i+1), func(o *jmap.Writer) { appendParticipant(o, p.Property, p.owner) })
		}
	})
	return true
}

// appendParticipant prints a participant.
//
// Implements: RFC 8984 §4.4.6 participants
func appendParticipant(o *jmap.Writer, p *ical.Property, owner bool) {
	address := strings.TrimSpace(p.Value)
	o.Text("@type", "Participant")
	if name := p.Param("CN"); name != "" {
		o.Text("name", name)
	}
	if len(address) > 7 && strings.EqualFold(address[:7], "mailto:") {
		o.Text("email", address[7:])
	}
	o.Object("sendTo", func(o *jmap.Writer) { o.Text("imip", address) })
	kind := "individual"
	switch p.Param("CUTYPE") {
	case "GROUP":
		kind = "group"
	case "ROOM":
		kind = "location"
	case "RESOURCE":
		kind = "resource"
	}
	o.Text("kind", kind)
	attends := p.Name == "ATTENDEE"
	o.Object("roles", func(o *jmap.Writer) {
		for _, role := range [...]struct {
			name string
			has  bool
		}{
			{"owner", owner}, {"attendee", attends && p.Param("ROLE") != "NON-PARTICIPANT"},
			{"optional", p.Param("ROLE") == "OPT-PARTICIPANT"}, {"chair", p.Param("ROLE") == "CHAIR"},
			{"informational", p.Param("ROLE") == "NON-PARTICIPANT"},
		} {
			if role.has {
				o.Bool(role.name, true)
			}
		}
	})
	if attends {
		status := strings.ToLower(p.Param("PARTSTAT"))
		if status == "" {
			status = "needs-action"
		}
		o.Text("participationStatus", status)
		o.Bool("expectReply", strings.EqualFold(p.Param("RSVP"), "TRUE"))
	}
}

// rules prints the recurrence rule of the event.
//
// Implements: RFC 8984 §4.3.3 recurrenceRules
func (e *event) rules(w *jmap.Writer) {
	p := e.c.Get("RRULE")
	if p == nil {
		return
	}
	parts := ical.Rule(p.Value)
	if parts["FREQ"] == "" {
		return
	}
	w.Name("recurrenceRules")
	o := jmap.NewWriter(append(w.B, '['))
	o.Text("@type", "RecurrenceRule")
	o.Text("frequency", strings.ToLower(parts["FREQ"]))
	for _, number := range [...]struct{ from, to string }{{"INTERVAL", "interval"}, {"COUNT", "count"}} {
		if n, err := strconv.ParseUint(parts[number.from], 10, 31); err == nil {
			o.Uint(number.to, n)
		}
	}
	until := ical.Property{Value: parts["UNTIL"]}
	if m, ok := until.Moment(); ok {
		if start, ok := e.c.Get("DTSTART").Moment(); ok && m.Zone == "UTC" {
			if _, utc, ok := e.instant(start); ok { // until is local time, as start is
				m.Wall = m.Wall.Add(start.Wall.Sub(utc))
			}
		}
		o.Text("until", m.Wall.Format(localTime))
	}
	if by := parts["BYDAY"]; by != "" {
		appendDays(&o, by)
	}
	for _, list := range [...]struct{ from, to string }{
		{"BYMONTHDAY", "byMonthDay"}, {"BYYEARDAY", "byYearDay"}, {"BYWEEKNO", "byWeekNo"}, {"BYHOUR", "byHour"},
		{"BYMINUTE", "byMinute"}, {"BYSECOND", "bySecond"}, {"BYSETPOS", "bySetPosition"},
	} {
		if by := parts[list.from]; by != "" {
			o.Name(list.to)
			o.B = append(o.B, '[')
			for i, n := range numbers(by) {
				if i > 0 {
					o.B = append(o.B, ',')
				}
				o.B = strconv.AppendInt(o.B, int64(n), 10)
			}
			o.B = append(o.B, ']')
		}
	}
	if by := parts["BYMONTH"]; by != "" {
		var months []string
		for _, n := range numbers(by) {
			months = append(months, strconv.Itoa(n))
		}
		o.Strings("byMonth", months...)
	}
	w.B = append(o.End(), ']')
}

// numbers parses a list of whole numbers, and leaves out what is none.
func numbers(s string) (list []int) {
	for x := range strings.SplitSeq(s, ",") {
		if n, err := strconv.Atoi(x); err == nil && n >= -366 && n <= 366 {
			list = append(list, n)
		}
	}
	return list
}

// appendDays prints the days of a rule, each with its number in the month or year if it has one.
func appendDays(o *jmap.Writer, by string) {
	o.Name("byDay")
	o.B = append(o.B, '[')
	n := 0
	for x := range strings.SplitSeq(by, ",") {
		if len(x) < 2 {
			continue
		}
		if n++; n > 1 {
			o.B = append(o.B, ',')
		}
		d := jmap.NewWriter(o.B)
		d.Text("@type", "NDay")
		d.Text("day", strings.ToLower(x[len(x)-2:]))
		if nth, err := strconv.Atoi(x[:len(x)-2]); err == nil && nth >= -366 && nth <= 366 {
			d.Name("nthOfPeriod")
			d.B = strconv.AppendInt(d.B, int64(nth), 10)
		}
		o.B = d.End()
	}
	o.B = append(o.B, ']')
}
