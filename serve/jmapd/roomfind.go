package jmapd

import (
	"errors"
	"slices"
	"strings"

	"doublet/contact"
	"doublet/directory"
	"doublet/note"
	"doublet/scheduling"
	"doublet/wire/jmap"
)

// maxRooms bounds the rooms of one answer, and maxLooked the entries of the directory that one call looks at.
const (
	maxRooms  = 50
	maxLooked = 10_000
)

// roomFind answers Room/find: the rooms and other resources of the directory with the words of text in their name,
// address, site or equipment, for at least capacity people, with all of equipment, and at site. The ids are those of
// Principals for Principal/getAvailability.
func roomFind(c *call) error {
	if err := c.arguments(true, "text", "capacity", "equipment", "site"); err != nil {
		return err
	}
	wanted, err := c.wantedRooms()
	if err != nil {
		return err
	}
	var list []directory.MailIn
	more := false
	for after, next, looked := "", true, 0; next && looked < maxLooked && !more; {
		part, last, err := c.s.backend.Directory().MailIns.List(c.ctx, "", 200, after)
		if err != nil {
			return err
		}
		for i := range part {
			if m := &part[i]; m.Resource.Kind != "" && m.Removed.IsZero() && m.InternetAddress != "" && wanted(m) {
				if more = len(list) == maxRooms; more {
					break
				}
				list = append(list, *m)
			}
		}
		looked += len(part)
		after, next = last, last != ""
	}
	o := jmap.NewWriter(c.out)
	o.Text("accountId", c.account.ID)
	o.Name("list")
	o.B = append(o.B, '[')
	for i := range list {
		if i > 0 {
			o.B = append(o.B, ',')
		}
		o.B = appendRoom(o.B, &list[i])
	}
	o.B = append(o.B, ']')
	o.Bool("hasMore", more)
	c.out = o.End()
	return nil
}

// wantedRooms reads the arguments of Room/find, and returns a function that reports whether a room fits them.
func (c *call) wantedRooms() (func(*directory.MailIn) bool, error) {
	text, err := c.text("text")
	if err != nil {
		return nil, err
	}
	site, err := c.text("site")
	if err != nil {
		return nil, err
	}
	equipment, _, err := c.list("equipment")
	if err != nil {
		return nil, err
	}
	capacity := int64(0)
	if v := c.args.Get("capacity"); !v.IsNull() {
		ok := false
		if capacity, ok = v.Int(); !ok || capacity < 0 {
			return nil, invalid("capacity is no UnsignedInt")
		}
	}
	words, at := cardWords(text), contact.Fold(site)
	return func(m *directory.MailIn) bool {
		r := &m.Resource
		return int64(r.Capacity) >= capacity && (at == "" || contact.Fold(r.Site) == at) &&
			!slices.ContainsFunc(equipment, func(e string) bool {
				return !slices.ContainsFunc(r.Equipment, func(has string) bool { return strings.EqualFold(has, e) })
			}) && contact.HasWords(append([]string{m.Name, m.InternetAddress, r.Site}, r.Equipment...), words)
	}, nil
}

func appendRoom(dst []byte, m *directory.MailIn) []byte {
	r := &m.Resource
	o := jmap.NewWriter(dst)
	o.Text("id", principalID(m.ID))
	o.Text("name", m.Name)
	o.Text("email", m.InternetAddress)
	o.Text("kind", map[bool]string{true: "location", false: "resource"}[r.Kind == directory.ResourceRoom])
	o.Uint("capacity", uint64(max(r.Capacity, 0)))
	o.Strings("equipment", r.Equipment...)
	orNull(&o, "site", r.Site)
	orNull(&o, "hours", r.Hours)
	orNull(&o, "timeZone", r.TimeZone)
	o.Bool("approval", r.Approval)
	o.Bool("ownersOnly", len(r.Owners) > 0 && !r.Approval)
	return o.End()
}

// calendarOfRoom returns the calendar of a room.
func (c *call) calendarOfRoom(u note.UNID) (of scheduling.Calendars, err error) {
	d := c.s.backend.Directory()
	missing := &jmap.Error{Type: "notFound"}
	if d.Names.Private() {
		return of, missing
	}
	m, err := d.MailIns.Get(c.ctx, u)
	if errors.Is(err, directory.ErrNotFound) || err == nil && (m.Resource.Kind == "" || !m.Removed.IsZero()) {
		return of, missing
	}
	return scheduling.Calendars{File: m.Database, MailServer: m.MailServer}, err
}
