package groupware

import (
	"context"
	"maps"
	"slices"
	"time"

	"doublet/calendar"
	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
	"doublet/wire/ical"
)

// Range is a search by time: From ≤ t < To. A zero time is no bound.
type Range struct {
	From, To time.Time
	// Floating is the time zone of times without one; nil means UTC.
	Floating  *ical.Zone
	Component string // "" means all
}

func (x *Range) bounds() (from, to time.Time) {
	from, to = x.From, x.To
	if from.IsZero() {
		from = time.Unix(-1<<40, 0)
	}
	if to.IsZero() {
		to = time.Unix(1<<40, 0)
	}
	return from, to
}

// near returns the times of the entries that in selects and that may have an occurrence in the range.
func (d *reading) near(x *Range, in func(*timed) bool) (map[note.ID]*timed, error) {
	from, to := x.bounds()
	hits := map[note.ID]*timed{}
	err := d.agenda(func(a *filling) error {
		return a.within(from.Unix(), to.Unix(), func(id note.ID, t *timed) {
			if (x.Component == "" || x.Component == t.kind) && in(t) {
				hits[id] = t
			}
		})
	})
	return hits, err
}

// found returns the ids of the entries of some collections with an occurrence in the range, in the order of arrival.
func (d *reading) found(x *Range, in func(folder note.ID) bool) ([]note.ID, map[note.ID]*timed, error) {
	hits, err := d.near(x, func(t *timed) bool { return in(t.folder) })
	if err != nil {
		return nil, nil, err
	}
	from, to := x.bounds()
	var ids []note.ID
	for id, t := range hits {
		any := false
		err := t.series.Between(from, to, x.Floating, func(calendar.Occurrence) bool { any = true; return false })
		if any || err != nil { // the client decides over a rule that is too long to expand here
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids, hits, nil
}

// Between calls fn for the entries of a calendar that have an occurrence in a time range, until fn returns false.
//
// Implements: RFC 4791 §9.9 CALDAV:time-range
func (f *File) Between(ctx context.Context, collection string, x Range, text bool, fn func(*Entry) bool) error {
	return f.read(ctx, func(d *reading) error {
		h, err := d.find(Calendar, collection, note.Read)
		if err != nil {
			return err
		}
		ids, _, err := d.found(&x, func(folder note.ID) bool { return folder == h.Note })
		if err != nil {
			return err
		}
		for _, id := range ids {
			e, err := d.entry(h, id, text)
			if err != nil {
				return err
			}
			if e != nil && !fn(e) {
				return nil
			}
		}
		return nil
	})
}

// seesBusy reports whether the person may see the busy times of a calendar.
func (d *reading) seesBusy(h *layout.Folder, p *Properties) bool {
	return d.rights(h)&note.Read != 0 || p.BusyFor != NobodySees && !d.f.who.Person.IsZero()
}

// holds reports whether a calendar holds entries of a kind.
func (p *Properties) holds(component string) bool {
	return len(p.Components) == 0 || slices.Contains(p.Components, component)
}

// open returns the calendars whose busy times the person may see, each with the time zone of its times without one.
// unread restricts them to those whose entries the person may not read. Without it, open returns store.ErrDenied if the
// person may see no calendar of events.
func (d *reading) open(collection string, unread bool) (map[note.ID]*ical.Zone, error) {
	open := map[note.ID]*ical.Zone{}
	hidden, shown := false, false
	err := d.eachCalendar(func(h *layout.Folder, name string, p *Properties) {
		seen := d.seesBusy(h, p)
		if unread && d.rights(h)&note.Read != 0 || collection != "" && name != collection {
			return
		}
		if p.holds(calendar.Event) {
			hidden, shown = hidden || !seen, shown || seen
		}
		if seen && (!p.Transparent || collection != "") {
			open[h.Note] = ical.Named(p.TimeZone)
		}
	})
	if err == nil && hidden && !shown && !unread && collection == "" {
		err = store.ErrDenied
	}
	return open, err
}

// eachCalendar calls fn for all calendars, also those that the person may not see.
func (d *reading) eachCalendar(fn func(h *layout.Folder, name string, p *Properties)) error {
	for _, h := range d.r.AllFolders() {
		kind, name, ok := parseFolder(h.Name)
		if !ok || kind != Calendar {
			continue
		}
		items, err := d.r.FolderItems(h.Note)
		if err != nil {
			return err
		}
		p := readProperties(items)
		fn(h, name, &p)
	}
	return nil
}

// Times are the times of an entry of a calendar.
type Times struct {
	UNID, Collection note.UNID
	Component        string
	Series           *calendar.Series // read-only, and valid for any time
}

// Times calls fn for the entries of all calendars that the person may read, in the order of arrival, until fn returns
// false: for those that may have an occurrence in a time range. It reads no texts.
func (f *File) Times(ctx context.Context, x Range, fn func(*Times) bool) error {
	return f.read(ctx, func(d *reading) error {
		seen, owned := map[note.ID]note.UNID{}, map[note.ID]bool{}
		for _, h := range d.r.AllFolders() {
			if d.holds(Calendar, h) && d.rights(h)&(note.Lookup|note.Read) == note.Lookup|note.Read {
				seen[h.Note], owned[h.Note] = h.UNID, d.owns(h)
			}
		}
		hits, err := d.near(&x, func(t *timed) bool {
			return !seen[t.folder].IsZero() && (!t.private || owned[t.folder])
		})
		if err != nil {
			return err
		}
		for _, id := range slices.Sorted(maps.Keys(hits)) {
			t := hits[id]
			if !fn(&Times{UNID: t.unid, Collection: seen[t.folder], Component: t.kind, Series: t.series}) {
				return nil
			}
		}
		return nil
	})
}

// maxBusy bounds the busy times of one answer.
const maxBusy = 20_000

// Busy returns the busy times of the mail file between two instants, merged: those of calendars that are not
// transparent, if the person may see them. With none that they may see the error is store.ErrDenied. collection
// restricts them to one calendar; "" means all.
func (f *File) Busy(ctx context.Context, collection string, from, to time.Time) ([]calendar.Period, error) {
	return f.busy(ctx, collection, false, from, to)
}

// BusyHidden returns the busy times between two instants, merged, of those calendars whose entries the person may not
// read: Times has those of the others.
func (f *File) BusyHidden(ctx context.Context, from, to time.Time) ([]calendar.Period, error) {
	return f.busy(ctx, "", true, from, to)
}

func (f *File) busy(ctx context.Context, collection string, unread bool,
	from, to time.Time) (list []calendar.Period, err error) {
	err = f.read(ctx, func(d *reading) error {
		open, err := d.open(collection, unread)
		if err != nil {
			return err
		}
		hits, err := d.near(&Range{From: from, To: to, Component: calendar.Event},
			func(t *timed) bool { _, ok := open[t.folder]; return ok })
		if err != nil {
			return err
		}
		for _, t := range hits {
			err := t.series.Between(from, to, open[t.folder], func(o calendar.Occurrence) bool {
				if o.Busy != calendar.Free {
					list = append(list, calendar.Period{From: latest(o.Start, from), To: earliest(o.End, to),
						Busy: o.Busy})
				}
				return len(list) < maxBusy
			})
			if err != nil {
				continue // a rule that takes too long to expand has no busy times
			}
		}
		return nil
	})
	return calendar.MergePeriods(list), err
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earliest(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
