// Package feed publishes calendars as iCalendar feeds, by links that nobody guesses, and shows the feeds of other
// servers as calendars that nobody writes into.
package feed

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"doublet/calendar"
	"doublet/directory"
	"doublet/env"
	"doublet/groupware"
	"doublet/note"
	"doublet/store"
	"doublet/wire/ical"
)

// Path is the start of the path of a feed. The rest is the token of the link and ".ics".
const Path = "/feeds/"

// Limits of a published feed: how long ago its events may have ended, their number, and bytes.
const (
	publishedPast       = 366 * 24 * time.Hour
	maxPublished        = 10_000
	maxFeed             = 20 << 20
	publishedEvery      = "PT1H" // how often programs should read it
	renewedEach         = 7 * 24 * time.Hour
	tokenSize           = 8 + 16 + 1 + 16
	modeFull       byte = 'f'
	modeBusy       byte = 'b'
)

// ErrNoFeed reports that a link is malformed, unknown or revoked: nobody learns which.
var ErrNoFeed = errors.New("no such feed")

// Publisher makes, revokes and serves the links of calendars.
type Publisher struct {
	env       *env.Env
	groupware *groupware.Service
	dir       *directory.Directory
	url       string
}

// NewPublisher returns a Publisher. url is the address of the server's web pages, to which links lead.
func NewPublisher(e *env.Env, g *groupware.Service, d *directory.Directory, url string) *Publisher {
	return &Publisher{e, g, d, strings.TrimSuffix(url, "/")}
}

// Links are the addresses of the feeds of a calendar, "" for those that there are not.
type Links struct{ Full, Busy string }

// Links returns the addresses of the feeds of a calendar. Only those who administer it may see them.
func (p *Publisher) Links(db note.DatabaseID, c *groupware.Collection) Links {
	if c.Rights&note.Administer == 0 {
		return Links{}
	}
	address := func(mode byte, number string) string {
		if number == "" {
			return ""
		}
		return p.url + Path + base64.RawURLEncoding.EncodeToString(p.token(db, c.UNID, mode, number)) + ".ics"
	}
	return Links{address(modeFull, c.Published.Full), address(modeBusy, c.Published.Busy)}
}

// token returns the token of a link: the calendar, the mode, and a code that only the servers of the domain compute.
func (p *Publisher) token(db note.DatabaseID, u note.UNID, mode byte, number string) []byte {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, tokenSize), uint64(db))
	b = append(append(b, u[:]...), mode)
	return append(b, p.dir.Secret.Sign("feed", string(b)+" "+number)...)
}

// Choice selects the links that a calendar is to have; nil leaves one as it is.
type Choice struct{ Full, Busy *bool }

// Set makes and revokes links of a calendar. A link that was revoked never leads to the calendar again.
func (p *Publisher) Set(c *groupware.Changing, name string, x Choice) error {
	have, err := c.Collection(groupware.Calendar, name)
	if err != nil {
		return err
	}
	next := have.Published
	for _, l := range []struct {
		number *string
		on     *bool
	}{{&next.Full, x.Full}, {&next.Busy, x.Busy}} {
		switch {
		case l.on == nil || *l.on == (*l.number != ""):
		case *l.on:
			var b [12]byte
			p.env.Fill(b[:])
			*l.number = hex.EncodeToString(b[:])
		default:
			*l.number = ""
		}
	}
	return c.Publish(name, next)
}

// Feed is a calendar that is published.
type Feed struct {
	p          *Publisher
	file       *groupware.File
	collection groupware.Collection
	busy       bool
	from       time.Time
}

// Open returns the feed of a link by the last segment of its path. Errors: ErrNoFeed, and those of the store for a mail
// file that is not here.
func (p *Publisher) Open(ctx context.Context, segment string) (*Feed, error) {
	text, ok := strings.CutSuffix(segment, ".ics")
	b, err := base64.RawURLEncoding.DecodeString(text)
	if !ok || err != nil || len(b) != tokenSize {
		return nil, ErrNoFeed
	}
	db, u, mode := note.DatabaseID(binary.BigEndian.Uint64(b)), note.UNID(b[8:24]), b[24]
	f := &Feed{p: p, file: p.groupware.File(note.System, db), busy: mode == modeBusy}
	c, err := f.file.ByUNID(ctx, u)
	if errors.Is(err, groupware.ErrNoCollection) || errors.Is(err, store.ErrNotFound) {
		return nil, ErrNoFeed
	}
	if err != nil {
		return nil, err
	}
	number := c.Published.Full
	if f.busy {
		number = c.Published.Busy
	}
	if number == "" || subtle.ConstantTimeCompare(b, p.token(db, u, mode, number)) != 1 {
		return nil, ErrNoFeed
	}
	if err := p.active(ctx, f.file); err != nil {
		return nil, err
	}
	f.collection = c
	f.from = p.env.Clock.Now().Add(-publishedPast).Truncate(renewedEach)
	return f, nil
}

// active returns ErrNoFeed if the owner of a mail file was removed. A mail file of nobody has feeds as long as it
// exists.
func (p *Publisher) active(ctx context.Context, f *groupware.File) error {
	owner, err := f.Owner(ctx)
	if err != nil || owner.IsZero() {
		return err
	}
	person, err := p.dir.Names.Person(ctx, owner)
	if errors.Is(err, directory.ErrNotFound) || err == nil && !person.Removed.IsZero() {
		return ErrNoFeed
	}
	return err
}

// ID identifies the calendar of the feed.
func (f *Feed) ID() note.UNID { return f.collection.UNID }

// ETag returns the entity tag of the feed. It costs little.
func (f *Feed) ETag() string {
	sum := sha256.Sum256([]byte(f.collection.Token + " " + f.collection.Revision + " " + strconv.FormatBool(f.busy) +
		" " +
		f.from.Format(time.DateOnly)))
	return `"` + hex.EncodeToString(sum[:12]) + `"`
}

// Text returns the feed: the events from a year ago on. Private ones are busy times without any text, and so are all in
// a feed of busy times. Alarms are left out.
//
// Implements: RFC 7986 §5.1 NAME, §5.7 REFRESH-INTERVAL
func (f *Feed) Text(ctx context.Context) ([]byte, error) {
	var ids []note.UNID
	err := f.file.Times(ctx, groupware.Range{From: f.from, Component: calendar.Event}, func(t *groupware.Times) bool {
		if t.Collection == f.collection.UNID {
			ids = append(ids, t.UNID)
		}
		return len(ids) < maxPublished
	})
	if err != nil {
		return nil, err
	}
	zones, seen := []byte(nil), map[string]bool{}
	var events []byte
	err = f.file.ByID(ctx, groupware.Calendar, ids, true, func(e *groupware.Entry) bool {
		o, err := calendar.ReadObject(e.Text)
		if err != nil {
			return true // a newer program wrote it
		}
		whole := f.shown(o, e.Private)
		text := []byte(nil)
		for _, c := range whole {
			text = ical.Append(text, c)
		}
		if len(zones)+len(events)+len(text) > maxFeed {
			return false
		}
		events = append(events, text...)
		for _, c := range o.Whole.Children {
			if id := c.Text("TZID"); c.Name == "VTIMEZONE" && !seen[id] && len(whole) > 0 {
				seen[id] = true
				zones = ical.Append(zones, c)
			}
		}
		return ctx.Err() == nil
	})
	if err == nil {
		err = ctx.Err()
	}
	return f.assemble(zones, events), err
}

// assemble returns the whole text of the feed.
func (f *Feed) assemble(zones, events []byte) []byte {
	c := &ical.Component{Name: "VCALENDAR", Properties: []ical.Property{{Name: "VERSION", Value: "2.0"},
		{Name: "PRODID", Value: calendar.Product}, {Name: "METHOD", Value: "PUBLISH"}}}
	c.SetText("NAME", f.collection.Title)
	c.SetText("X-WR-CALNAME", f.collection.Title)
	c.Set(ical.Property{Name: "REFRESH-INTERVAL", Params: []ical.Param{{Name: "VALUE", Values: []string{"DURATION"}}},
		Value: publishedEvery})
	c.Set(ical.Property{Name: "X-PUBLISHED-TTL", Value: publishedEvery})
	const end = "END:VCALENDAR\r\n"
	out := ical.Append(nil, c)
	out = append(out[:len(out)-len(end)], zones...)
	return append(append(out, events...), end...)
}

// shown returns the components of an event as the feed has them.
func (f *Feed) shown(o *calendar.Object, private bool) (list []*ical.Component) {
	for _, c := range o.Parts {
		if f.busy || private {
			if c = f.busyOnly(c); c == nil {
				continue
			}
		} else {
			c = public(c)
		}
		list = append(list, c)
	}
	return list
}

// times are the properties of an event that say when it is.
var times = []string{"DTSTAMP", "DTSTART", "DTEND", "DURATION", "RRULE", "RDATE", "EXDATE", "RECURRENCE-ID", "SEQUENCE"}

// busyOnly returns a component without any text; nil for one that leaves the time free. An exception that leaves it
// free stays as such, or its time would be busy by the rule.
func (f *Feed) busyOnly(c *ical.Component) *ical.Component {
	free := strings.EqualFold(c.Text("TRANSP"), "TRANSPARENT") || strings.EqualFold(c.Text("STATUS"), "CANCELLED")
	if free && c.Get("RECURRENCE-ID") == nil && c.Get("RRULE") == nil && c.Get("RDATE") == nil {
		return nil
	}
	out := &ical.Component{Name: c.Name}
	sum := sha256.Sum256([]byte(f.collection.UNID.String() + c.Text("UID")))
	out.SetText("UID", hex.EncodeToString(sum[:16]))
	for _, p := range c.Properties {
		if slices.Contains(times, p.Name) {
			out.Properties = append(out.Properties, p)
		}
	}
	out.SetText("SUMMARY", "Busy")
	if free {
		out.SetText("SUMMARY", "Free")
		out.SetText("TRANSP", "TRANSPARENT")
	}
	return out
}

// public returns a component without alarms, without managed attachments, which readers of the feed may not open, and
// without what the server records for scheduling.
func public(c *ical.Component) *ical.Component {
	out := c.Clone()
	out.Children = slices.DeleteFunc(out.Children, func(x *ical.Component) bool { return x.Name == "VALARM" })
	out.Properties = slices.DeleteFunc(out.Properties, func(p ical.Property) bool {
		return calendar.ManagedID(&p) != ""
	})
	for i := range out.Properties {
		p := &out.Properties[i]
		for _, name := range []string{"SCHEDULE-STATUS", "SCHEDULE-AGENT", "X-DOUBLET-REPLY"} {
			p.SetParam(name)
		}
	}
	return out
}
