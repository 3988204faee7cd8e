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
func (d *reading) agenda(fn func(x *filling) error) error {
	a := d.f.svc.agendas.of(d.f.db)
	a.mu.Lock()
	defer a.mu.Unlock()
	x := &filling{d, a}
	if err := x.follow(); err != nil {
		a.clear()
		return err
	}
	err := fn(x)
	d.f.svc.agendas.weigh(d.f.db, a, a.size())
	return err
}

// filling fills an agenda, which is locked, from a reader.
type filling struct {
	*reading
	a *agenda
}

// follow brings the agenda to the moment of the reader.
func (x *filling) follow() (err error) {
	a := x.a
	c, replica := x.r.Counters(), x.r.Info().Replica
	fresh := a.at != nil && a.replica == replica && a.mod >= c.Floor && c.Ledger.Knows(a.mod)
	switch {
	case fresh && a.mod >= c.Ledger.Last:
		return nil
	case fresh:
		err = x.forward()
	default:
		a.clear()
		a.at = map[note.ID]int{}
		err = x.build()
	}
	a.replica, a.mod = replica, c.Ledger.Last
	return err
}

// build reads the spans of all entries from the index. Entries of releases that kept none are read whole.
func (x *filling) build() error {
	spans := map[note.ID]span{}
	err := x.r.Scan(indexEntries, []byte{spanKey}, func(key []byte, id note.ID) bool {
		found, ok := parseSpan(key)
		if ok {
			spans[id] = found
		}
		return ok
	})
	if err != nil {
		return err
	}
	for _, h := range x.r.AllFolders() {
		if kind, _, ok := parseFolder(h.Name); !ok || kind != Calendar {
			continue
		}
		var inner error
		err := x.r.Members(h.Note, 0, ^uint32(0), func(_ uint32, id note.ID) bool {
			if known, ok := spans[id]; ok {
				x.a.put(slot{id: id, folder: h.Note, span: known})
			} else {
				inner = x.take(h, id)
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
func (x *filling) forward() error {
	var inner error
	err := x.r.Changes(x.a.mod, func(_ note.ModSeq, c layout.Change) bool {
		row, err := x.r.Row(c.Note)
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			inner = err
			return false
		}
		x.a.drop(c.Note)
		if err != nil || row.Stub || row.Recipe != 0 {
			return true
		}
		for _, m := range row.Members {
			h, err := x.r.Folder(m.Folder)
			if err != nil {
				continue
			}
			if kind, _, ok := parseFolder(h.Name); ok && kind == Calendar {
				if inner = x.take(h, c.Note); inner != nil {
					return false
				}
			}
		}
		return true
	})
	return errors.Join(err, inner)
}

// take reads the times of one entry into the agenda.
func (x *filling) take(h *layout.Folder, id note.ID) error {
	t, err := x.times(h, id)
	if err == nil && t != nil {
		x.a.put(slot{id: id, folder: h.Note, span: spanOf(t.series), times: t})
	}
	return err
}

// times reads the times of an entry; nil if the note is none, or has none.
func (x *filling) times(h *layout.Folder, id note.ID) (*timed, error) {
	e, err := (&reading{f: x.f.svc.File(note.System, x.f.db), r: x.r}).entry(h, id, true)
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
func (x *filling) within(from, to int64, fn func(note.ID, *timed)) error {
	keep := x.a.mod == x.r.Counters().Ledger.Last
	for i := range x.a.slots {
		s := &x.a.slots[i]
		if !s.overlaps(from, to) {
			continue
		}
		t := s.times
		if t == nil {
			h, err := x.r.Folder(s.folder)
			if err != nil {
				continue // the calendar is gone by now
			}
			if t, err = x.times(h, s.id); err != nil {
				return err
			}
			if t != nil && keep {
				s.times = t
				x.a.read++
			}
		}
		if t != nil {
			fn(s.id, t)
		}
	}
	return nil
}
