package admin

import (
	"context"
	"errors"
	"fmt"

	"doublet/mail/queue"
	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
	"doublet/store/view"
)

// Updater refreshes user-defined views after changes, so that opening a view is fast. It is Domino's Update task. It
// reads the store's feed from the time of its start. A view that it misses, after a restart or a cut of the feed, is
// refreshed when it is opened, as every lazy view is. Updater skips mail files and queues, because their lists are
// updated with each write.
type Updater struct {
	s      *store.Store
	cursor store.Cursor
	kinds  map[note.DatabaseID]bool // whether a database may hold views
	views  map[note.DatabaseID]map[note.ID]bool
}

// NewUpdater returns an Updater that starts at the current end of the feed.
func NewUpdater(s *store.Store) *Updater {
	return &Updater{s: s, cursor: s.Now(), kinds: map[note.DatabaseID]bool{},
		views: map[note.DatabaseID]map[note.ID]bool{}}
}

// updateChanges is the maximum number of changes that Run processes at a time.
const updateChanges = 10_000

// Run refreshes the views of changed databases. A view that fails does not stop the others.
func (u *Updater) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		changed := map[note.DatabaseID][]note.ID{}
		n := 0
		next, err := u.s.Feed(u.cursor, func(c store.Change) bool {
			n++
			if u.holdsViews(c.Database) {
				changed[c.Database] = append(changed[c.Database], c.Note)
			}
			return n < updateChanges
		})
		if errors.Is(err, store.ErrFeedCut) {
			u.cursor = u.s.Now()
			return nil
		}
		if err != nil {
			return fmt.Errorf("update: feed: %w", err)
		}
		u.cursor = next
		if n == 0 {
			return nil
		}
		var errs []error
		for db, notes := range changed {
			errs = append(errs, u.refresh(ctx, db, notes))
		}
		if err := errors.Join(errs...); err != nil {
			return err
		}
	}
	return nil
}

// mayHoldViews reports whether a database may hold user-defined views.
func mayHoldViews(i *layout.Info) bool { return i.Kind != mailbox.Kind && i.Kind != queue.Kind }

func (u *Updater) holdsViews(db note.DatabaseID) bool {
	may, known := u.kinds[db]
	if !known {
		info, err := u.s.Info(db)
		may = err == nil && mayHoldViews(&info)
		if err == nil {
			u.kinds[db] = may
		}
	}
	return may
}

// changedViews adds views among the changed notes, and removes those that no longer exist.
func changedViews(r *store.Reader, notes []note.ID, views map[note.ID]bool) {
	for _, id := range notes {
		n, err := r.Note(id)
		if err == nil && n.Class == note.Design {
			views[id] = true
		} else if errors.Is(err, store.ErrNotFound) {
			delete(views, id)
		}
	}
}

// allViews adds the views of a database.
func allViews(ctx context.Context, r *store.Reader, views map[note.ID]bool) error {
	return r.Notes(1, func(id note.ID, n *layout.Note) bool {
		if n.Class == note.Design {
			views[id] = true
		}
		return ctx.Err() == nil
	})
}

// refresh finds the views of a database, the first time by reading all notes, later among the changed notes. It then
// refreshes them.
func (u *Updater) refresh(ctx context.Context, db note.DatabaseID, notes []note.ID) error {
	views, known := u.views[db]
	if !known {
		views = map[note.ID]bool{}
	}
	err := u.s.Read(ctx, note.System, db, func(r *store.Reader) error {
		if known {
			changedViews(r, notes, views)
			return nil
		}
		return allViews(ctx, r, views)
	})
	switch {
	case errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrOutOfService):
		delete(u.views, db)
		delete(u.kinds, db)
		return nil
	case err != nil:
		return fmt.Errorf("update: database %s: %w", db, err)
	}
	u.views[db] = views
	var errs []error
	for id := range views {
		v, err := view.Open(u.s, db, id)
		if err == nil {
			err = v.Refresh(ctx)
		}
		if err != nil && !errors.Is(err, view.ErrDefinition) && !errors.Is(err, store.ErrNotFound) {
			errs = append(errs, fmt.Errorf("update: database %s view %d: %w", db, id, err))
		}
	}
	return errors.Join(errs...)
}
