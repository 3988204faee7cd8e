package groupware

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"doublet/calendar"
	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
	"doublet/wire/ical"
)

// agenda holds the times of the entries of a mail file's calendars, as of a MODSEQ: a search by time reads only the
// entries that it finds.
type agenda struct {
	mu      sync.Mutex
	replica note.ReplicaID
	mod     note.ModSeq
	by      map[note.ID]*timed
	used    int64 // bytes, about; agendas.mu guards it, and tick
	tick    uint64
}

// timed holds the times of an entry.
type timed struct {
	unid     note.UNID
	folder   note.ID
	series   *calendar.Series
	from, to int64 // Unix seconds, see Series.Span
	kind     string
	private  bool
}

// timedSize is about the size of a timed in memory, with its Series, in bytes.
const timedSize = 700

// agendas holds the agendas of mail files in memory. The least recently used leave first.
type agendas struct {
	mu   sync.Mutex
	most int64
	used int64
	tick uint64
	by   map[note.DatabaseID]*agenda
}

// of returns the agenda of a mail file.
func (x *agendas) of(db note.DatabaseID) *agenda {
	x.mu.Lock()
	defer x.mu.Unlock()
	a := x.by[db]
	if a == nil {
		a = &agenda{}
		x.by[db] = a
	}
	x.tick++
	a.tick = x.tick
	return a
}

// weigh records the size of the agenda of a mail file, and drops others until there is room.
func (x *agendas) weigh(db note.DatabaseID, a *agenda, size int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.by[db] != a {
		return // it was dropped meanwhile, and goes with its last reader
	}
	x.used += size - a.used
	a.used = size
	for x.used > x.most {
		var oldest note.DatabaseID
		var last *agenda
		for db, b := range x.by {
			if b != a && b.used > 0 && (last == nil || b.tick < last.tick) {
				oldest, last = db, b
			}
		}
		if last == nil {
			return
		}
		x.used -= last.used
		last.used = 0
		delete(x.by, oldest)
	}
}

// agenda returns the times of all calendars at the moment of the reader, or a little later. The caller must hold no
// reference to it beyond the read.
func (d *reading) agenda() (*agenda, error) {
	a := d.f.svc.agendas.of(d.f.db)
	a.mu.Lock()
	defer a.mu.Unlock()
	c, replica := d.r.Counters(), d.r.Info().Replica
	fresh := a.by != nil && a.replica == replica && a.mod >= c.Floor && c.Ledger.Knows(a.mod)
	var err error
	switch {
	case fresh && a.mod >= c.Ledger.Last:
		return a, nil
	case fresh && a.mod <= c.Ledger.Last:
		err = d.forward(a)
	default:
		a.by = map[note.ID]*timed{}
		err = d.build(a)
	}
	if err != nil {
		a.by = nil
		return nil, err
	}
	a.replica, a.mod = replica, c.Ledger.Last
	d.f.svc.agendas.weigh(d.f.db, a, int64(len(a.by)+1)*timedSize)
	return a, nil
}

// build reads the times of all entries.
func (d *reading) build(a *agenda) error {
	for _, h := range d.r.AllFolders() {
		if kind, _, ok := parseFolder(h.Name); !ok || kind != Calendar {
			continue
		}
		var inner error
		err := d.r.Members(h.Note, 0, ^uint32(0), func(_ uint32, id note.ID) bool {
			inner = d.take(a, h, id)
			return inner == nil
		})
		if err = errors.Join(err, inner); err != nil {
			return err
		}
	}
	return nil
}

// forward reads the times of the entries that changed since the agenda's MODSEQ.
func (d *reading) forward(a *agenda) error {
	var inner error
	err := d.r.Changes(a.mod, func(_ note.ModSeq, c layout.Change) bool {
		row, err := d.r.Row(c.Note)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			inner = err
			return false
		}
		delete(a.by, c.Note)
		if err != nil || row.Stub || row.Recipe != 0 {
			return true
		}
		for _, m := range row.Members {
			h, err := d.r.Folder(m.Folder)
			if err != nil {
				continue
			}
			if kind, _, ok := parseFolder(h.Name); ok && kind == Calendar {
				if inner = d.take(a, h, c.Note); inner != nil {
					return false
				}
			}
		}
		return true
	})
	return errors.Join(err, inner)
}

// take reads the times of one entry.
func (d *reading) take(a *agenda, h *layout.Folder, id note.ID) error {
	e, err := (&reading{f: d.f.svc.File(note.System, d.f.db), r: d.r}).entry(h, id, true)
	if err != nil || e == nil {
		return err
	}
	o, err := calendar.ReadObject(e.Text)
	if err != nil {
		return nil //nolint:nilerr // an object that came by replication from a newer program has no times here
	}
	x := &timed{unid: e.UNID, folder: h.Note, series: o.Series, kind: e.Component, private: e.Private}
	x.from, x.to = o.Series.Span()
	a.by[id] = x
	return nil
}

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
	a, err := d.agenda()
	if err != nil {
		return nil, err
	}
	from, to := x.bounds()
	lo, hi := from.Unix(), to.Unix()
	hits := map[note.ID]*timed{}
	a.mu.Lock()
	defer a.mu.Unlock()
	for id, t := range a.by {
		if t.from < hi && t.to > lo && (x.Component == "" || x.Component == t.kind) && in(t) {
			hits[id] = t
		}
	}
	return hits, nil
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
		_, hits, err := d.found(&Range{From: from, To: to, Component: calendar.Event},
			func(folder note.ID) bool { _, ok := open[folder]; return ok })
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
