package groupware

import (
	"context"
	"encoding/hex"
	"errors"
	"slices"

	"doublet/calendar"
	"doublet/calendar/itip"
	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
	"doublet/wire/ical"
)

// Leads reports whether this server is the primary of a mail file, so that Change can change it.
func (s *Service) Leads(db note.DatabaseID) bool { return s.store.Leads(db) }

// Within returns the groupware of a mail file inside an update that somebody else makes, as the server sees it. On a
// replica that is not the home it returns store.ErrNotHome.
func (s *Service) Within(tx *store.Tx, db note.DatabaseID) (*Changing, error) {
	w, err := tx.Home(db)
	if err != nil {
		return nil, err
	}
	return &Changing{reading: reading{f: s.File(note.System, db), r: &w.Reader}, w: w}, nil
}

// ParseEvent is Service.Parse for an event that an update writes: the text is part of the note, whatever its size.
// Errors match ErrInvalid.
func ParseEvent(text []byte) (*Parsed, error) {
	if len(text) > maxEvent {
		return nil, ErrTooLarge
	}
	p, err := parse(Calendar, text)
	if err != nil {
		return nil, errors.Join(ErrInvalid, err)
	}
	return p, nil
}

// maxEvent bounds the text of ParseEvent in bytes.
const maxEvent = 1 << 20

// NewScheduleTag returns a Schedule-Tag that no entry has.
func (s *Service) NewScheduleTag() string {
	u := s.store.UNID()
	return hex.EncodeToString(u[:])
}

// Placed is an entry with the name of its collection.
type Placed struct {
	Place
	Entry
}

// ByUID returns the entries of all calendars with a UID, with their texts.
func (f *File) ByUID(ctx context.Context, uid string) (list []Placed, err error) {
	err = f.read(ctx, func(d *reading) error {
		list, err = d.ByUID(uid)
		return err
	})
	return list, err
}

// ByUID returns the entries of all calendars with a UID, with their texts, in the order of their arrival.
func (d *reading) ByUID(uid string) (list []Placed, err error) {
	ids, err := d.r.Lookup(indexEntries, uidKey(uid))
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		row, err := d.r.Row(id)
		if errors.Is(err, store.ErrNotFound) || err == nil && row.Stub {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, m := range row.Members {
			h, err := d.r.Folder(m.Folder)
			if err != nil {
				continue
			}
			kind, name, ok := parseFolder(h.Name)
			if !ok || kind != Calendar || d.rights(h)&note.Lookup == 0 {
				continue
			}
			e, err := d.entry(h, id, true)
			if err != nil {
				return nil, err
			}
			if e != nil && e.UID == uid {
				list = append(list, Placed{Place{name, e.Name}, *e})
			}
		}
	}
	return list, nil
}

// DefaultFor returns the name of the calendar that gets new entries of a kind: the default one for events and that of
// Ensure for tasks, if it holds the kind, else the first one by name that does. It returns ErrNoCollection if there is
// none.
//
// Implements: RFC 6638 §9.2 CALDAV:schedule-default-calendar-URL
func (f *File) DefaultFor(ctx context.Context, component string) (name string, err error) {
	err = f.read(ctx, func(d *reading) error {
		_, name, err = defaultFor(d, component)
		return err
	})
	return name, err
}

// defaultFor returns the calendar of DefaultFor and its name.
func defaultFor(d *reading, component string) (to *layout.Folder, name string, err error) {
	usual, _, err := d.defaultOf(Calendar, 0)
	if err != nil {
		return nil, "", err
	}
	found := false
	err = d.eachCalendar(func(h *layout.Folder, n string, p *Properties) {
		if found || d.rights(h)&note.Lookup == 0 || !p.holds(component) || showsFeed(d, h) {
			return
		}
		if found = usual != nil && h.Note == usual.Note; component == calendar.Task {
			found = n == DefaultTasks
		}
		if found || to == nil || n < name {
			to, name = h, n
		}
	})
	if err == nil && to == nil {
		err = ErrNoCollection
	}
	return to, name, err
}

// Invite puts an event into the calendar for new ones, which it creates in a mail file that has no calendar yet. A
// cancelled event, and the answer to an event that is not there, go to the removed entries, where Gone finds them.
func (c *Changing) Invite(p *Parsed) error {
	_, name, err := defaultFor(&c.reading, p.Component)
	if errors.Is(err, ErrNoCollection) {
		if err = c.ensure(map[Kind]bool{Calendar: true}, ""); err != nil {
			return err
		}
		_, name, err = defaultFor(&c.reading, p.Component)
	}
	if err != nil {
		return err
	}
	if itip.IsCancelled(p.Object) || itip.IsAnswer(p.Object) {
		return c.bury(name, p)
	}
	_, _, err = c.Put(Calendar, name, c.f.svc.NewName(Calendar), p, Condition{New: true})
	return err
}

// bury writes a removed entry of a calendar.
func (c *Changing) bury(calendar string, p *Parsed) error {
	h, err := c.find(Calendar, calendar, note.Lookup)
	if err == nil {
		err = c.fits(nil, len(p.Text))
	}
	if err != nil {
		return err
	}
	content := p.content(c.f.svc.NewName(Calendar), c.f.svc.env.Clock.Now())
	if p.stored != nil {
		c.write().Keep(p.stored)
	}
	id, err := c.write().Create(store.New{Content: content, Folders: []note.ID{h.Note}})
	if err != nil {
		return err
	}
	return c.remove(h, id, removed)
}

// Clash reports whether another event of a mail file than that with the UID except makes one of the periods busy.
// floating is the time zone of events without one. It also returns the state of the calendar for new events, for
// Changing.Unchanged.
func (f *File) Clash(ctx context.Context, except string, list []calendar.Period,
	floating *ical.Zone) (clash bool, state string, err error) {
	err = f.read(ctx, func(d *reading) error {
		h, _, err := defaultFor(d, calendar.Event)
		if err != nil {
			return err
		}
		if state = d.token(h, h.Mod); len(list) == 0 {
			return nil
		}
		clash, err = clashes(d, except, list, floating)
		return err
	})
	return clash, state, err
}

func clashes(d *reading, except string, list []calendar.Period, floating *ical.Zone) (bool, error) {
	x := Range{From: list[0].From, To: list[0].To, Component: calendar.Event, Floating: floating}
	for _, p := range list {
		x.From, x.To = earliest(x.From, p.From), latest(x.To, p.To)
	}
	ids, hits, err := d.found(&x, func(note.ID) bool { return true })
	if err != nil {
		return false, err
	}
	own, err := d.ByUID(except)
	if err != nil {
		return false, err
	}
	for _, id := range ids {
		if slices.ContainsFunc(own, func(e Placed) bool { return e.id == id }) {
			continue
		}
		clash := false
		err = hits[id].series.Between(x.From, x.To, floating, func(o calendar.Occurrence) bool {
			clash = o.Busy != calendar.Free && slices.ContainsFunc(list, func(p calendar.Period) bool {
				return p.From.Before(o.End) && o.Start.Before(p.To)
			})
			return !clash
		})
		if clash || err != nil { // a rule that takes too long to expand may take any time
			return true, nil
		}
	}
	return false, nil
}

// Unchanged returns ErrChanged unless the calendar for new events is in a state that Clash returned. "" is any state.
func (c *Changing) Unchanged(state string) error {
	if state == "" {
		return nil
	}
	h, _, err := defaultFor(&c.reading, calendar.Event)
	if err == nil && c.token(h, h.Mod) != state {
		err = ErrChanged
	}
	return err
}

// EnsureCalendar creates the calendar of a mail file that has none, such as that of a room.
func (f *File) EnsureCalendar(ctx context.Context) error {
	_, err := f.DefaultFor(ctx, calendar.Event)
	if !errors.Is(err, ErrNoCollection) {
		return err
	}
	return f.Change(ctx, func(c *Changing) error {
		if _, _, err := defaultFor(&c.reading, calendar.Event); !errors.Is(err, ErrNoCollection) {
			return err
		}
		return c.ensure(map[Kind]bool{Calendar: true}, "")
	})
}

// EventCounts calls fn with the number of events in the calendars of each mail file that this server leads and that has
// calendars.
func (s *Service) EventCounts(ctx context.Context, fn func(db note.DatabaseID, events int)) error {
	all, err := s.store.Databases()
	if err != nil {
		return err
	}
	for _, i := range all {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if i.Kind != mailbox.Kind || i.State != layout.InService || !s.Leads(i.ID) {
			continue
		}
		events, calendars := 0, false
		err := s.File(note.System, i.ID).read(ctx, func(d *reading) error {
			return d.eachCalendar(func(h *layout.Folder, _ string, p *Properties) {
				if p.holds(calendar.Event) {
					events, calendars = events+int(h.Total), true
				}
			})
		})
		if err != nil && !errors.Is(err, store.ErrNotFound) { // one that was removed meanwhile
			return err
		}
		if calendars {
			fn(i.ID, events)
		}
	}
	return nil
}
