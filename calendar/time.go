package calendar

import (
	"strconv"
	"strings"
	"time"

	"doublet/wire/ical"
	"doublet/wire/jmap"
)

const (
	localTime = "2006-01-02T15:04:05"
	utcTime   = "2006-01-02T15:04:05Z"
	wallTime  = "20060102T150405" // of iCalendar
	dayForm   = "20060102"
)

// timeNames lists the properties that DTSTART, DTEND and DURATION stand for.
var timeNames = []string{"start", "timeZone", "duration", "showWithoutTime"}

// instant returns the name of a moment's time zone, "" for none, and the moment in UTC; ok is false if its time zone is
// unknown, or there is none. A zone that only the object defines has the name of RFC 8984 section 4.7.2.
func (e *event) instant(m ical.Moment) (zone string, utc time.Time, ok bool) {
	if m.Zone == "" {
		return "", time.Time{}, false
	}
	z := e.object.Zone(m.Zone)
	if z == nil {
		return "", time.Time{}, false
	}
	if z.Name == "" {
		return "/" + m.Zone, z.At(m.Wall), true
	}
	return z.Name, z.At(m.Wall), true
}

// printRecurrenceID prints the properties that come of RECURRENCE-ID.
func printRecurrenceID(e *event, w *jmap.Writer, wants func(string) bool) {
	id, ok := e.c.Get("RECURRENCE-ID").Moment()
	if !ok {
		return
	}
	zone, _, _ := e.instant(id)
	if wants("recurrenceId") {
		w.Text("recurrenceId", id.Wall.Format(localTime))
	}
	if wants("recurrenceIdTimeZone") && zone != "" {
		w.Text("recurrenceIdTimeZone", zone)
	}
}

// printTimes prints the properties that come of DTSTART, DTEND and DURATION.
//
// Implements: RFC 8984 §5.1.1 start, §5.1.2 duration, §4.7.1 timeZone, §4.2.4 showWithoutTime
func printTimes(e *event, w *jmap.Writer, wants func(string) bool) {
	start, ok := e.c.Get("DTSTART").Moment()
	if !ok {
		return
	}
	zone, begin, known := e.instant(start)
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
		w.Text("duration", duration(e.length(start, begin, known), start.Day))
	}
	if wants("showWithoutTime") {
		w.Bool("showWithoutTime", start.Day)
	}
}

// printUTC prints the times in UTC. Those of an event without a zone are calculated in the zone of the reader, if one
// is given.
func printUTC(e *event, w *jmap.Writer, wants func(string) bool) {
	if e.c.Name == Task {
		printTaskUTC(e, w, wants)
		return
	}
	start, ok := e.c.Get("DTSTART").Moment()
	if !ok || !wants("utcStart") && !wants("utcEnd") {
		return
	}
	_, begin, known := e.instant(start)
	length := e.length(start, begin, known)
	end := begin.Add(length)
	if !known {
		if e.floating == nil {
			return
		}
		begin, end = e.floating.At(start.Wall), e.floating.At(start.Wall.Add(length))
	}
	if wants("utcStart") {
		w.Text("utcStart", begin.Format(utcTime))
	}
	if wants("utcEnd") {
		w.Text("utcEnd", end.Format(utcTime))
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

// Duration prints a duration that is not negative as JSCalendar does, in hours, minutes and seconds.
func Duration(d time.Duration) string { return duration(d, false) }

// ParseLocal parses a LocalDateTime of JSCalendar, as if it were UTC.
//
// Implements: RFC 8984 §1.4.4 LocalDateTime
func ParseLocal(s string) (time.Time, bool) {
	t, err := time.Parse(localTime, s)
	return t, err == nil && len(s) == len(localTime) && t.Year() >= 1
}

// wanted are the times that an event is to have.
type wanted struct {
	start  time.Time
	zone   string // "" means the local time of each place
	day    bool
	length string // a Duration, not negative
}

// wantedTimes reads the times of an event. What is missing has the default of JSCalendar.
func wantedTimes(want *jmap.Value) (t wanted, err error) {
	s, _ := want.Get("start").Text()
	ok := false
	if t.start, ok = ParseLocal(s); !ok {
		return t, invalid("it is no LocalDateTime", "start")
	}
	if t.zone, ok = textOf(want, "timeZone"); !ok {
		return t, invalid("it is no name of a time zone", "timeZone")
	}
	if v := want.Get("showWithoutTime"); !v.IsNull() {
		if t.day, ok = v.Bool(); !ok {
			return t, invalid("it is no boolean", "showWithoutTime")
		}
	}
	if t.length, ok = textOf(want, "duration"); t.length == "" {
		t.length = "PT0S"
	}
	if d, isDuration := ical.Duration(t.length); !ok || !isDuration || d < 0 || strings.HasPrefix(t.length, "+") {
		return t, invalid("it is no Duration of at most 100 years", "duration")
	}
	if t.day {
		t.zone = ""
		t.start = t.start.Truncate(24 * time.Hour)
	}
	return t, nil
}

// setTimes writes DTSTART, and DTEND, or DURATION where the event had it. A TZID of another spelling stays.
func setTimes(e *event, old, want *jmap.Value) error {
	t, err := wantedTimes(want)
	if err != nil {
		return err
	}
	if !e.knows(t.zone) {
		return invalid("the time zone is not in the IANA database", "timeZone")
	}
	same := func(name string) bool { return old.Get(name).Equal(want.Get(name)) }
	byDuration := e.c.Get("DURATION") != nil
	if !same("start") || !same("timeZone") || !same("showWithoutTime") {
		e.c.Set(e.moment("DTSTART", t.start, t.zone, t.day))
	}
	if !same("timeZone") || !same("showWithoutTime") { // the end of a rule is written as the start is
		if err := setRules(e, old, want); err != nil {
			return err
		}
	}
	if byDuration {
		e.c.Set(ical.Property{Name: "DURATION", Value: t.length})
		return nil
	}
	d, _ := ical.Duration(t.length)
	end := t.start.Add(d)
	if days, exact := nominal(t.length); !t.day && t.zone != "" {
		if z := e.zone(t.zone); z != nil { // days are days of the calendar, hours are exact
			end = z.Wall(z.At(t.start.Add(days)).Add(exact))
		}
	} else if t.day {
		end = t.start.Add(max(24*time.Hour, d.Truncate(24*time.Hour)))
	}
	if end.Equal(t.start) {
		e.c.Drop("DTEND") // RFC 5545 §3.8.2.2: an end is later than the start
		return nil
	}
	e.c.Set(e.moment("DTEND", end, t.zone, t.day))
	return nil
}

// nominal splits a duration into its days and its time.
func nominal(s string) (days, exact time.Duration) {
	date, clock, _ := strings.Cut(s, "T")
	if d, ok := ical.Duration(date); ok {
		days = d
	}
	if d, ok := ical.Duration("PT" + clock); ok {
		exact = d
	}
	return days, exact
}

// knows reports whether the object may use a time zone: "", one of the IANA database, or one that it defines.
func (e *event) knows(zone string) bool {
	if zone == "" || ical.HasZone(zone) {
		return true
	}
	return e.zone(zone) != nil
}

// zone returns the zone of a name as JSCalendar writes it; nil if there is none.
func (e *event) zone(name string) *ical.Zone {
	if tzid, own := strings.CutPrefix(name, "/"); own {
		return e.object.Zone(tzid)
	}
	if ical.HasZone(name) {
		return ical.Named(name)
	}
	return nil
}

// moment returns a property of a time. It adds a VTIMEZONE to the object if that needs one.
func (e *event) moment(name string, wall time.Time, zone string, day bool) ical.Property {
	p := ical.Property{Name: name, Value: wall.Format(wallTime)}
	switch {
	case day:
		p.Value = wall.Format(dayForm)
		p.SetParam("VALUE", "DATE")
	case zone == "Etc/UTC" || zone == "UTC":
		p.Value += "Z"
	case zone != "":
		p.SetParam("TZID", e.tzid(zone, wall))
	}
	return p
}

// tzid returns the TZID by which the object names a zone.
func (e *event) tzid(zone string, wall time.Time) string {
	if own, ok := strings.CutPrefix(zone, "/"); ok {
		return own
	}
	for _, c := range e.object.Children {
		if c.Name == "VTIMEZONE" {
			if z := e.object.Zone(c.Text("TZID")); z != nil && z.Name == zone {
				return c.Text("TZID")
			}
		}
	}
	if p := e.c.Get("DTSTART"); p != nil && p.Param("TZID") != "" {
		if z := e.object.Zone(p.Param("TZID")); z != nil && z.Name == zone {
			return p.Param("TZID")
		}
	}
	if z := ical.NewTimezone(zone, wall.Year()); z != nil {
		e.object.Children = append([]*ical.Component{z}, e.object.Children...)
	}
	return zone
}
