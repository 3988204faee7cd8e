package mailbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"doublet/env"
	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

// Waker brings snoozed messages back when their time has come. Only the primary of a mail file does it. The times are
// in the mail files: a restart, or another primary, loses none. Its methods may not be called concurrently.
type Waker struct {
	svc    *Service
	store  *store.Store
	env    *env.Env
	follow *Follower
	// next holds the next time of each mail file that has snoozed messages, whether it is led here or not.
	next map[note.DatabaseID]time.Time
}

// NewWaker returns a Waker for all mail files.
func (s *Service) NewWaker() *Waker {
	return &Waker{svc: s, store: s.store, env: s.env, follow: NewFollower(s.store),
		next: map[note.DatabaseID]time.Time{}}
}

// Run wakes the messages that are due. It is called again and again: the times of changed mail files are read anew. A
// mail file that fails does not stop the others.
func (w *Waker) Run(ctx context.Context) error {
	changed, gone, err := w.follow.Changed()
	if err != nil {
		return fmt.Errorf("mailbox: snoozed: %w", err)
	}
	for _, db := range gone {
		delete(w.next, db)
	}
	var errs []error
	for _, db := range changed {
		errs = append(errs, w.read(ctx, db))
	}
	now := w.env.Clock.Now()
	var due []note.DatabaseID
	for db, at := range w.next {
		if !at.After(now) && w.store.Leads(db) {
			due = append(due, db)
		}
	}
	for _, db := range due {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		errs = append(errs, w.wake(ctx, db, now), w.read(ctx, db))
	}
	return errors.Join(errs...)
}

// read reads the next time of a mail file.
func (w *Waker) read(ctx context.Context, db note.DatabaseID) error {
	delete(w.next, db)
	info, err := w.store.Info(db)
	if err != nil || info.State != layout.InService {
		return ignoreGone(err)
	}
	return w.store.Read(ctx, note.System, db, func(r *store.Reader) error {
		list, _, err := (&Reading{r: r}).snoozed()
		for _, s := range list {
			if at, some := w.next[db]; !some || s.Until.Before(at) {
				w.next[db] = s.Until
			}
		}
		return err
	})
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
