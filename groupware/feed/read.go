package feed

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"doublet/calendar"
	"doublet/client/webcal"
	"doublet/groupware"
	"doublet/note"
	"doublet/wire/ical"
)

// maxEvents bounds the events of a feed that is read, maxTotal their texts together in bytes, and limits its text. Each
// event has its time zones, so that the texts together can be far larger than the feed.
const (
	maxEvents = 10_000
	maxTotal  = 4 * webcal.MaxSize
)

var limits = ical.Limits{Size: webcal.MaxSize, Lines: 500_000, Depth: 8}

// Errors of a feed's content.
var (
	errNoCalendar = errors.New("address returns no calendar")
	errTooMany    = errors.New("feed has over " + strconv.Itoa(maxEvents) + " events")
	errTotal      = errors.New("events of the feed are over " + strconv.Itoa(maxTotal>>20) +
		" MB with their time zones")
	errLarge = errors.New("event is too large for a calendar")
)

// content is a feed that was read.
type content struct {
	name   string
	every  time.Duration // how often it is to be read, 0 if it does not say
	events map[string][]byte
	broken int // events that no calendar can keep
	total  int // bytes of events, at most maxTotal
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
	zones := map[string]*zone{}
	for _, c := range whole.Children {
		if c.Name == "VTIMEZONE" {
			zones[c.Text("TZID")] = &zone{c, extentOf(c)}
		}
	}
	order, parts := eventsOf(whole, of)
	if len(order) > maxEvents-len(x.events) {
		return errTooMany
	}
	for _, key := range order {
		switch text, err := x.assemble(parts[key], zones); {
		case errors.Is(err, errTotal):
			return err
		case err != nil:
			x.broken++
		default:
			x.events[key+".ics"] = text
		}
	}
	return nil
}

// eventsOf returns the cleaned components of the events of one VCALENDAR by the keys of the events, and the keys in
// order. Of two components for the same instance the later one stays.
func eventsOf(whole *ical.Component, of note.UNID) (order []string, parts map[string][]*ical.Component) {
	parts = map[string][]*ical.Component{}
	type instance struct{ key, id string }
	at := map[instance]int{} // in parts: an event can have as many components as the feed has lines
	for _, c := range whole.Children {
		if c.Name != calendar.Event {
			continue
		}
		uid := strings.TrimSpace(c.Text("UID"))
		if uid == "" {
			uid = c.Text("DTSTART") + c.Text("SUMMARY")
		}
		sum := sha256.Sum256([]byte(of.String() + uid))
		x := instance{key: hex.EncodeToString(sum[:16])}
		if p := c.Get("RECURRENCE-ID"); p != nil {
			x.id = p.Value
		}
		out := clean(c, "feed-"+x.key)
		if i, known := at[x]; known {
			parts[x.key][i] = out
			continue
		}
		if at[x] = len(parts[x.key]); at[x] == 0 {
			order = append(order, x.key)
		}
		parts[x.key] = append(parts[x.key], out)
	}
	return order, parts
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
	calendar.Unmanage(out)
	return out
}

// zone is a time zone of a feed.
type zone struct {
	*ical.Component
	extent
}

// extent is the size of a component that is printed: bytes, and lines after unfolding.
type extent struct{ bytes, lines int }

func extentOf(c *ical.Component) extent {
	text := ical.Append(nil, c)
	return extent{len(text), bytes.Count(text, []byte("\r\n")) - bytes.Count(text, []byte("\r\n "))}
}

func (e *extent) add(more extent) {
	e.bytes += more.bytes
	e.lines += more.lines
}

// assemble returns the text of the object of an event, with the time zones that it names. It neither checks nor prints
// an object that is too large: many small events can name the same large time zone.
func (x *content) assemble(parts []*ical.Component, zones map[string]*zone) ([]byte, error) {
	whole := &ical.Component{Name: "VCALENDAR", Properties: []ical.Property{{Name: "VERSION", Value: "2.0"},
		{Name: "PRODID", Value: calendar.Product}}}
	size := extentOf(whole)
	seen := map[string]bool{}
	for _, c := range parts {
		for i := range c.Properties {
			id := c.Properties[i].Param("TZID")
			if z := zones[id]; z != nil && !seen[id] {
				seen[id] = true
				whole.Children = append(whole.Children, z.Component)
				size.add(z.extent)
			}
		}
		size.add(extentOf(c))
	}
	if size.bytes > groupware.MaxEntry || size.lines > calendar.Limits.Lines {
		return nil, errLarge
	}
	if x.total += size.bytes; x.total > maxTotal {
		return nil, errTotal
	}
	whole.Children = append(whole.Children, parts...)
	if _, err := calendar.NewObject(whole); err != nil {
		return nil, err
	}
	return ical.Append(make([]byte, 0, size.bytes), whole), nil
}
