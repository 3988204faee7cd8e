package mailbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"doublet/note"
	"doublet/store"
)

// Waker brings snoozed messages back when their time has come. Only the primary of a mail file does it. Its methods may
// not be called concurrently.
type Waker struct {
	svc   *Service
	times *Timetable
}

// NewWaker returns a Waker for all mail files.
func (s *Service) NewWaker() *Waker { return &Waker{s, NewTimetable(s.env, s.store)} }

// Run wakes the messages that are due. It is called again and again. A mail file that fails does not stop the others.
func (w *Waker) Run(ctx context.Context) error { return w.times.Run(ctx, w.look, w.wakeAll) }

// look returns the next time of a mail file.
func (w *Waker) look(ctx context.Context, db note.DatabaseID) (next time.Time, some bool, err error) {
	err = w.svc.store.Read(ctx, note.System, db, func(r *store.Reader) error {
		list, _, err := (&Reading{r: r}).snoozed()
		for _, s := range list {
			if !some || s.Until.Before(next) {
				next, some = s.Until, true
			}
		}
		return err
	})
	return next, some, err
}

func (w *Waker) wakeAll(ctx context.Context, due []note.DatabaseID, now time.Time) error {
	var errs []error
	for _, db := range due {
		if ctx.Err() == nil {
			errs = append(errs, w.wake(ctx, db, now))
		}
	}
	return errors.Join(errs...)
}

func (w *Waker) wake(ctx context.Context, db note.DatabaseID, now time.Time) error {
	res, err := w.svc.File(note.System, db).Change(ctx, 1, func(c *Changing, _ int) error {
		return c.wake(now)
	})
	if err == nil {
		err = res.Errs[0]
	}
	if errors.Is(err, store.ErrNotHome) { // another server leads it since a moment ago
		return nil
	}
	if err != nil {
		return fmt.Errorf("mailbox: wake messages of %s: %w", db, err)
	}
	return nil
}
