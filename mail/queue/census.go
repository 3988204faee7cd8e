package queue

import (
	"context"
	"errors"

	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

// censusStep bounds the messages of mail.box that are counted at a time, under its lock. The server waits for the
// first piece when it starts, so that a short queue is counted before anything else happens.
const censusStep = 500

// census counts the messages that were in mail.box when the server started, in order of arrival and in pieces, while
// mail comes and goes: a start reads one piece, however many wait. A change moves the gauges only where the entry has
// been counted; the rest is counted later as it is then. The lock of the database guards at and end: they are read and
// written inside its updates only.
type census struct {
	at, end note.ID // the next note to count, and the first one behind the last
}

func (c *census) counted(e *Entry) bool { return e.note < c.at || e.note >= c.end }

// openCensus counts the first piece of each mail.box. Replicated ones are counted when this server begins to lead them.
func (q *Queue) openCensus(ctx context.Context) error {
	for _, b := range q.boxes() {
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

// countFrom starts to count what is in a mail.box below end. Messages behind end are counted when they are entered.
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

// countSome counts a piece of a mail.box. more is true when another piece is left.
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
	err = w.Notes(c.at, func(id note.ID, _ *layout.Note) bool {
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

// CountArrived counts what mates have entered in a replicated mail.box since it was counted last.
func (q *Queue) CountArrived(ctx context.Context, b *Box) error {
	for more := b.Replicated(); more; {
		var err error
		if more, err = q.countSome(ctx, b); err != nil {
			return err
		}
	}
	return nil
}

// CountRest counts the messages of before the start that are not counted yet.
func (q *Queue) CountRest(ctx context.Context) {
	for _, b := range q.boxes() {
		for more := true; more && ctx.Err() == nil; {
			var err error
			if more, err = q.countSome(ctx, b); err != nil && !errors.Is(err, store.ErrClosed) && ctx.Err() == nil {
				q.env.Log.Error("mail: cannot count messages", "database", b.ID.String(), "err", err)
			}
		}
	}
}

// Moved moves the gauges by what an update has changed in a mail.box.
func (q *Queue) Moved(db note.DatabaseID, t Tally) {
	if t == (Tally{}) {
		return
	}
	if b := q.box(db); b != nil && b.Replicated() && !b.lead.count(t) {
		return
	}
	q.gauges.add(t)
}
