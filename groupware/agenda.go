package groupware

import (
	"errors"
	"sync"

	"doublet/calendar"
	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

// agenda holds the times of the entries of a mail file's calendars, as of a MODSEQ: a search by time reads only the
// entries that it finds.
type agenda struct {
	mu      sync.Mutex
	replica note.ReplicaID
	mod     note.ModSeq
	slots   []slot
	at      map[note.ID]int // the place of an entry in slots; nil if nothing was read yet
	read    int             // slots whose times were read
	used    int64           // bytes, about; agendas.mu guards it, and tick
	tick    uint64
}

// slot is an entry of an agenda.
type slot struct {
	id, folder note.ID
	span
	times *timed // nil until a search comes near
}

// timed holds the times of an entry.
type timed struct {
	unid    note.UNID
	folder  note.ID
	series  *calendar.Series
	kind    string
	private bool
}

// slotSize and timedSize are about the sizes of a slot and of a timed with its Series in memory, in bytes.
const (
	slotSize  = 100
	timedSize = 700
)

// size returns about the size of the agenda in memory, in bytes.
func (a *agenda) size() int64 { return slotSize*int64(len(a.slots)+1) + timedSize*int64(a.read) }

// clear empties the agenda.
func (a *agenda) clear() { a.slots, a.at, a.read = nil, nil, 0 }

// put adds an entry, or replaces it.
func (a *agenda) put(s slot) {
	a.drop(s.id)
	a.at[s.id] = len(a.slots)
	a.slots = append(a.slots, s)
	if s.times != nil {
		a.read++
	}
}

// drop removes an entry, if it is there. The last slot takes its place.
func (a *agenda) drop(id note.ID) {
	i, there := a.at[id]
	if !there {
		return
	}
	if a.slots[i].times != nil {
		a.read--
	}
	last := len(a.slots) - 1
	a.slots[i] = a.slots[last]
	a.at[a.slots[i].id] = i
	a.slots = a.slots[:last]
	delete(a.at, id)
}

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

// agenda calls fn with the times of all calendars at the moment of the reader, or a little later. The agenda is locked
// during the call.
func (d *reading) agenda(fn func(a *agenda) error) error {
	a := d.f.svc.agendas.of(d.f.db)
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := d.follow(a); err != nil {
		a.clear()
		return err
	}
	err := fn(a)
	d.f.svc.agendas.weigh(d.f.db, a, a.size())
	return err
}

// follow brings an agenda to the moment of the reader.
func (d *reading) follow(a *agenda) (err error) {
	c, replica := d.r.Counters(), d.r.Info().Replica
	fresh := a.at != nil && a.replica == replica && a.mod >= c.Floor && c.Ledger.Knows(a.mod)
	switch {
	case fresh && a.mod >= c.Ledger.Last:
		return nil
	case fresh:
		err = d.forward(a)
	default:
		a.clear()
		a.at = map[note.ID]int{}
		err = d.build(a)
	}
	a.replica, a.mod = replica, c.Ledger.Last
	return err
}

// calendarFolders returns the folders of calendars.
func (d *reading) calendarFolders() (list []*layout.Folder) {
	for _, h := range d.r.AllFolders() {
		if kind, _, ok := parseFolder(h.Name); ok && kind == Calendar {
			list = append(list, h)
		}
	}
	return list
}

// build reads the spans of all entries from the index. Entries of releases that kept none are read whole.
func (d *reading) build(a *agenda) error {
	spans := map[note.ID]span{}
	err := d.r.Scan(indexEntries, []byte{spanKey}, func(key []byte, id note.ID) bool {
		x, ok := parseSpan(key)
		if ok {
			spans[id] = x
		}
		return ok
	})
	if err != nil {
		return err
	}
	for _, h := range d.calendarFolders() {
		var inner error
		err := d.r.Members(h.Note, 0, ^uint32(0), func(_ uint32, id note.ID) bool {
			if x, ok := spans[id]; ok {
				a.put(slot{id: id, folder: h.Note, span: x})
			} else {
				inner = d.take(a, h, id)
			}
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
		a.drop(c.Note)
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

// take reads the times of one entry into the agenda.
func (d *reading) take(a *agenda, h *layout.Folder, id note.ID) error {
	t, err := d.times(h, id)
	if err == nil && t != nil {
		a.put(slot{id: id, folder: h.Note, span: spanOf(t.series), times: t})
	}
	return err
}

// times reads the times of an entry; nil if the note is none, or has none.
func (d *reading) times(h *layout.Folder, id note.ID) (*timed, error) {
	e, err := (&reading{f: d.f.svc.File(note.System, d.f.db), r: d.r}).entry(h, id, true)
	if err != nil || e == nil {
		return nil, err
	}
	o, err := calendar.ReadObject(e.Text)
	if err != nil {
		return nil, nil //nolint:nilerr // an object that came by replication from a newer program has no times here
	}
	return &timed{unid: e.UNID, folder: h.Note, series: o.Series, kind: e.Component, private: e.Private}, nil
}

// within calls fn for the entries whose span overlaps from ≤ t < to, and reads their times if they were not read yet.
// An agenda that is ahead of the reader keeps no times that the reader read: they may have changed since.
func (d *reading) within(a *agenda, from, to int64, fn func(note.ID, *timed)) error {
	keep := a.mod == d.r.Counters().Ledger.Last
	for i := range a.slots {
		s := &a.slots[i]
		if !s.overlaps(from, to) {
			continue
		}
		t := s.times
		if t == nil {
			h, err := d.r.Folder(s.folder)
			if err != nil {
				continue // the calendar is gone by now
			}
			if t, err = d.times(h, s.id); err != nil {
				return err
			}
			if t != nil && keep {
				s.times = t
				a.read++
			}
		}
		if t != nil {
			fn(s.id, t)
		}
	}
	return nil
}
