// Package queue implements mail.box: the messages that wait to be delivered, sent or reported. It stores their entries,
// counts them, and tracks which mail.box databases of a cluster this server processes.
package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"doublet/env"
	"doublet/note"
	"doublet/stat"
	"doublet/store"
	"doublet/store/layout"
)

// BoxID is the ID of the first mail.box of a standalone server.
const BoxID note.DatabaseID = 0x000000000000B0C5

// Kind is the database kind of mail.box.
const Kind = "queue"

var (
	// ErrNotQueued means that mail.box has no message with the queue ID.
	ErrNotQueued = errors.New("mail: no such message in mail.box")
	// ErrHomeElsewhere means that another server leads the mail.box that holds the message.
	ErrHomeElsewhere = errors.New("mail: the message is in a mail.box that another server leads: ask there")
	// ErrChanged means that the entry was changed, for example by an administrator, while it was being processed.
	ErrChanged = errors.New("mail: the entry was changed meanwhile")
)

// Queue manages the entries of the mail.box databases that have replicas here. Its methods may be called from any
// goroutine.
//
// In a cluster the home of a mail.box (its primary replica) is on the server that owns it, and a mate has another
// replica. Only the home processes the entries. When the owner dies, the mate with the new home processes them, until
// the home is handed back.
//
// Every decision on an entry is an update that checks that the database still has its home here (store.Tx.Home), so
// that no decision is made twice. The reply of a remote server is always written: if the home has moved away, the reply
// is written there as an unnumbered change. If this server dies before a mate has the reply, the message is sent again,
// as after any lost reply (RFC 5321 section 4.5.4.1).
type Queue struct {
	// Boxes holds the databases. The other methods of Queue are about their entries.
	Boxes Boxes

	store   *store.Store
	env     *env.Env
	gauges  *gauges
	changed func()
}

// Open opens the mail.box databases, and creates them in a new store. New messages are spread over the given number of
// databases, at most MaxBoxes. Open calls changed when there may be new work.
func Open(s *store.Store, e *env.Env, t *stat.Tree, spread int, changed func()) (*Queue, error) {
	q := &Queue{store: s, env: e, gauges: newGauges(t), changed: changed}
	q.Boxes.store, q.Boxes.spread, q.Boxes.changed = s, max(1, min(spread, MaxBoxes)), changed
	if err := q.Boxes.open(); err != nil {
		return nil, err
	}
	if err := q.openCensus(context.Background()); err != nil {
		return nil, fmt.Errorf("mail: open mail.box: %w", err)
	}
	return q, nil
}

// Look checks the homes of the mail.box databases. It starts the work on databases that are led here now, and returns
// those that are no longer led here.
func (q *Queue) Look(ctx context.Context) (ended []*Box) {
	if err := q.Boxes.takeArrived(); err != nil {
		q.env.Log.Error("mail: take up mail.box", "err", err)
	}
	server := q.Boxes.memberID()
	if server.IsZero() {
		return nil
	}
	now := q.env.Clock.Now()
	for _, b := range q.Boxes.all() {
		if !b.Replicated() {
			continue
		}
		begins, ends, sum := b.lead.look(q.store.Leads(b.ID), b.Owner == server, now)
		if ends {
			q.ended(b, sum)
			ended = append(ended, b)
		}
		if begins {
			if err := q.countFrom(ctx, b, note.ID(1<<boxShift-1)); err != nil && !errors.Is(err, store.ErrClosed) {
				q.env.Log.Error("mail: cannot count messages", "database", b.ID.String(), "err", err)
			}
			q.changed()
			q.env.Log.Info("mail: routes mail.box", "database", b.ID.String(), "owner", b.Owner.String())
		}
	}
	return ended
}

// DatabaseTrouble reports whether an error concerns one database rather than the whole server.
func DatabaseTrouble(err error) bool {
	return errors.Is(err, store.ErrOutOfService) || errors.Is(err, store.ErrNotFound) ||
		errors.Is(err, store.ErrDamaged)
}

// NotQueued translates errors of the store to those of this package.
func NotQueued(err error) error {
	if errors.Is(err, store.ErrNotHome) {
		return ErrHomeElsewhere
	}
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrGrave) {
		return ErrNotQueued
	}
	return err
}

// Locate returns the mail.box that holds a message. Errors: ErrNotQueued.
func (q *Queue) Locate(ctx context.Context, id note.UNID) (note.DatabaseID, error) {
	first := q.Boxes.Place(id)
	if found, err := q.holds(ctx, first, id); err != nil || found {
		return first, err
	}
	for _, b := range q.Boxes.all() {
		if b.ID == first {
			continue
		}
		found, err := q.holds(ctx, b.ID, id)
		if err != nil && !(b.Replicated() && DatabaseTrouble(err)) {
			return 0, err
		}
		if err == nil && found {
			return b.ID, nil
		}
	}
	return 0, ErrNotQueued
}

func (q *Queue) holds(ctx context.Context, box note.DatabaseID, id note.UNID) (found bool, err error) {
	err = q.store.Read(ctx, note.System, box, func(r *store.Reader) error {
		_, err := r.Find(id)
		if found = err == nil; errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrGrave) {
			return nil
		}
		return err
	})
	return found, err
}

// Find returns the entry with a queue ID. Errors: ErrNotQueued.
func (q *Queue) Find(ctx context.Context, id note.UNID) (*Entry, error) {
	box, err := q.Locate(ctx, id)
	if err != nil {
		return nil, err
	}
	return q.findIn(ctx, box, id)
}

// Decide is like Find, for an entry that the caller is about to change. Errors: ErrNotQueued, ErrHomeElsewhere.
func (q *Queue) Decide(ctx context.Context, id note.UNID) (*Entry, error) {
	box, err := q.Locate(ctx, id)
	if err == nil && !q.store.Leads(box) {
		err = ErrHomeElsewhere
	}
	if err != nil {
		return nil, err
	}
	return q.findIn(ctx, box, id)
}

func (q *Queue) findIn(ctx context.Context, box note.DatabaseID, id note.UNID) (e *Entry, err error) {
	err = q.store.Read(ctx, note.System, box, func(r *store.Reader) error {
		n, err := r.Find(id)
		if err == nil {
			e, err = Load(r, n)
		}
		return err
	})
	return e, NotQueued(err)
}

// Read returns the entry with the key k.
func (q *Queue) Read(ctx context.Context, k Key) (e *Entry, err error) {
	err = q.store.Read(ctx, note.System, q.Boxes.Of(k).ID, func(r *store.Reader) (err error) {
		e, err = Load(r, k.Note())
		return err
	})
	return e, err
}

// Message returns the stored message of an entry, or its first limit bytes if limit is above 0.
func (q *Queue) Message(ctx context.Context, k Key, limit int64) ([]byte, error) {
	var stored *store.Stored
	err := q.store.Read(ctx, note.System, q.Boxes.Of(k).ID, func(r *store.Reader) error {
		n, err := r.Note(k.Note())
		if err == nil {
			stored, err = r.Message(n)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read message in mail.box: %w", err)
	}
	n := stored.Size()
	if limit > 0 {
		n = min(n, limit)
	}
	raw, err := stored.AppendRange(make([]byte, 0, n), 0, n)
	if err != nil {
		return nil, fmt.Errorf("read message in mail.box: %w", err)
	}
	return raw, nil
}

// List returns the messages in mail.box in order of arrival, at most limit (0: 1,000). after is empty in the first
// call, then the next of the call before. next is empty at the end.
func (q *Queue) List(ctx context.Context, limit int, after string) (list []Entry, next string, err error) {
	if limit <= 0 {
		limit = 1000
	}
	var from place
	if after != "" {
		if _, err := fmt.Sscanf(after, "%d.%d", &from.box, &from.note); err != nil {
			return nil, "", fmt.Errorf("mail: list: not a place in the queue: %.40q", after)
		}
	}
	err = q.each(ctx, from, func(e *Entry) bool {
		if len(list) == limit {
			next = fmt.Sprintf("%d.%d", uint64(e.box), uint64(e.note))
			return false
		}
		list = append(list, *e)
		return true
	})
	return list, next, err
}

// Each calls fn for every entry in the mail.box databases that are led here, in order of arrival, until fn returns
// false. It logs and skips damaged entries.
func (q *Queue) Each(ctx context.Context, fn func(*Entry) bool) error {
	return q.each(ctx, place{}, fn)
}

// place is a position in the order of all entries: by database, then by arrival.
type place struct {
	box  note.DatabaseID
	note note.ID
}

func (q *Queue) each(ctx context.Context, from place, fn func(*Entry) bool) error {
	for _, b := range q.Boxes.Led() {
		if b.ID < from.box {
			continue
		}
		start := note.ID(0)
		if b.ID == from.box {
			start = from.note
		}
		goOn, err := q.eachIn(ctx, b.ID, start, fn)
		if b.Replicated() && errors.Is(err, store.ErrNotFound) {
			continue // removed in the meantime
		}
		if err != nil || !goOn {
			return err
		}
	}
	return nil
}

func (q *Queue) eachIn(ctx context.Context, box note.DatabaseID, from note.ID,
	fn func(*Entry) bool) (goOn bool, err error) {
	goOn = true
	err = q.store.Read(ctx, note.System, box, func(r *store.Reader) error {
		var ids []note.ID
		for goOn {
			if err := ctx.Err(); err != nil {
				return err
			}
			ids = ids[:0]
			err := store.ReadableNotes(r, from, q.damaged, func(id note.ID, _ *layout.Note) bool {
				ids = append(ids, id)
				return len(ids) < 1000
			})
			if err != nil || len(ids) == 0 {
				return err
			}
			for _, id := range ids {
				e, err := Load(r, id)
				if err != nil {
					q.damaged(id, err)
				} else if goOn = fn(e); !goOn {
					return nil
				}
			}
			from = ids[len(ids)-1] + 1
		}
		return nil
	})
	return goOn, err
}

// damaged logs an entry that cannot be read. The entries behind it are delivered all the same.
func (q *Queue) damaged(id note.ID, err error) {
	q.env.Log.Error("mail: cannot read an entry of mail.box", "note", uint64(id), "err", err)
}

// Home opens a mail.box in an update that decides on one of its entries. It fails if the home is elsewhere. The
// decision does not wait for a mate's confirmation; the changes of the same update to mail files do. No client is told
// of numbers in mail.box, so this is not Tx.Home.
func Home(tx *store.Tx, box note.DatabaseID) (*store.Writer, error) {
	w, err := tx.Database(box)
	if err == nil {
		err = w.Home()
	}
	if err == nil {
		w.Unconfirmed()
	}
	return w, err
}

// Enter adds an entry to mail.box; n is the note of the message. The queue ID is the UNID of the note: if it exists
// already, the same message was deposited before and Enter does nothing. The caller passes the tally to Moved.
func (q *Queue) Enter(w *store.Writer, n store.New, e Entry) (Tally, error) {
	n.UNID, n.Summary, n.Content = e.ID, nil, note.Content{Items: e.items()}
	_, err := w.Create(n)
	switch {
	case errors.Is(err, store.ErrExists), errors.Is(err, store.ErrGrave):
		return Tally{}, nil
	case err != nil:
		return Tally{}, err
	}
	if b := q.Boxes.find(w.Reader.Database()); b != nil && b.Replicated() {
		return Tally{}, nil // counted when the router sees it
	}
	return e.tally(), nil
}

// Alter calls fn to change an entry that the update has loaded. It then writes the entry, or destroys it if it has no
// recipients left. The caller passes the tally to Moved.
func (q *Queue) Alter(w *store.Writer, e *Entry, fn func(*Entry) error) (Tally, error) {
	before := e.tally()
	if err := fn(e); err != nil {
		return Tally{}, err
	}
	return q.save(w, e, before)
}

// Revise is like Alter, for an entry that was read before the update. It returns ErrChanged if the entry has changed
// since.
func (q *Queue) Revise(w *store.Writer, was *Entry, fn func(*Entry)) (Tally, error) {
	e, err := Load(&w.Reader, was.note)
	if errors.Is(err, store.ErrNotFound) {
		return Tally{}, ErrChanged
	}
	if err != nil {
		return Tally{}, err
	}
	if e.Held != was.Held || e.Dead != was.Dead || e.Delayed != was.Delayed ||
		!slices.Equal(e.Recipients, was.Recipients) {
		return Tally{}, ErrChanged
	}
	return q.Alter(w, e, func(e *Entry) error { fn(e); return nil })
}

// ReviseAlone is Revise in its own update.
func (q *Queue) ReviseAlone(ctx context.Context, was *Entry, fn func(*Entry)) error {
	return q.update(ctx, was.box, func(w *store.Writer) (Tally, error) { return q.Revise(w, was, fn) })
}

// update changes a single mail.box.
func (q *Queue) update(ctx context.Context, box note.DatabaseID, fn func(*store.Writer) (Tally, error)) error {
	var moved Tally
	err := q.store.Update(ctx, note.System, []note.DatabaseID{box}, func(tx *store.Tx) error {
		w, err := Home(tx, box)
		if err == nil {
			moved, err = fn(w)
		}
		return err
	})
	if err == nil {
		q.Moved(box, moved)
	}
	return err
}

// Change calls fn to change the entry with a queue ID. If fn changes nothing, nothing is written. Errors: ErrNotQueued,
// ErrHomeElsewhere.
func (q *Queue) Change(ctx context.Context, id note.UNID, fn func(*Entry)) error {
	box, err := q.Locate(ctx, id)
	if err != nil {
		return err
	}
	err = q.update(ctx, box, func(w *store.Writer) (Tally, error) {
		n, err := w.Find(id)
		if err != nil {
			return Tally{}, err
		}
		e, err := Load(&w.Reader, n)
		if err != nil {
			return Tally{}, err
		}
		was, before := *e, e.tally()
		was.Recipients = slices.Clone(e.Recipients)
		fn(e)
		if e.Held == was.Held && e.Dead == was.Dead && slices.Equal(e.Recipients, was.Recipients) {
			return Tally{}, nil
		}
		return q.save(w, e, before)
	})
	return NotQueued(err)
}

// save writes an entry, or destroys it if it has no recipients left. An entry that the census has not reached does not
// change the gauges.
func (q *Queue) save(w *store.Writer, e *Entry, before Tally) (Tally, error) {
	after := e.tally()
	if len(e.Recipients) == 0 {
		after = Tally{}
	}
	moved := after.minus(before)
	if b := q.Boxes.find(e.box); b == nil || !b.census.counted(e) {
		moved = Tally{}
	}
	if len(e.Recipients) == 0 {
		return moved, w.Destroy(e.note)
	}
	return moved, w.Rewrite(e.note, note.Content{Items: e.items()})
}

// Box returns the mail.box database that holds the entry.
func (e *Entry) Box() note.DatabaseID { return e.box }
