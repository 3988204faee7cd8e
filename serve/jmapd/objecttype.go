package jmapd

import (
	"slices"

	"doublet/calendar"
	"doublet/groupware"
	"doublet/wire/jmap"
)

// objectType is a type of object in calendars: CalendarEvent or Task.
type objectType struct {
	name, noun  string
	component   string // of iCalendar
	jsType      string // the value of @type
	letter      byte   // of ids
	collections *collectionType
	// place names the property with the collection, base the one with the id of the series, inside the condition of a
	// query for objects of a collection; with an s it lists several.
	place, base, inside string
	// appendPlace prints the property place; placed returns the collection that its value names.
	appendPlace func(w *jmap.Writer, id string)
	placed      func(v *jmap.Value) (id string, ok bool)
	// utc lists the times in UTC that a client may set.
	utc []string
	// setArguments are the arguments of /set that other types do not have.
	setArguments []string
}

// events is the type CalendarEvent.
var events = &objectType{
	name: "CalendarEvent", noun: "event", component: calendar.Event, jsType: "Event", letter: letterEvent,
	collections: calendars, place: "calendarIds", base: "baseEventId", inside: "inCalendar",
	appendPlace: func(w *jmap.Writer, id string) {
		w.Object("calendarIds", func(o *jmap.Writer) { o.Bool(id, true) })
	},
	placed: func(v *jmap.Value) (string, bool) {
		if v.Kind() != jmap.Object || v.Len() != 1 {
			return "", false
		}
		on, _ := v.At(0).Bool()
		return v.Name(0), on
	},
	utc: []string{"utcStart", "utcEnd"}, setArguments: []string{"sendSchedulingMessages"},
}

// additions returns the properties that JMAP adds to those of JSCalendar.
func (t *objectType) additions() []string { return []string{"id", t.base, t.place, "isOrigin"} }

// has reports whether the objects may have a property.
func (t *objectType) has(name string) bool {
	return slices.Contains(t.additions(), name) || slices.Contains(calendar.Properties(t.component), name) ||
		calendar.Settable(t.component, name)
}

// of returns the object of an entry, nil if it is none of the type, or a newer program wrote it.
func (t *objectType) of(e *groupware.Entry) *calendar.Object {
	if e.Component != t.component {
		return nil
	}
	o, err := calendar.ReadObject(e.Text)
	if err != nil {
		return nil
	}
	return o
}
