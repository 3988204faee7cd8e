package scheduling

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"doublet/calendar"
	"doublet/calendar/itip"
	"doublet/note"
	"doublet/store"
	"doublet/wire/ical"
)

// Errors of FreeBusy.
var (
	// ErrRequest reports a request that is no VFREEBUSY with METHOD:REQUEST.
	ErrRequest = errors.New("request is no free-busy request")
	// ErrOrganizer reports that the ORGANIZER is not the person who asks.
	ErrOrganizer = errors.New("organizer is not the person who asks")
)

// maxRange bounds the time of a search for free time. maxAsked bounds the people.
const (
	maxRange = 400 * 24 * time.Hour
	maxAsked = 200
)

// FreeTime is the answer for one person.
type FreeTime struct {
	// Address is the person's as the request spells it.
	Address string
	// Status is a REQUEST-STATUS of iTIP.
	Status string
	// Text is a VCALENDAR with METHOD:REPLY and the busy times, nil without success.
	Text []byte
}

// FreeBusy answers a VFREEBUSY request for the people that it names. who asks, and is the person self. Busy times come
// from the replica of this server where another one leads the mail file, and from another server where this one has no
// replica; the reply has a COMMENT if the server that leads it does not answer. Errors match ErrRequest, ErrOrganizer
// or itip.ErrTooMany.
//
// Implements: RFC 5546 §3.3.2 REQUEST of VFREEBUSY
// Implements: RFC 6638 §5 Request for Busy Time Information
func (s *Service) FreeBusy(ctx context.Context, who note.Who, self note.UNID, text []byte) ([]FreeTime, error) {
	ask, from, to, err := readRequest(text)
	if err != nil {
		return nil, err
	}
	if !s.people.is(ctx, self)(itip.Address(ask.Text("ORGANIZER"))) {
		return nil, ErrOrganizer
	}
	s.stats.searches.Inc()
	var list []FreeTime
	var asked []*ical.Property
	var files []Calendars
	for i := range ask.Properties {
		p := &ask.Properties[i]
		if p.Name != "ATTENDEE" {
			continue
		}
		if len(list) == maxAsked {
			return nil, itip.ErrTooMany
		}
		found, err := s.people.find(ctx, itip.Address(p.Value))
		if err != nil {
			return nil, err
		}
		x := FreeTime{Address: strings.TrimSpace(p.Value)}
		if found.file == 0 {
			x.Status = "3.7;Invalid Calendar User"
		} else {
			asked, files = append(asked, p), append(files, Calendars{File: found.file, MailServer: found.server})
		}
		list = append(list, x)
	}
	answers := s.BusyTimes(ctx, who, files, from, to)
	for i := range list {
		if list[i].Status != "" {
			continue
		}
		if list[i].Status = s.requestStatus(&answers[0], list[i].Address); answers[0].Err == nil {
			list[i].Text = freeBusyReply(ask, asked[0], from, to, s.env.Clock.Now(), &answers[0])
		}
		asked, answers = asked[1:], answers[1:]
	}
	return list, nil
}

// readRequest reads a VFREEBUSY request and its time.
func readRequest(text []byte) (ask *ical.Component, from, to time.Time, err error) {
	whole, err := ical.Parse(text, ical.DefaultLimits)
	if err != nil {
		return nil, from, to, fmt.Errorf("%w: %w", ErrRequest, err)
	}
	if whole.Name != "VCALENDAR" || !strings.EqualFold(whole.Text("METHOD"), itip.Request) {
		return nil, from, to, ErrRequest
	}
	for _, c := range whole.Children {
		if c.Name == "VFREEBUSY" && ask == nil {
			ask = c
		} else if c.Name != "VTIMEZONE" {
			return nil, from, to, ErrRequest
		}
	}
	if ask == nil {
		return nil, from, to, ErrRequest
	}
	a, okA := ask.Get("DTSTART").Moment()
	b, okB := ask.Get("DTEND").Moment()
	from, to = a.Wall, b.Wall
	if !okA || !okB || a.Zone != "UTC" || b.Zone != "UTC" || !from.Before(to) || to.Sub(from) > maxRange {
		return nil, from, to, fmt.Errorf("%w: DTSTART and DTEND are no UTC times of at most %d days", ErrRequest,
			int(maxRange/(24*time.Hour)))
	}
	return ask, from, to, nil
}

// requestStatus returns the REQUEST-STATUS for an answer about an address.
//
// Implements: RFC 6638 §10.1 REQUEST-STATUS values, as used by RFC 5546 §3.6
func (s *Service) requestStatus(b *Busy, address string) string {
	switch {
	case b.Err == nil:
		return "2.0;Success"
	case errors.Is(b.Err, store.ErrDenied):
		return "3.8;No authority"
	}
	s.env.Log.Warn("scheduling: busy times cannot be read", "address", address, "err", b.Err)
	return "5.1;Could not complete delivery"
}

// freeBusyReply prints the busy times of one attendee.
//
// Implements: RFC 5546 §3.3.3 REPLY of VFREEBUSY
func freeBusyReply(ask *ical.Component, p *ical.Property, from, to, now time.Time, busy *Busy) []byte {
	whole, err := ical.Parse(calendar.AppendFreeBusy(nil, from, to, now, busy.Periods, busy.Comment()),
		ical.Limits{Size: 16 << 20, Lines: 100_000, Depth: 3})
	if err != nil {
		return nil
	}
	whole.Properties = append(whole.Properties, ical.Property{Name: "METHOD", Value: itip.Reply})
	c := whole.Children[0]
	for _, name := range []string{"UID", "ORGANIZER"} {
		if q := ask.Get(name); q != nil {
			c.Properties = append(c.Properties, *q)
		}
	}
	c.Properties = append(c.Properties, *p)
	return ical.Append(nil, whole)
}
