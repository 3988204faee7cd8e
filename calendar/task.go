package calendar

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"doublet/wire/ical"
	"doublet/wire/jmap"
)

// taskTimeNames lists the properties that DTSTART, DUE and DURATION of a task stand for. A task need have none.
var taskTimeNames = []string{"start", "due", "timeZone", "showWithoutTime"}

// first returns the time that says the time zone of a task, and that it is of whole days: its start, or else its due
// time.
func (e *event) first() (m ical.Moment, ok bool) {
	if m, ok = e.c.Get("DTSTART").Moment(); ok {
		return m, true
	}
	return e.c.Get("DUE").Moment()
}

// due returns the due time of a task on the clocks of its first time: DUE, or DURATION after DTSTART.
func (e *event) due() (wall time.Time, ok bool) {
	first, _ := e.first()
	if m, ok := e.c.Get("DUE").Moment(); ok {
		_, at, known := e.instant(m)
		if z := e.object.Zone(first.Zone); known && z != nil && first.Zone != m.Zone {
			return z.Wall(at), true
		}
		return m.Wall, true
	}
	if d, ok := ical.Duration(e.c.Text("DURATION")); ok && e.c.Get("DTSTART") != nil {
		return first.Wall.Add(max(0, d)), true
	}
	return time.Time{}, false
}

// printTaskTimes prints the properties that come of DTSTART, DUE and DURATION of a task. A due day is the last day, as
// programs read a DUE that is a DATE; it is not the day after.
//
// Implements: RFC 8984 §5.2.1 due, §5.2.2 start
func printTaskTimes(e *event, w *jmap.Writer, wants func(string) bool) {
	first, ok := e.first()
	if !ok {
		return
	}
	if m, ok := e.c.Get("DTSTART").Moment(); ok && wants("start") {
		w.Text("start", m.Wall.Format(localTime))
	}
	if due, ok := e.due(); ok && wants("due") {
		w.Text("due", due.Format(localTime))
	}
	if wants("timeZone") {
		if zone, _, _ := e.instant(first); zone == "" {
			w.Raw("timeZone", "null")
		} else {
			w.Text("timeZone", zone)
		}
	}
	if wants("showWithoutTime") {
		w.Bool("showWithoutTime", first.Day)
	}
}

// printTaskUTC prints the times of a task in UTC, as printUTC does those of an event.
func printTaskUTC(e *event, w *jmap.Writer, wants func(string) bool) {
	first, ok := e.first()
	zone := e.floating
	if z := e.object.Zone(first.Zone); ok && first.Zone != "" && z != nil {
		zone = z
	}
	if zone == nil {
		return
	}
	if m, ok := e.c.Get("DTSTART").Moment(); ok && wants("utcStart") {
		w.Text("utcStart", zone.At(m.Wall).Format(utcTime))
	}
	if due, ok := e.due(); ok && wants("utcDue") {
		w.Text("utcDue", zone.At(due).Format(utcTime))
	}
}

// wantedTask are the times that a task is to have: its start and due time, zero for none.
type wantedTask struct {
	at   [2]time.Time
	zone string // "" means the local time of each place
	day  bool
}

// wantedTaskTimes reads the times of a task.
func wantedTaskTimes(want *jmap.Value) (t wantedTask, err error) {
	ok := false
	if t.zone, ok = textOf(want, "timeZone"); !ok {
		return t, invalid("it is no name of a time zone", "timeZone")
	}
	if v := want.Get("showWithoutTime"); !v.IsNull() {
		if t.day, ok = v.Bool(); !ok {
			return t, invalid("it is no boolean", "showWithoutTime")
		}
	}
	for i, name := range [...]string{"start", "due"} {
		v := want.Get(name)
		s, _ := v.Text()
		if t.at[i], ok = ParseLocal(s); !ok && !v.IsNull() {
			return t, invalid("it is no LocalDateTime", name)
		}
		if t.day {
			t.at[i] = t.at[i].Truncate(24 * time.Hour)
		}
	}
	if t.day {
		t.zone = ""
	}
	if !t.at[0].IsZero() && !t.at[1].IsZero() && t.at[1].Before(t.at[0]) {
		return t, invalid("it is before the start", "due")
	}
	return t, nil
}

// setTaskTimes writes DTSTART and DUE. A task without both has no time zone: that of the client is left out.
func setTaskTimes(e *event, old, want *jmap.Value) error {
	t, err := wantedTaskTimes(want)
	if err != nil {
		return err
	}
	if !e.knows(t.zone) {
		return invalid("the time zone is not in the IANA database", "timeZone")
	}
	if t.at[0].IsZero() && want.Get("recurrenceRules").Len() > 0 {
		return invalid("a task that recurs has a start", "start")
	}
	e.c.Drop("DURATION") // RFC 5545 §3.6.2: DUE stands in its place
	for i, name := range [...]string{"DTSTART", "DUE"} {
		if t.at[i].IsZero() {
			e.c.Drop(name)
		} else {
			e.c.Set(e.moment(name, t.at[i], t.zone, t.day))
		}
	}
	for _, name := range [...]string{"timeZone", "showWithoutTime"} {
		if !old.Get(name).Equal(want.Get(name)) { // the end of a rule is written as the start is
			return setRules(e, old, want)
		}
	}
	return nil
}

// progressOf lists the values of progress; those of STATUS are the same in capital letters. FAILED is of
// draft-ietf-calext-ical-tasks.
var progressOf = []string{"needs-action", "in-process", "completed", "cancelled", "failed"}

// Progress returns how far a VTODO is, as a value of JSCalendar, "" if it does not say. One that has no STATUS, and a
// time at which it was completed, is completed.
func Progress(c *ical.Component) string {
	progress := strings.ToLower(c.Text("STATUS"))
	if slices.Contains(progressOf, progress) {
		return progress
	}
	if _, isDone := c.Get("COMPLETED").Moment(); isDone {
		return "completed"
	}
	return ""
}

// printProgress prints how far a task is, and since when it is completed.
//
// Implements: RFC 8984 §5.2.5 progress, §5.2.6 progressUpdated
func printProgress(e *event, w *jmap.Writer, wants func(string) bool) {
	progress := Progress(e.c)
	at, isDone := e.c.Get("COMPLETED").Moment()
	if progress != "" && wants("progress") {
		w.Text("progress", progress)
	}
	if progress == "completed" && isDone && wants("progressUpdated") {
		w.Text("progressUpdated", at.Wall.Format(utcTime))
	}
}

// setProgress writes STATUS, and COMPLETED of a completed task: at progressUpdated if that changes, or else at the time
// of the change. Tasks that are not completed have no line for progressUpdated.
func setProgress(e *event, old, want *jmap.Value) error {
	progress, ok := textOf(want, "progress")
	if !ok || progress != "" && !slices.Contains(progressOf, progress) {
		return invalid("it is not one of the values of JSCalendar", "progress")
	}
	at, ok := utcDate(want, "progressUpdated")
	if !ok {
		return invalid("it is no UTCDateTime", "progressUpdated")
	}
	if at.IsZero() || !want.Get("progress").Equal(old.Get("progress")) &&
		want.Get("progressUpdated").Equal(old.Get("progressUpdated")) {
		at, _ = utcDate(want, "updated")
	}
	e.c.Drop("STATUS")
	e.c.Drop("COMPLETED")
	if progress != "" {
		e.c.Set(ical.Property{Name: "STATUS", Value: strings.ToUpper(progress)})
	}
	if progress == "completed" && !at.IsZero() {
		e.c.Set(ical.Property{Name: "COMPLETED", Value: at.Format(stamp)})
	}
	return nil
}

// printPercent prints how much of a task is done.
//
// Implements: RFC 8984 §5.2.4 percentComplete
func printPercent(e *event, w *jmap.Writer, _ func(string) bool) {
	if n, err := strconv.ParseUint(e.c.Text("PERCENT-COMPLETE"), 10, 31); err == nil && n <= 100 {
		w.Uint("percentComplete", n)
	}
}

func setPercent(e *event, _, want *jmap.Value) error {
	return setNumber(e.c, "PERCENT-COMPLETE", "percentComplete", 100, want)
}
