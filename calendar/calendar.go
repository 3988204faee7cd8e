// Package calendar reads and writes the objects of calendars: iCalendar texts (RFC 5545) and the JSCalendar events and
// tasks (RFC 8984) that describe the same. The iCalendar text is the one that is kept; a change of a JSCalendar
// property changes the lines that stand for it and no others.
package calendar

import (
	"slices"
	"strings"

	"doublet/wire/ical"
	"doublet/wire/jmap"
)

// Bounds of what AppendEvents prints.
const (
	maxEvents    = 500
	maxAttendees = 1000
)

// event is a VEVENT or VTODO of an object.
type event struct {
	object, c *ical.Component
	// sees reports whether the reader sees a participant with an address in lower case; nil means all. Owners are
	// always seen.
	sees func(address string) bool
	// blobs are those of the managed attachments; nil: links have none.
	blobs Blobs
	// floating is the zone in which utcStart and utcEnd of an event without a zone are calculated; nil: they are not.
	floating *ical.Zone
}

// field is a property of JSCalendar, or several that the same lines of iCalendar stand for.
type field struct {
	names []string
	// print prints the properties that are wanted and that the event has.
	print func(e *event, w *jmap.Writer, wants func(string) bool)
	// set changes the lines of the event that stand for the properties. old and want are the event before and after.
	// nil: the properties cannot be set, or not by themselves.
	set func(e *event, old, want *jmap.Value) error
	// open is set if a part of the value of the first property that iCalendar has no lines for is kept in JSPROP.
	open bool
	// series is set if an override of an instance cannot change the properties (RFC 8984 section 4.3.5).
	series bool
	// kind is the kind of object that has the properties, "" for all. Where events and tasks have a property of one
	// name, open and series of both fields are equal.
	kind string
}

// fields lists the properties that iCalendar has lines for. init fills it, because functions of the fields use it.
var fields []field

func init() {
	fields = []field{
		{names: []string{"@type"}, print: printType, series: true},
		{names: []string{"uid"}, print: printText("UID"), series: true},
		{names: []string{"method"}, print: printMethod, series: true},
		{names: []string{"prodId"}, print: printProduct, set: setProduct, series: true},
		{names: []string{"sequence"}, print: printSequence, set: setSequence, series: true},
		{names: []string{"created"}, print: printStamp("CREATED"), set: setStamp("CREATED"), series: true},
		{names: []string{"updated"}, print: printUpdated, set: setUpdated, series: true},
		{names: []string{"locale", "title"}, print: printTitle, set: setTitle, open: true},
		{names: []string{"description"}, print: printText("DESCRIPTION"), set: setDescription},
		{names: timeNames, print: printTimes, set: setTimes, kind: Event},
		{names: taskTimeNames, print: printTaskTimes, set: setTaskTimes, kind: Task},
		{names: []string{"recurrenceId", "recurrenceIdTimeZone"}, print: printRecurrenceID, series: true},
		{names: []string{"recurrenceRules"}, print: printRules, set: setRules, series: true},
		{names: []string{"status"}, print: printStatus, set: setStatus, kind: Event},
		{names: []string{"progress", "progressUpdated"}, print: printProgress, set: setProgress, kind: Task},
		{names: []string{"percentComplete"}, print: printPercent, set: setPercent, kind: Task},
		{names: []string{"priority"}, print: printPriority, set: setPriority},
		{names: []string{"freeBusyStatus"}, print: printFreeBusy, set: setFreeBusy, kind: Event},
		{names: []string{"privacy"}, print: printPrivacy, set: setPrivacy, series: true},
		{names: []string{"color"}, print: printText("COLOR"), set: setText("COLOR")},
		{names: []string{"keywords"}, print: printKeywords, set: setKeywords},
		{names: []string{"categories"}, print: printCategories, set: setCategories},
		{names: []string{"locations"}, print: printLocations, set: setLocations, open: true},
		{names: []string{"virtualLocations"}, print: printVirtual, set: setVirtual, open: true},
		{names: []string{"links"}, print: printLinks, set: setLinks, open: true},
		{names: []string{"relatedTo"}, print: printRelated, set: setRelated, open: true, series: true},
		{names: []string{"replyTo"}, print: printReplyTo, set: setPeople, open: true, series: true},
		{names: []string{"participants"}, print: printParticipants, set: setPeople, open: true},
		{names: []string{"alerts"}, print: printAlerts, set: setAlerts, open: true},
	}
	for i := range fields {
		for _, kind := range [...]string{Event, Task} {
			if fields[i].of(kind) {
				properties[kind] = append(properties[kind], fields[i].names...)
			}
		}
	}
	properties[Event] = append(properties[Event], "utcStart", "utcEnd")
	properties[Task] = append(properties[Task], "utcStart", "utcDue")
}

// properties lists the properties that the lines of an object stand for, by its kind.
var properties = map[string][]string{}

// Properties returns the properties of an Event or Task that its lines stand for. utcStart and utcEnd are those of JMAP
// for Calendars, utcDue that of JMAP for Tasks.
func Properties(kind string) []string { return properties[kind] }

// of reports whether objects of a kind have the field.
func (f *field) of(kind string) bool { return f.kind == "" || f.kind == kind }

// kept lists the properties of JSCalendar, and of JMAP for Calendars, that iCalendar has no lines for. They are kept in
// JSPROP, as the properties of vendors are, whose names have a colon.
var kept = []string{"useDefaultAlerts", "descriptionContentType", "localizations", "mayInviteSelf", "mayInviteOthers",
	"hideAttendees", "requestStatus", "isDraft", "estimatedDuration"}

// fieldOf returns a field of a property, nil if iCalendar has no lines for it.
func fieldOf(name string) *field {
	for i := range fields {
		if slices.Contains(fields[i].names, name) {
			return &fields[i]
		}
	}
	return nil
}

// fieldFor returns the field of a property in objects of a kind, nil if they have no lines for it.
func fieldFor(kind, name string) *field {
	for i := range fields {
		if fields[i].of(kind) && slices.Contains(fields[i].names, name) {
			return &fields[i]
		}
	}
	return nil
}

// AppendEvents prints the events of an object as an array of JSCalendar events with the named properties; ok is false
// if there are none, or too many. It prints each component by itself, so that an instance is an event with a
// recurrenceId, and leaves out what stands in JSPROP, because the object may be a stranger's.
//
// Implements: RFC 8984 §5.1 Event
func AppendEvents(dst []byte, object *ical.Component, properties []string) (out []byte, ok bool) {
	if object.Name != "VCALENDAR" {
		return dst, false
	}
	wants := func(name string) bool { return slices.Contains(properties, name) }
	out = append(dst, '[')
	n := 0
	for _, c := range object.Children {
		if c.Name != Event {
			continue
		}
		if n++; n > maxEvents || people(c) > maxAttendees {
			return dst, false
		}
		if n > 1 {
			out = append(out, ',')
		}
		e := event{object: object, c: c}
		w := jmap.NewWriter(out)
		e.print(&w, wants)
		out = w.End()
	}
	if n == 0 {
		return dst, false
	}
	return append(out, ']'), true
}

// print prints the properties for which the event has lines.
func (e *event) print(w *jmap.Writer, wants func(string) bool) {
	for i := range fields {
		if fields[i].of(e.c.Name) && slices.ContainsFunc(fields[i].names, wants) {
			fields[i].print(e, w, wants)
		}
	}
	printUTC(e, w, wants)
}

// inUTC reports whether a property is a time in UTC, which is calculated.
func inUTC(name string) bool { return name == "utcStart" || name == "utcEnd" || name == "utcDue" }

// value returns the event with all properties but those in UTC, with what stands in JSPROP.
func (e *event) value() *jmap.Value {
	w := jmap.NewWriter(nil)
	e.print(&w, func(name string) bool { return !inUTC(name) })
	return e.withExtra(mustParse(w.End()))
}

// mustParse parses JSON that this package printed.
func mustParse(text []byte) *jmap.Value {
	v, err := jmap.Parse(string(text), jmap.Bounds{Values: 1 << 30})
	if err != nil {
		panic(err) // a bug: the writer prints I-JSON
	}
	return v
}

func printType(e *event, w *jmap.Writer, _ func(string) bool) {
	w.Text("@type", map[string]string{Event: "Event", Task: "Task"}[e.c.Name])
}

func printMethod(e *event, w *jmap.Writer, _ func(string) bool) {
	if m := e.object.Text("METHOD"); m != "" {
		w.Text("method", strings.ToLower(m))
	}
}

func printProduct(e *event, w *jmap.Writer, _ func(string) bool) {
	if id := e.object.Text("PRODID"); id != "" {
		w.Text("prodId", id)
	}
}
