package jmapd

import (
	"context"
	"slices"
	"strings"
	"time"

	"doublet/calendar"
	"doublet/groupware"
	"doublet/note"
	"doublet/wire/ical"
	"doublet/wire/jmap"
)

// instanceForm is the form of the recurrenceId in the id of an instance.
const instanceForm = "20060102T150405"

// eventID is the id of an event or, if at is not zero, of one instance of it: the id of the event, a hyphen and the
// recurrenceId.
type eventID struct {
	letter byte // of the type
	unid   note.UNID
	at     time.Time
}

func (x eventID) String() string {
	id := idOf(x.letter, x.unid)
	if !x.at.IsZero() {
		id += "-" + x.at.Format(instanceForm)
	}
	return id
}

// parseID parses the result of String.
func (t *objectType) parseID(s string) (x eventID, ok bool) {
	base, at, isInstance := strings.Cut(s, "-")
	u, ok := parseID(t.letter, base)
	x.letter, x.unid = t.letter, u
	if isInstance && ok {
		var err error
		x.at, err = time.Parse(instanceForm, at)
		ok = err == nil && x.String() == s
	}
	return x, ok
}

// self is the person to whom an account belongs, as participant of events.
type self struct {
	id        note.UNID // zero if the account is nobody's
	name      string
	addresses []string // in lower case, the usual one first
}

// self returns the person to whom the account belongs.
func (c *call) self() (out self, err error) {
	owner := c.caller.Who.Person
	if !c.account.Personal {
		shares, err := c.s.backend.Mail().Shares(c.caller.Who, c.caller.Database)
		if err != nil {
			return out, err
		}
		for i := range shares {
			if shares[i].ID == c.account.Database {
				owner = shares[i].Owner
			}
		}
	}
	if owner.IsZero() {
		return out, nil
	}
	name, addresses, err := c.s.backend.Sender(c.ctx, owner)
	for _, a := range addresses {
		out.addresses = append(out.addresses, strings.ToLower(a))
	}
	out.id, out.name = owner, name
	return out, err
}

// is reports whether a calendar address, in lower case, is the person's.
func (x *self) is(uri string) bool {
	address, isMail := strings.CutPrefix(uri, "mailto:")
	return isMail && slices.Contains(x.addresses, address)
}

// origin reports whether the account controls the scheduling of an event: nobody else organizes it.
//
// Implements: draft-ietf-jmap-calendars §5 isOrigin
func (x *self) origin(o *calendar.Object) bool {
	p := o.Parts[0].Get("ORGANIZER")
	return p == nil || x.is(strings.ToLower(strings.TrimSpace(p.Value)))
}

// eventView selects what is printed of events.
type eventView struct {
	t    *objectType
	c    *call
	view calendar.View
	self self
	// blobs are those of the attachments.
	blobs *eventBlobs
	// reduce restricts the participants to owners and the person.
	reduce bool
	// properties is nil for all.
	properties []string
}

// wants reports whether a property that JMAP adds is asked for. The id of the series is told unasked for instances
// alone.
func (x *eventView) wants(name string) bool {
	return x.properties == nil || name == "id" || slices.Contains(x.properties, name)
}

// append appends an event or task: an instance, if at is not nil.
func (x *eventView) append(dst []byte, e *groupware.Entry, o *calendar.Object, at *calendar.Occurrence) []byte {
	w := jmap.NewWriter(dst)
	t := x.t
	id := eventID{letter: t.letter, unid: e.UNID}
	if at != nil {
		id.at = at.ID
	}
	w.Text("id", id.String())
	if at != nil && x.wants(t.base) {
		w.Text(t.base, idOf(t.letter, e.UNID))
	} else if x.properties != nil && x.wants(t.base) {
		w.Raw(t.base, "null")
	}
	if x.wants(t.place) {
		t.appendPlace(&w, idOf(t.collections.letter, e.Collection))
	}
	if x.wants("isDraft") {
		w.Bool("isDraft", o.Flag("isDraft"))
	}
	if x.wants("isOrigin") {
		w.Bool("isOrigin", x.self.origin(o))
	}
	v := x.view
	o.Blobs = x.blobs
	if x.reduce || !x.c.account.Personal && o.Flag("hideAttendees") {
		v.Sees = x.self.is
	}
	if at != nil {
		o.AppendInstance(&w, *at, &v)
	} else {
		o.Append(&w, &v)
	}
	return w.End()
}

// setProperties sets the properties that are printed; nil means all.
func (x *eventView) setProperties(list []string) {
	x.properties = list
	if list == nil {
		return
	}
	x.view.Properties = []string{}
	for _, name := range list {
		if !slices.Contains(x.t.additions(), name) && name != "isDraft" &&
			!slices.Contains(x.view.Properties, name) {
			x.view.Properties = append(x.view.Properties, name)
		}
	}
}

// get answers a /get.
//
// Implements: draft-ietf-jmap-calendars §5.7 CalendarEvent/get
func (t *objectType) get(c *call) error {
	g, err := c.getArguments(false, nil, "recurrenceOverridesBefore", "recurrenceOverridesAfter", "reduceParticipants",
		"timeZone")
	if err != nil {
		return err
	}
	x, err := t.viewOf(c, &g)
	if err != nil {
		return err
	}
	f, err := c.box()
	if err != nil {
		return err
	}
	m, err := f.Moments(c.ctx, groupware.Calendar)
	if err != nil {
		return err
	}
	g.begin(m.Entries.String())
	if g.all {
		err = x.all(&g, f)
	} else {
		err = x.named(&g, f)
	}
	if err != nil {
		return err
	}
	g.end()
	return nil
}

// viewOf reads the arguments of a /get that say what is printed.
func (t *objectType) viewOf(c *call, g *get) (x *eventView, err error) {
	x = &eventView{t: t, c: c, blobs: &eventBlobs{}}
	for _, name := range g.properties {
		if !t.has(name) {
			return nil, invalid("%.100q is no property", name)
		}
	}
	if g.some {
		x.setProperties(append([]string{}, g.properties...))
	}
	has := func(name string) bool { return slices.Contains(g.properties, name) }
	if has("recurrenceOverrides") && (has("utcStart") || has("utcEnd") || has("utcDue")) {
		return nil, invalid("recurrenceOverrides are not told together with times in UTC")
	}
	if x.reduce, err = c.bool("reduceParticipants", false); err != nil {
		return nil, err
	}
	for name, at := range map[string]*time.Time{"recurrenceOverridesBefore": &x.view.Before,
		"recurrenceOverridesAfter": &x.view.After} {
		text, err := c.text(name)
		if err != nil {
			return nil, err
		}
		ok := text == ""
		if !ok {
			*at, ok = jmap.ParseDate(text, true)
		}
		if !ok {
			return nil, invalid("%s is no UTCDate", name)
		}
	}
	if x.view.Floating, err = c.zone("timeZone"); err != nil {
		return nil, err
	}
	x.self, err = c.self()
	return x, err
}

// zone returns the time zone that an argument names, UTC if it is missing.
func (c *call) zone(name string) (*ical.Zone, error) {
	text, err := c.text(name)
	if err != nil || text == "" {
		return ical.UTC, err
	}
	if !ical.HasZone(text) {
		return nil, invalid("%s is no time zone of the IANA database", name)
	}
	return ical.Named(text), nil
}

// all appends all objects of the account.
func (x *eventView) all(g *get, f *groupware.File) error {
	c, most := x.c, x.c.s.opt.Limits.ObjectsInGet
	var full error
	err := f.All(c.ctx, groupware.Calendar, true, func(e *groupware.Entry) bool {
		o := x.t.of(e)
		if o == nil {
			return true
		}
		if g.next(); g.count > most {
			full = c.atMost(g.count, x.t.noun+"s", "maxObjectsInGet")
			return false
		}
		c.out = x.append(c.out, e, o, nil)
		full = c.settle()
		return full == nil
	})
	if err == nil {
		err = full
	}
	return err
}

// named appends the objects with the ids that the client names. It reads each entry once.
func (x *eventView) named(g *get, f *groupware.File) error {
	c := x.c
	var order []note.UNID
	ids := map[note.UNID][]eventID{}
	for _, id := range g.ids {
		if e, ok := x.t.parseID(id); ok {
			if ids[e.unid] == nil {
				order = append(order, e.unid)
			}
			ids[e.unid] = append(ids[e.unid], e)
		}
	}
	found := make(map[string]bool, len(g.ids))
	var full error
	err := f.ByID(c.ctx, groupware.Calendar, order, true, func(e *groupware.Entry) bool {
		o := x.t.of(e)
		if o == nil {
			return true
		}
		for _, id := range ids[e.UNID] {
			var at *calendar.Occurrence
			if !id.at.IsZero() {
				one, ok := o.Instance(id.at)
				if !ok {
					continue
				}
				at = &one
			}
			g.next()
			found[id.String()] = true
			c.out = x.append(c.out, e, o, at)
			if full = c.settle(); full != nil {
				return false
			}
		}
		return true
	})
	for _, id := range g.ids {
		if !found[id] {
			g.miss(id)
		}
	}
	if err == nil {
		err = full
	}
	return err
}

// changes answers a /changes. A task is no CalendarEvent.
//
// Implements: draft-ietf-jmap-calendars §5.8 CalendarEvent/changes
func (t *objectType) changes(c *call) error {
	return c.groupwareChanges(groupware.Calendar, t.letter, t.delta)
}

// delta returns the objects that changed since a moment.
func (t *objectType) delta(f *groupware.File, ctx context.Context, kind groupware.Kind, since groupware.Moment,
	limit int) (groupware.Delta, error) {
	x, err := f.EntryChanges(ctx, kind, since, limit)
	if err != nil {
		return x, err
	}
	seen := map[note.UNID]bool{}
	err = f.ByID(ctx, kind, slices.Concat(x.Created, x.Updated), false, func(e *groupware.Entry) bool {
		seen[e.UNID] = e.Component == t.component
		return true
	})
	onlySeen(&x, seen)
	return x, err
}
