package mailbox

import (
	"context"
	"errors"
	"slices"
	"time"

	"doublet/env"
	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

// Timetable has the next time at which a task has something to do in each mail file. It learns the times from the mail
// files, at first from all and then from those that change, so a restart or another primary loses none. It has one user
// at a time.
type Timetable struct {
	store  *store.Store
	clock  env.Clock
	cursor store.Cursor
	begun  bool
	next   map[note.DatabaseID]time.Time // whether the mail file is led here or not
}

// lookAgain is the time after which a mail file that cannot be read is due: a damaged one is not to fill the log.
const lookAgain = 10 * time.Minute

// NewTimetable returns an empty timetable for the mail files of a store.
func NewTimetable(e *env.Env, s *store.Store) *Timetable {
	return &Timetable{store: s, clock: e.Clock, next: map[note.DatabaseID]time.Time{}}
}

// Look returns the next time at which there is something to do in a mail file. some is false if there is nothing.
type Look func(ctx context.Context, db note.DatabaseID) (at time.Time, some bool, err error)

// Run looks at the mail files that have changed since the last call, calls work for those that are due and that this
// server leads, and looks at them again. It returns the errors of all of them together. A mail file for which look
// fails is due in ten minutes, or when it is in service again; one that is not there, or not all of whose notes are, is
// looked at when it changes.
func (t *Timetable) Run(ctx context.Context, look Look,
	work func(ctx context.Context, due []note.DatabaseID, now time.Time) error) error {
	changed, err := t.changed()
	if err != nil {
		return err
	}
	errs := t.look(ctx, changed, look)
	now := t.clock.Now()
	var due []note.DatabaseID
	for db, at := range t.next {
		if at.After(now) || !t.store.Leads(db) {
			continue
		}
		if info, err := t.store.Info(db); err == nil && info.State == layout.InService {
			due = append(due, db)
		}
	}
	slices.Sort(due)
	if len(due) > 0 && ctx.Err() == nil {
		errs = append(errs, work(ctx, due, now))
		errs = append(errs, t.look(ctx, due, look)...)
	}
	return errors.Join(append(errs, ctx.Err())...)
}

func (t *Timetable) look(ctx context.Context, list []note.DatabaseID, look Look) (errs []error) {
	for _, db := range list {
		at, some, err := look(ctx, db)
		switch {
		case errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrIncomplete), err == nil && !some:
			delete(t.next, db)
		case errors.Is(err, store.ErrOutOfService):
			t.next[db] = time.Time{}
		case err != nil:
			t.next[db] = t.clock.Now().Add(lookAgain)
			errs = append(errs, err)
		default:
			t.next[db] = at
		}
	}
	return errs
}

// changed returns the mail files that have changed since the last call, and databases that are gone: at first, and if
// the feed was cut meanwhile, all mail files.
func (t *Timetable) changed() (list []note.DatabaseID, err error) {
	if t.begun {
		seen := map[note.DatabaseID]bool{}
		next, err := t.store.Feed(t.cursor, func(c store.Change) bool {
			seen[c.Database] = true
			return true
		})
		if err == nil {
			t.cursor = next
			for db := range seen {
				if info, err := t.store.Info(db); err != nil || info.Kind == Kind {
					list = append(list, db)
				}
			}
			return list, nil
		}
		if !errors.Is(err, store.ErrFeedCut) {
			return nil, err
		}
	}
	t.cursor = t.store.Now()
	err = t.store.Infos(func(i *layout.Info) {
		if i.Kind == Kind {
			list = append(list, i.ID)
		}
	})
	t.begun = err == nil
	return list, err
}
