package jmapd

import (
	"slices"

	"doublet/calendar"
	"doublet/wire/ical"
	"doublet/wire/jmap"
)

// calendarParse answers CalendarEvent/parse.
//
// Implements: draft-ietf-jmap-calendars §5.13 CalendarEvent/parse
func calendarParse(c *call) error {
	if err := c.arguments(false, "blobIds", "properties"); err != nil {
		return err
	}
	properties, named, err := c.list("properties")
	if err != nil {
		return err
	}
	for _, p := range properties {
		if !slices.Contains(calendar.Properties(calendar.Event), p) {
			return &jmap.Error{Type: "invalidArguments", Description: "No property of an event: " + p}
		}
	}
	if !named {
		properties = calendar.Properties(calendar.Event)
	}
	return c.parseBlobs(func(_ string, raw []byte) error {
		object, err := ical.Parse(raw, ical.DefaultLimits)
		if err != nil {
			return errNotParsable
		}
		out, ok := calendar.AppendEvents(c.out, object, properties)
		if !ok {
			return errNotParsable
		}
		c.out = out
		return nil
	})
}
