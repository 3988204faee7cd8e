package queue

import (
	"context"
	"errors"

	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

// censusStep is the maximum number of messages of a mail.box that are counted at a time, under its lock. At startup the
// server waits for the first piece, so that a short queue is counted before anything else happens.
const censusStep = 500

// census counts the messages that are in a mail.box when the server starts. It counts in order of arrival and in
// pieces, while mail comes and goes, so that startup reads one piece however long the queue is. A change to an entry
// moves the gauges only if the entry has been counted. The census counts the other entries later, in their state at
// that time. The database lock guards at and end: only its updates read and write them.
type census struct {
	at, end note.ID // at: the next note to count; end: the first note after the last
}

func (c *census) counted(e *Entry) bool { return e.note < c.at || e.note >= c.end }

// openCensus counts the first piece of each mail.box. Replicated databases are counted when this server begins to lead
// them.
func (q *Queue) openCensus(ctx context.Context) error {
	for _, b := range q.Boxes.all() {
		if b.Replicated() {
			continue
		}
		var end note.ID
		err := q.store.Read(ctx, note.System, b.ID, func(r *store.Reader) error {
			end = r.Counters().NextNote
			return nil
		})
		if err != nil {
			return err
		}
		q.gauges.uncounted.Add(1)
		if err := q.countFrom(ctx, b, end); err != nil {
			return err
		}
	}
	return nil
}

// countFrom starts counting the entries of a mail.box below end. Messages from end on are counted when they are
// entered.
func (q *Queue) countFrom(ctx context.Context, b *Box, end note.ID) error {
	err := q.store.Update(ctx, note.System, []note.DatabaseID{b.ID}, func(*store.Tx) error {
		b.census = census{end: end}
		return nil
	})
	if err == nil {
		_, err = q.countSome(ctx, b)
	}
	return err
}

// countSome counts one piece of a mail.box. more is true if another piece is left.
func (q *Queue) countSome(ctx context.Context, b *Box) (more bool, err error) {
	var sum Tally
	err = q.store.Update(ctx, note.System, []note.DatabaseID{b.ID}, func(tx *store.Tx) error {
		w, err := tx.Database(b.ID)
		if err == nil && b.census.at != b.census.end {
			more, sum, err = q.countPiece(w, b)
		}
		return err
	})
	if err == nil {
		q.Moved(b.ID, sum)
	}
	return more, err
}

func (q *Queue) countPiece(w *store.Writer, b *Box) (more bool, sum Tally, err error) {
	c := &b.census
	var ids []note.ID
	ignored := func(note.ID, error) {} // the router logs the error
	err = store.ReadableNotes(&w.Reader, c.at, ignored, func(id note.ID, _ *layout.Note) bool {
		if id < c.end {
			ids = append(ids, id)
		}
		return id < c.end && len(ids) < censusStep
	})
	if err != nil {
		return false, sum, err
	}
	for _, id := range ids {
		if e, err := Load(&w.Reader, id); err == nil { // the router logs the error
			sum = sum.Plus(e.tally())
		}
	}
	// The update has written nothing, so it cannot fail from here on.
	if more = len(ids) == censusStep; more {
		c.at = ids[len(ids)-1] + 1
	} else if !b.Replicated() {
		c.at = c.end
		q.gauges.uncounted.Add(-1)
	} else if len(ids) > 0 {
		c.at = ids[len(ids)-1] + 1
	}
	return more, sum, nil
}

// CountArrived counts the entries that mates have added to a replicated mail.box since the last count.
func (q *Queue) CountArrived(ctx context.Context, b *Box) error {
	for more := b.Replicated(); more; {
		var err error
		if more, err = q.countSome(ctx, b); err != nil {
			return err
		}
	}
	return nil
}

// CountRest counts the remaining messages that were in mail.box at startup.
func (q *Queue) CountRest(ctx context.Context) {
	for _, b := range q.Boxes.all() {
		for more := true; more && ctx.Err() == nil; {
			var err error
			if more, err = q.countSome(ctx, b); err != nil && !errors.Is(err, store.ErrClosed) && ctx.Err() == nil {
				q.env.Log.Error("mail: cannot count messages", "database", b.ID.String(), "err", err)
			}
		}
	}
}

// Moved applies the change that an update made in a mail.box to the gauges.
func (q *Queue) Moved(db note.DatabaseID, t Tally) {
	if t == (Tally{}) {
		return
	}
	if b := q.Boxes.find(db); b != nil && b.Replicated() && !b.lead.count(t) {
		return
	}
	q.gauges.add(t)
}
