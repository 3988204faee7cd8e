package mail

import (
	"context"
	"errors"

	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

// censusStep is how many messages of mail.box are counted at a time, under its lock; the first time the
// server waits for it, so that a short queue is counted before anything else happens.
const censusStep = 500

// census counts the messages that were in mail.box when the server started, in order of arrival and in
// pieces, while mail comes and goes: a start reads one piece, however many wait. What changes moves
// the gauges only where it has been counted; what is still to be counted will be as it is then.
type census struct {
	// at is the next note to be counted, end behind the last. They are looked at and changed under the
	// lock of the database.
	at, end note.ID
}

func (c *census) counted(e *Entry) bool { return e.note < c.at || e.note >= c.end }

// openCensus counts the first piece of each mail.box.
func (s *Service) openCensus(ctx context.Context) error {
	for _, b := range s.boxes() {
		if b.replicated() {
			continue // when it is known to be led here
		}
		var end note.ID
		err := s.store.Read(ctx, note.System, b.id, func(r *store.Reader) error {
			end = r.Counters().NextNote
			return nil
		})
		if err != nil {
			return err
		}
		s.stat.uncounted.Add(1)
		if err := s.countFrom(ctx, b, end); err != nil {
			return err
		}
	}
	return nil
}

// countFrom begins to count what is in a box, up to a note; whoever enters what lies behind counts it.
func (s *Service) countFrom(ctx context.Context, b *box, end note.ID) error {
	err := s.store.Update(ctx, note.System, []note.DatabaseID{b.id}, func(*store.Tx) error {
		b.census = census{end: end}
		return nil
	})
	if err == nil {
		_, err = s.countSome(ctx, b)
	}
	return err
}

// countSome counts a piece of a mail.box, and says whether there is more.
func (s *Service) countSome(ctx context.Context, b *box) (more bool, err error) {
	c := &b.census
	var sum tally
	err = s.store.Update(ctx, note.System, []note.DatabaseID{b.id}, func(tx *store.Tx) error {
		w, err := tx.Database(b.id)
		if err != nil {
			return err
		}
		if c.at == c.end {
			return nil
		}
		var ids []note.ID
		err = w.Notes(c.at, func(id note.ID, _ *layout.Note) bool {
			if id < c.end {
				ids = append(ids, id)
			}
			return id < c.end && len(ids) < censusStep
		})
		if err != nil {
			return err
		}
		for _, id := range ids {
			e, err := load(&w.Reader, id)
			if err != nil {
				continue // the router says so
			}
			sum = sum.plus(e.tally())
		}
		// Nothing was written, so nothing can fail behind this.
		if more = len(ids) == censusStep; more {
			c.at = ids[len(ids)-1] + 1
		} else if !b.replicated() {
			c.at = c.end
			s.stat.uncounted.Add(-1)
		} else if len(ids) > 0 {
			c.at = ids[len(ids)-1] + 1
		}
		return nil
	})
	if err == nil {
		s.moves(b.id, sum)
	}
	return more, err
}

// countAll counts what is left.
func (s *Service) countAll(ctx context.Context) {
	for _, b := range s.boxes() {
		for more := true; more && ctx.Err() == nil; {
			var err error
			if more, err = s.countSome(ctx, b); err != nil && !errors.Is(err, store.ErrClosed) && ctx.Err() == nil {
				s.env.Log.Error("mail: messages cannot be counted", "database", b.id.String(), "err", err)
			}
		}
	}
}
