// Package itip has the rules of scheduling messages (RFC 5546), without storing or sending anything: the messages that
// follow from a change of an organizer's or an attendee's object, and the effect of a message on a stored object.
//
// Implements: RFC 5546 iCalendar Transport-Independent Interoperability Protocol (iTIP)
package itip

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"doublet/calendar"
	"doublet/wire/ical"
)

// The methods of messages.
const (
	Request        = "REQUEST"
	Cancel         = "CANCEL"
	Add            = "ADD"
	Reply          = "REPLY"
	Counter        = "COUNTER"
	DeclineCounter = "DECLINECOUNTER"
	Refresh        = "REFRESH"
)

// Errors of messages and changes. A message with an error changes nothing.
var (
	ErrMalformed = errors.New("scheduling message is malformed")
	// ErrStale reports that the message is a repetition, or older than what is stored.
	ErrStale = errors.New("scheduling message is out of date")
	// ErrAhead reports an answer to a version of the event that is not stored: another server may have it.
	ErrAhead = errors.New("scheduling message answers a version that is not in the calendar")
	// ErrStranger reports that the sender is neither the organizer nor an attendee, as the method requires.
	ErrStranger = errors.New("sender has no part in this event")
	// ErrUnknown reports that the message concerns an event or an instance that is not stored.
	ErrUnknown = errors.New("event of the message is not in the calendar")
	// ErrNoEffect reports a message that a person decides on: a counter-proposal, or a request to send an event again.
	ErrNoEffect = errors.New("scheduling message has no effect of its own")
	// ErrNotAllowed reports a change of an attendee that belongs to the organizer.
	ErrNotAllowed = errors.New("attendee may not change this: it belongs to the organizer")
	// ErrOrganizers reports an object whose components have different organizers.
	ErrOrganizers = errors.New("components have different organizers")
	// ErrTooMany reports more than MaxAttendees attendees.
	ErrTooMany = errors.New("too many attendees")
)

// The delivery states that SCHEDULE-STATUS records.
//
// Implements: RFC 6638 §3.2.9 Delivery status codes
const (
	Pending     = "1.0" // a message that was not sent yet: the next change sends it again
	Sent        = "1.1"
	Delivered   = "1.2"
	Processed   = "2.0"
	InvalidUser = "3.7"
	NoAuthority = "3.8"
	Undelivered = "5.1"
	Refused     = "5.3"
)

// MaxAttendees bounds the attendees of an object, those of all its components together.
const MaxAttendees = 1000

// Message is a scheduling message.
type Message struct {
	Method string
	// To is the calendar user address of the recipient as the object spells it; "" in a message that was parsed.
	To string
	// UID and Kind are those of all Parts.
	UID, Kind string
	// Parts holds the components of the kind. One without RECURRENCE-ID concerns all instances.
	Parts []*ical.Component

	whole *ical.Component // has the time zones, without METHOD
}

// Parse reads a message, without its alarms: those of an object belong to the owner of the calendar (RFC 6638 section
// 3.2.2.1), and the server would send the text of a stranger's by mail. Managed attachments, which are those of another
// server, are plain links. Errors match ErrMalformed.
//
// Implements: RFC 5546 §3.2 Methods for VEVENT Calendar Components
func Parse(text []byte) (*Message, error) {
	whole, err := ical.Parse(text, ical.DefaultLimits)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	m := &Message{Method: strings.ToUpper(strings.TrimSpace(whole.Text("METHOD"))), whole: without(whole, "METHOD")}
	if whole.Name != "VCALENDAR" || !slices.Contains(methods, m.Method) {
		return nil, fmt.Errorf("%w: METHOD is %.20q", ErrMalformed, m.Method)
	}
	organizer := ""
	for _, c := range whole.Children {
		if !slices.Contains([]string{calendar.Event, calendar.Task}, c.Name) {
			continue
		}
		uid := strings.TrimSpace(c.Text("UID"))
		from := Address(c.Text("ORGANIZER"))
		if len(m.Parts) == 0 {
			m.UID, m.Kind, organizer = uid, c.Name, from
		}
		if uid == "" || uid != m.UID || c.Name != m.Kind || from != organizer {
			return nil, fmt.Errorf("%w: its components have no UID, kind and ORGANIZER in common", ErrMalformed)
		}
		part := withoutAlarms(c)
		calendar.Unmanage(part)
		m.Parts = append(m.Parts, part)
	}
	if len(m.Parts) == 0 || organizer == "" {
		return nil, fmt.Errorf("%w: it has no event or task with an ORGANIZER", ErrMalformed)
	}
	if len(Attendees(m.Parts)) > MaxAttendees {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, ErrTooMany)
	}
	return m, nil
}

var methods = []string{Request, Cancel, Add, Reply, Counter, DeclineCounter, Refresh}

// Organizer returns the normalized address of the organizer.
func (m *Message) Organizer() string { return Address(m.Parts[0].Text("ORGANIZER")) }

// Sender returns the normalized address of the person whom the message claims to come from: the organizer, or the
// attendee for REPLY, COUNTER and REFRESH. A message without that attendee has the sender "".
func (m *Message) Sender() string {
	if m.Method != Reply && m.Method != Counter && m.Method != Refresh {
		return m.Organizer()
	}
	for _, p := range attendees(m.Parts[0]) {
		if p.Param("DELEGATED-FROM") == "" {
			return Address(p.Value)
		}
	}
	return ""
}

// Text prints the message.
func (m *Message) Text() []byte {
	out := &ical.Component{Name: "VCALENDAR", Properties: []ical.Property{{Name: "VERSION", Value: "2.0"},
		{Name: "PRODID", Value: calendar.Product}, {Name: "METHOD", Value: m.Method}}}
	out.Children = append(zonesFor(m.whole, m.Parts), m.Parts...)
	return ical.Append(nil, out)
}

// Inlined returns the message for people without access to its managed attachments. inline returns the bytes of one in
// base64, which take the place of its address, or "" to leave it out.
//
// Implements: RFC 8607 §3.12.6 Sending Scheduling Messages with Attachments
func (m *Message) Inlined(inline func(id string) string) *Message {
	out := *m
	out.Parts = make([]*ical.Component, len(m.Parts))
	for i, c := range m.Parts {
		part := clone(c)
		list := part.Properties
		part.Properties = nil
		for _, p := range list {
			if id := calendar.ManagedID(&p); id != "" {
				if p.Value = inline(id); p.Value == "" {
					continue
				}
				setParam(&p, calendar.ParamManagedID, "")
				setParam(&p, "ENCODING", "BASE64")
				setParam(&p, "VALUE", "BINARY")
			}
			part.Properties = append(part.Properties, p)
		}
		out.Parts[i] = part
	}
	return &out
}

// Object returns the object that a REQUEST describes, for a calendar that does not have it yet.
func (m *Message) Object() (*calendar.Object, error) {
	return assemble(m.whole, m.Parts)
}

// assemble makes an object of components, with the properties and the time zones of whole.
func assemble(whole *ical.Component, parts []*ical.Component) (*calendar.Object, error) {
	out := &ical.Component{Name: "VCALENDAR", Properties: whole.Properties}
	if out.Get("VERSION") == nil {
		out.Properties = append(slices.Clone(out.Properties), ical.Property{Name: "VERSION", Value: "2.0"})
	}
	out.Children = append(zonesFor(whole, nil), parts...)
	o, err := calendar.NewObject(out)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return o, nil
}

// zonesFor returns the time zones of an object that the components name; all of them if parts is nil.
func zonesFor(whole *ical.Component, parts []*ical.Component) (out []*ical.Component) {
	used := map[string]bool{}
	for _, c := range parts {
		for i := range c.Properties {
			used[c.Properties[i].Param("TZID")] = true
		}
	}
	for _, c := range whole.Children {
		if c.Name == "VTIMEZONE" && (parts == nil || used[c.Text("TZID")]) {
			out = append(out, c)
		}
	}
	return out
}

// Address normalizes a calendar user address: lower case, without mailto.
func Address(value string) string {
	value = strings.ToLower(strings.TrimSpace(value))
	return strings.TrimPrefix(value, "mailto:")
}

// OrganizerOf returns the normalized address of the organizer of an object, "" if it has none. All components must have
// the same one.
//
// Implements: RFC 6638 §3.2.4.2 CALDAV:same-organizer-in-all-components
func OrganizerOf(o *calendar.Object) (string, error) {
	first := Address(o.Parts[0].Text("ORGANIZER"))
	for _, c := range o.Parts[1:] {
		if Address(c.Text("ORGANIZER")) != first {
			return "", ErrOrganizers
		}
	}
	return first, nil
}

// Attendees returns the normalized addresses of the attendees of components, in order, each once.
func Attendees(parts []*ical.Component) (list []string) {
	seen := map[string]bool{}
	for _, c := range parts {
		for _, p := range attendees(c) {
			if a := Address(p.Value); !seen[a] {
				seen[a] = true
				list = append(list, a)
			}
		}
	}
	return list
}

// attendees returns the ATTENDEE properties of a component, none of nil.
func attendees(c *ical.Component) (list []*ical.Property) {
	if c == nil {
		return nil
	}
	for i := range c.Properties {
		if c.Properties[i].Name == "ATTENDEE" {
			list = append(list, &c.Properties[i])
		}
	}
	return list
}

// attendee returns the ATTENDEE property of the first address for which is returns true, or nil.
func attendee(c *ical.Component, is func(address string) bool) *ical.Property {
	for _, p := range attendees(c) {
		if is(Address(p.Value)) {
			return p
		}
	}
	return nil
}

// same returns a function that compares with one address.
func same(address string) func(string) bool { return func(a string) bool { return a == address } }

// Status returns the participation status of the first attendee for which is returns true, in the first component that
// names them; "" if none does.
func Status(o *calendar.Object, is func(address string) bool) string {
	for _, c := range o.Parts {
		if p := attendee(c, is); p != nil {
			return status(p)
		}
	}
	return ""
}

// status returns the PARTSTAT of an attendee.
func status(p *ical.Property) string {
	if s := strings.ToUpper(p.Param("PARTSTAT")); s != "" {
		return s
	}
	return "NEEDS-ACTION"
}

// stampForm is the form of DTSTAMP.
const stampForm = "20060102T150405Z"

// version orders the states of a component: SEQUENCE first, then DTSTAMP.
//
// Implements: RFC 5546 §2.1.5 Message Sequencing
type version struct {
	sequence int
	stamp    time.Time
}

func versionOf(c *ical.Component) version {
	m, _ := c.Get("DTSTAMP").Moment()
	return version{sequence(c), m.Wall}
}

func (v version) after(w version) bool {
	return v.sequence > w.sequence || v.sequence == w.sequence && v.stamp.After(w.stamp)
}

// maxSequence bounds SEQUENCE, so that it can always grow.
const maxSequence = 1 << 30

func sequence(c *ical.Component) int {
	n := 0
	for _, d := range strings.TrimSpace(c.Text("SEQUENCE")) {
		if d < '0' || d > '9' {
			return 0
		}
		if n = n*10 + int(d-'0'); n > maxSequence {
			return maxSequence
		}
	}
	return n
}

// Answer returns the participation status that a REPLY reports.
func (m *Message) Answer() string {
	if p := attendee(m.Parts[0], same(m.Sender())); p != nil {
		return status(p)
	}
	return ""
}

// When returns the start of the event for people to read: the date and time on the clocks of the event, with the name
// of their time zone.
func (m *Message) When() string {
	at, ok := m.Parts[0].Get("DTSTART").Moment()
	switch {
	case !ok:
		return ""
	case at.Day:
		return at.Wall.Format("Mon, 2 Jan 2006")
	}
	return strings.TrimSpace(at.Wall.Format("Mon, 2 Jan 2006 15:04") + " " + at.Zone)
}
