package jmapd

import (
	"cmp"
	"slices"

	"doublet/calendar"
	"doublet/groupware"
	"doublet/note"
	"doublet/wire/jmap"
)

// Bounds of events. maxExpanded bounds the instances of one query, maxParticipants the participants of an event.
const (
	minDateTime     = "0001-01-01T00:00:00"
	maxDateTime     = "9999-12-31T23:59:59"
	maxExpanded     = 20_000
	maxParticipants = 1000
)

// appendCalendarsCapability appends the account capability of calendars. create is set if the caller may create
// calendars in the account.
//
// Implements: draft-ietf-jmap-calendars §1.5.1 urn:ietf:params:jmap:calendars
func appendCalendarsCapability(o *jmap.Writer, create bool) {
	o.Object(jmap.Calendars, func(o *jmap.Writer) {
		o.Uint("maxCalendarsPerEvent", 1)
		o.Text("minDateTime", minDateTime)
		o.Text("maxDateTime", maxDateTime)
		o.Text("maxExpandedQueryDuration", durationText(maxExpandedQuery))
		o.Uint("maxParticipantsPerEvent", maxParticipants)
		o.Bool("mayCreateCalendar", create)
	})
}

// calendars is the type Calendar.
//
// Implements: draft-ietf-jmap-calendars §4.1 Calendar/get
// Implements: draft-ietf-jmap-calendars §4.2 Calendar/changes
// Implements: draft-ietf-jmap-calendars §4.3 Calendar/set
var calendars = &collectionType{
	kind: groupware.Calendar, letter: letterCalendar,
	properties: calendarProperties,
	patch: kind{
		mutable: []string{"name", "description", "color", "sortOrder", "isSubscribed", "isVisible",
			"includeInAvailability", "defaultAlertsWithTime", "defaultAlertsWithoutTime", "timeZone", "shareWith"},
		fixed: oneOf("id", "isDefault", "myRights"),
		defaults: map[string]jmap.Value{"sortOrder": jmap.MakeNumber(0), "isVisible": jmap.True(),
			"includeInAvailability": jmap.Text("all")},
	},
	readers: calendarReaders, rights: calendarRights, is: holds(calendar.Event),
	append:       appendCalendar(letterCalendar, calendarProperties),
	components:   []string{calendar.Event},
	withContents: "onDestroyRemoveEvents", notEmpty: "calendarHasEvent",
}

// holds returns a function that reports whether a collection may hold objects of a component, and the caller may read
// them.
func holds(component string) func(x *groupware.Collection) bool {
	return func(x *groupware.Collection) bool {
		return x.Rights&note.Read != 0 && (len(x.Components) == 0 || slices.Contains(x.Components, component))
	}
}

// calendarProperties are those of a Calendar.
var calendarProperties = []string{"id", "name", "description", "color", "sortOrder", "isSubscribed", "isVisible",
	"isDefault", "includeInAvailability", "defaultAlertsWithTime", "defaultAlertsWithoutTime", "timeZone", "shareWith",
	"myRights"}

// appendCalendar returns a function that appends a Calendar or TaskList of a person's mail file, with some of the
// properties that its type has.
func appendCalendar(letter byte, properties []string) func([]byte, *groupware.Collection, note.UNID,
	func(string) bool) []byte {
	return func(dst []byte, x *groupware.Collection, owner note.UNID, wants func(string) bool) []byte {
		return appendProperties(dst, letter, x, owner, func(name string) bool {
			return slices.Contains(properties, name) && wants(name)
		})
	}
}

// appendProperties appends a Calendar or TaskList. The role of the task list that the server creates is inbox.
//
// Implements: draft-ietf-jmap-calendars §4 Calendars
func appendProperties(dst []byte, letter byte, x *groupware.Collection, owner note.UNID,
	wants func(string) bool) []byte {
	o := jmap.NewWriter(dst)
	o.Name("id")
	o.B = appendID(o.B, letter, x.UNID)
	for _, p := range [...]struct {
		name  string
		print func(name string)
	}{
		{"role", func(n string) {
			o.Raw(n, map[bool]string{true: `"inbox"`, false: "null"}[x.Name == groupware.DefaultTasks])
		}},
		{"name", func(n string) { o.Text(n, x.Title) }},
		{"description", func(n string) { orNull(&o, n, x.Description) }},
		{"color", func(n string) { orNull(&o, n, cssColor(x.Color)) }},
		{"sortOrder", func(n string) { o.Uint(n, uint64(max(x.Order, 0))) }},
		{"isSubscribed", func(n string) { o.Bool(n, x.Subscribed) }},
		{"isVisible", func(n string) { o.Bool(n, !x.Invisible) }},
		{"isDefault", func(n string) { o.Bool(n, x.Default) }},
		{"includeInAvailability", func(n string) {
			o.Text(n, map[bool]string{false: "all", true: "none"}[x.Transparent])
		}},
		{"defaultAlertsWithTime", func(n string) { o.Raw(n, cmp.Or(x.AlertsWithTime, "null")) }},
		{"defaultAlertsWithoutTime", func(n string) { o.Raw(n, cmp.Or(x.AlertsWithoutTime, "null")) }},
		{"timeZone", func(n string) { orNull(&o, n, x.TimeZone) }},
		{"shareWith", func(n string) { o.Name(n); o.B = appendShareWith(o.B, calendarRights, x, owner) }},
		{"myRights", func(n string) { o.Name(n); o.B = appendShareRights(o.B, calendarRights, x.Rights) }},
	} {
		if wants(p.name) {
			p.print(p.name)
		}
	}
	return o.End()
}

// cssColor returns a color as CSS has it: CalDAV clients add the opacity, #rrggbbaa.
func cssColor(s string) string {
	if len(s) == 9 && s[0] == '#' {
		return s[:7]
	}
	return s
}

// calendarRights are the members of a CalendarRights. Everyone who signed in sees busy times, unless the calendar hides
// them (groupware.Properties.BusyFor), and there are no rights in single events: the rights to write come together.
//
// Implements: draft-ietf-jmap-calendars §4 CalendarRights
var calendarRights = []shareRight{
	{"mayReadFreeBusy", 0, 0},
	{"mayReadItems", note.Lookup | note.Read | note.KeepSeen, note.Lookup | note.Read},
	{"mayWriteAll", writingEvents | note.DeleteMark, writingEvents},
	{"mayWriteOwn", 0, writingEvents},
	{"mayUpdatePrivate", 0, writingEvents},
	{"mayRSVP", 0, writingEvents},
	{"mayShare", note.Administer, note.Administer},
	{"mayDelete", note.Create | note.Remove, note.Remove},
}

// writingEvents are the rights to create, change and remove events.
const writingEvents = note.Write | note.Insert | note.Expunge

// onlySeen removes objects from the changes that are none of this protocol.
func onlySeen(x *groupware.Delta, seen map[note.UNID]bool) {
	other := func(u note.UNID) bool { return !seen[u] }
	x.Created, x.Updated = slices.DeleteFunc(x.Created, other), slices.DeleteFunc(x.Updated, other)
}
