package feed

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"doublet/calendar"
	"doublet/client/webcal"
	"doublet/note"
	"doublet/wire/ical"
)

// maxEvents bounds the events of a feed that is read, and limits its text.
const maxEvents = 10_000

var limits = ical.Limits{Size: webcal.MaxSize, Lines: 500_000, Depth: 8}

// Errors of a feed's content.
var (
	errNoCalendar = errors.New("address returns no calendar")
	errTooMany    = errors.New("feed has over " + strconv.Itoa(maxEvents) + " events")
)

// content is a feed that was read.
type content struct {
	name   string
	every  time.Duration // how often it is to be read, 0 if it does not say
	events map[string][]byte
	broken int // events that no calendar can keep
}

// read parses a feed for a calendar. The events are by the names of their entries. Each has a UID of its own, because
// an invitation to the same event belongs into another calendar; people and alarms are left out.
func read(text []byte, of note.UNID) (*content, error) {
	all, err := ical.ParseAll(text, limits)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoCalendar, err)
	}
	x := &content{events: map[string][]byte{}}
	some := false
	for _, whole := range all {
		if whole.Name != "VCALENDAR" {
			continue
		}
		some = true
		if err := x.take(whole, of); err != nil {
			return nil, err
		}
	}
	if !some {
		return nil, errNoCalendar
	}
	return x, nil
}

// take adds the events of one VCALENDAR.
func (x *content) take(whole *ical.Component, of note.UNID) error {
	for _, name := range []string{"NAME", "X-WR-CALNAME"} {
		if x.name == "" {
			x.name = strings.TrimSpace(whole.Text(name))
		}
	}
	for _, name := range []string{"REFRESH-INTERVAL", "X-PUBLISHED-TTL"} {
		if d, ok := ical.Duration(whole.Text(name)); ok && x.every == 0 && d > 0 {
			x.every = d
		}
	}
	zones := map[string]*ical.Component{}
	for _, c := range whole.Children {
		if c.Name == "VTIMEZONE" {
			zones[c.Text("TZID")] = c
		}
	}
	order, parts := eventsOf(whole, of)
	if len(order) > maxEvents-len(x.events) {
		return errTooMany
	}
	for _, key := range order {
		text, err := assemble(parts[key], zones)
		if err != nil {
			x.broken++
			continue
		}
		x.events[key+".ics"] = text
	}
	return nil
}

// eventsOf returns the cleaned components of the events of one VCALENDAR by the keys of the events, and the keys in
// order.
func eventsOf(whole *ical.Component, of note.UNID) (order []string, parts map[string][]*ical.Component) {
	parts = map[string][]*ical.Component{}
	for _, c := range whole.Children {
		if c.Name != calendar.Event {
			continue
		}
		uid := strings.TrimSpace(c.Text("UID"))
		if uid == "" {
			uid = c.Text("DTSTART") + c.Text("SUMMARY")
		}
		sum := sha256.Sum256([]byte(of.String() + uid))
		key := hex.EncodeToString(sum[:16])
		if parts[key] == nil {
			order = append(order, key)
		}
		parts[key] = withPart(parts[key], clean(c, "feed-"+key))
	}
	return order, parts
}

// withPart adds a component to those of an event. Of two for the same instance the later one stays.
func withPart(list []*ical.Component, c *ical.Component) []*ical.Component {
	of := func(c *ical.Component) string {
		if p := c.Get("RECURRENCE-ID"); p != nil {
			return p.Value
		}
		return ""
	}
	list = slices.DeleteFunc(list, func(x *ical.Component) bool { return of(x) == of(c) })
	return append(list, c)
}

// clean returns a component as it is stored. DTSTAMP follows the other times: many servers write the time of the
// request there, so that each event would change each time.
func clean(c *ical.Component, uid string) *ical.Component {
	out := &ical.Component{Name: c.Name}
	stamp := "19700101T000000Z"
	for _, name := range []string{"LAST-MODIFIED", "CREATED"} {
		if m, ok := c.Get(name).Moment(); ok && m.Zone == "UTC" {
			stamp = c.Text(name)
			break
		}
	}
	out.SetText("UID", uid)
	out.Set(ical.Property{Name: "DTSTAMP", Value: strings.TrimSpace(stamp)})
	for _, p := range c.Properties {
		switch p.Name {
		case "UID", "DTSTAMP", "ATTENDEE", "ORGANIZER", "REQUEST-STATUS":
		default:
			out.Properties = append(out.Properties, p)
		}
	}
	return out
}

// assemble returns the text of the object of an event, with the time zones that it names.
func assemble(parts []*ical.Component, zones map[string]*ical.Component) ([]byte, error) {
	whole := &ical.Component{Name: "VCALENDAR", Properties: []ical.Property{{Name: "VERSION", Value: "2.0"},
		{Name: "PRODID", Value: calendar.Product}}}
	seen := map[string]bool{}
	for _, c := range parts {
		for i := range c.Properties {
			id := c.Properties[i].Param("TZID")
			if z := zones[id]; z != nil && !seen[id] {
				seen[id] = true
				whole.Children = append(whole.Children, z)
			}
		}
	}
	whole.Children = append(whole.Children, parts...)
	if _, err := calendar.NewObject(whole); err != nil {
		return nil, err
	}
	return ical.Append(nil, whole), nil
}
