package probe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"doublet/env"
	"doublet/note"
	"doublet/stat"
	"doublet/store"
	"doublet/store/layout"
)

// ID is the ID of the database of events, DatabaseKind its kind. In a cluster each server has its own.
const (
	ID           note.DatabaseID = 0x0000000000DD3E17
	DatabaseKind                 = "events"
)

// Limits of the database.
const (
	// maxEvents is the number of events that are kept, open and closed. At most maxOpen of them are open.
	maxEvents   = 2000
	maxOpen     = 1000
	maxSilences = 200
	// piece is the number of notes that one read or update holds.
	piece = 200
)

// The errors of changes by people.
var (
	ErrNoEvent = errors.New("no such event")
	ErrInvalid = errors.New("invalid event data")
)

// Log is the database of events. Its methods may be called from any goroutine, on a stopped server too. It keeps all
// events in memory; the database holds them over a restart.
type Log struct {
	store *store.Store
	env   *env.Env
	gauge map[Type][Fatal + 1]*stat.Gauge

	// changing serializes changes; it is held while a change is written. mu guards the fields below, and is held for a
	// moment only, so that events can be read while the disk stalls.
	changing sync.Mutex
	mu       sync.Mutex
	events   map[note.UNID]*Event // never changed in place
	dirty    map[note.UNID]bool   // changed since the last write
	silences map[note.UNID]*Silence
	cursors  map[string]int64
	moved    map[string]bool // cursors that have changed since the last write
	last     int64           // the greatest sequence
	outboxes []*outbox
}

// Open opens the database of events, and creates it in a new store.
func Open(s *store.Store, e *env.Env, tree *stat.Tree) (*Log, error) {
	l := &Log{store: s, env: e, gauge: map[Type][Fatal + 1]*stat.Gauge{}, events: map[note.UNID]*Event{},
		dirty: map[note.UNID]bool{}, silences: map[note.UNID]*Silence{}, cursors: map[string]int64{},
		moved: map[string]bool{}}
	for _, t := range Types {
		var row [Fatal + 1]*stat.Gauge
		for severity, word := range []string{"Normal", "WarningLow", "WarningHigh", "Failure", "Fatal"} {
			row[severity] = tree.Gauge("Events.Open."+string(t)+"."+word, "open events of the type "+string(t)+
				" with the severity "+Severity(severity).String())
		}
		l.gauge[t] = row
	}
	if _, err := s.Info(ID); err != nil {
		_, err := s.CreateDatabase(note.System, store.Create{ID: ID, Title: "Events", Kind: DatabaseKind, Queue: true})
		if err != nil && !errors.Is(err, store.ErrExists) {
			return nil, fmt.Errorf("probe: create database: %w", err)
		}
	}
	return l, l.load(context.Background())
}

// load reads the database. A note that cannot be read is logged and left out.
func (l *Log) load(ctx context.Context) error {
	err := l.each(ctx, func(_ note.ID, it note.Items) error {
		switch it.Get(itemForm).AsText() {
		case formEvent:
			e, err := parseEvent(it)
			if err != nil {
				return err
			}
			l.events[unid(e.Probe, e.Target)], l.last = e, max(l.last, e.sequence)
		case formSilence:
			s := parseSilence(it)
			l.silences[s.unid()] = s
		case formCursor:
			n := it.Get(itemSequence).AsInt()
			l.cursors[it.Get(itemChannel).AsText()], l.last = n, max(l.last, n)
		}
		return nil
	})
	l.count()
	return err
}

// each calls fn for every note of the database.
func (l *Log) each(ctx context.Context, fn func(note.ID, note.Items) error) error {
	damaged := func(id note.ID, err error) {
		l.env.Log.Error("probe: cannot read a note", "note", uint64(id), "err", err)
	}
	next, more := note.ID(0), true
	for more && ctx.Err() == nil {
		err := l.store.Read(ctx, note.System, ID, func(r *store.Reader) error {
			n := 0
			defer func() { more = n == piece }()
			return store.ReadableNotes(r, next, damaged, func(id note.ID, _ *layout.Note) bool {
				next = id + 1
				n++
				c, err := r.Content(id)
				if err == nil {
					err = fn(id, c.Content.Items)
				}
				if err != nil {
					damaged(id, err)
				}
				return n < piece
			})
		})
		if err != nil {
			return fmt.Errorf("probe: read: %w", err)
		}
	}
	return ctx.Err()
}

func (l *Log) update(ctx context.Context, fn func(*store.Writer) error) error {
	err := l.store.Update(ctx, note.System, []note.DatabaseID{ID}, func(tx *store.Tx) error {
		w, err := tx.Database(ID)
		if err != nil {
			return err
		}
		return fn(w)
	})
	if err != nil {
		return fmt.Errorf("probe: write: %w", err)
	}
	return nil
}

// put replaces an event in memory. If the channels are owed a notification and it is not silenced, it is delivered. The
// caller holds changing.
func (l *Log) put(e *Event, what outcome) {
	l.mu.Lock()
	defer l.mu.Unlock()
	id := unid(e.Probe, e.Target)
	switch {
	case !e.owed():
		e.told = e.urgency()
	case !l.silenced(e):
		l.last = max(l.last+1, l.env.Clock.Now().UnixMicro())
		e.told, e.sequence = e.urgency(), l.last
		l.dirty[id] = true
		for _, o := range l.outboxes {
			o.add(id, e)
		}
	}
	l.events[id] = e
	if what != same {
		l.dirty[id] = true
	}
}

// endSilences delivers the events of which the channels were not notified while they were silenced.
func (l *Log) endSilences() {
	l.changing.Lock()
	defer l.changing.Unlock()
	var list []*Event
	l.mu.Lock()
	for _, e := range l.events {
		if e.owed() && !l.silenced(e) {
			list = append(list, e.clone())
		}
	}
	l.mu.Unlock()
	slices.SortFunc(list, byID)
	for _, e := range list {
		l.put(e, same)
	}
}

// Flush writes the events and cursors that have changed. Those that cannot be written stay in memory, and the next
// Flush tries again: a disk that is full is told about all the same.
func (l *Log) Flush(ctx context.Context) error {
	l.changing.Lock()
	defer l.changing.Unlock()
	list := l.unsaved()
	now := l.env.Clock.Now()
	for some := range slices.Chunk(list, piece) {
		err := l.update(ctx, func(w *store.Writer) (err error) {
			for i := 0; err == nil && i < len(some); i++ {
				err = w.Put(unid(some[i].Probe, some[i].Target), note.Document, note.Content{Items: some[i].items()})
			}
			return err
		})
		l.mu.Lock()
		for _, e := range some {
			if id := unid(e.Probe, e.Target); err == nil {
				c := e.clone()
				c.saved = now
				l.events[id] = c
				delete(l.dirty, id)
			}
		}
		l.mu.Unlock()
		if err != nil {
			return err
		}
	}
	l.count()
	return l.flushCursors(ctx)
}

// unsaved returns the events to be written. They stay dirty until that has succeeded. The caller holds changing.
func (l *Log) unsaved() (list []*Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id := range l.dirty {
		if e := l.events[id]; e != nil {
			list = append(list, e)
		} else {
			delete(l.dirty, id)
		}
	}
	slices.SortFunc(list, byID)
	return list
}

func byID(a, b *Event) int { return strings.Compare(a.ID, b.ID) }

// count sets the gauges of open events.
func (l *Log) count() {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := map[Type][Fatal + 1]int64{}
	for _, e := range l.events {
		if e.State == StateOpen {
			row := n[e.Type]
			row[e.Severity]++
			n[e.Type] = row
		}
	}
	for t, row := range l.gauge {
		for severity, g := range row {
			g.Set(n[t][severity])
		}
	}
}

// Query selects events. Its zero value selects all of them.
type Query struct {
	Type, Probe, Target string // Target: a part of it, in any case
	State               State
	// Severity is the least severity. Since is the earliest time of the last finding or change.
	Severity Severity
	Since    time.Time
	// Limit is the greatest number of events, 0 for all.
	Limit int
}

func (q *Query) fits(e *Event) bool {
	return (q.Type == "" || strings.EqualFold(q.Type, string(e.Type))) &&
		(q.Probe == "" || strings.EqualFold(q.Probe, e.Probe)) &&
		strings.Contains(strings.ToLower(e.Target), strings.ToLower(q.Target)) &&
		(q.State == "" || q.State == e.State) && e.Severity >= q.Severity &&
		(!e.Last.Before(q.Since) || !e.Changed.Before(q.Since))
}

// List returns events: the open ones first, the more severe ones first among them, then the latest changed.
func (l *Log) List(q Query) []Event {
	l.mu.Lock()
	list := []Event{}
	for _, e := range l.events {
		if q.fits(e) {
			list = append(list, *e)
		}
	}
	l.mu.Unlock()
	rank := func(e *Event) int {
		if e.State == StateOpen {
			return int(e.Severity)
		}
		return -1
	}
	slices.SortFunc(list, func(a, b Event) int {
		return cmp.Or(cmp.Compare(rank(&b), rank(&a)), b.Changed.Compare(a.Changed), strings.Compare(a.ID, b.ID))
	})
	if q.Limit > 0 && len(list) > q.Limit {
		list = list[:q.Limit]
	}
	return list
}

// Event returns the event with an ID.
func (l *Log) Event(id string) (Event, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.events {
		if e.ID == strings.ToLower(id) {
			return *e, nil
		}
	}
	return Event{}, fmt.Errorf("%w: %q", ErrNoEvent, cut(id, maxTarget))
}
