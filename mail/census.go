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
	at, end [MaxBoxes]note.ID
}

func (c *census) counted(e *Entry) bool { return e.note < c.at[e.box] || e.note >= c.end[e.box] }

// openCensus counts the first piece of each mail.box.
func (s *Service) openCensus(ctx context.Context) error {
	for _, box := range s.boxes {
		err := s.store.Read(ctx, note.System, boxID(box), func(r *store.Reader) error {
			s.census.end[box] = r.Counters().NextNote
			return nil
		})
		if err != nil {
			return err
		}
		s.stat.uncounted.Add(1)
		if _, err := s.countSome(ctx, box); err != nil {
			return err
		}
	}
	return nil
}

// countSome counts a piece of a mail.box, and says whether there is more.
func (s *Service) countSome(ctx context.Context, box int) (more bool, err error) {
	c := &s.census
	err = s.store.Update(ctx, note.System, []note.DatabaseID{boxID(box)}, func(tx *store.Tx) error {
		w, err := tx.Database(boxID(box))
		if err != nil {
			return err
		}
		if c.at[box] == c.end[box] {
			return nil
		}
		var ids []note.ID
		err = w.Notes(c.at[box], func(id note.ID, _ *layout.Note) bool {
			if id < c.end[box] {
				ids = append(ids, id)
			}
			return id < c.end[box] && len(ids) < censusStep
		})
		if err != nil {
			return err
		}
		var sum tally
		for _, id := range ids {
			e, err := load(&w.Reader, id)
			if err != nil {
				continue // the router says so
			}
			sum = sum.plus(e.tally())
		}
		// Nothing was written, so nothing can fail behind this.
		if more = len(ids) == censusStep; more {
			c.at[box] = ids[len(ids)-1] + 1
		} else {
			c.at[box] = c.end[box]
			s.stat.uncounted.Add(-1)
		}
		s.stat.queue(sum)
		return nil
	})
	return more, err
}

// countAll counts what is left.
func (s *Service) countAll(ctx context.Context) {
	for _, box := range s.boxes {
		for more := true; more && ctx.Err() == nil; {
			var err error
			if more, err = s.countSome(ctx, box); err != nil && !errors.Is(err, store.ErrClosed) && ctx.Err() == nil {
				s.env.Log.Error("mail: messages cannot be counted", "database", boxID(box).String(), "err", err)
			}
		}
	}
}
