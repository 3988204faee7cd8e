package mailbox

import (
	"errors"

	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

// Follower lists the mail files that have changed since the last look, for a task. It has one user at a time.
type Follower struct {
	store  *store.Store
	cursor store.Cursor
	begun  bool
}

// NewFollower returns a Follower of all mail files of a store.
func NewFollower(s *store.Store) *Follower { return &Follower{store: s} }

// Changed returns the mail files that have changed since the last call: at first, and if the feed was cut meanwhile,
// all of them. gone are databases that changed and are no mail files, or no more.
func (f *Follower) Changed() (changed, gone []note.DatabaseID, err error) {
	if f.begun {
		seen := map[note.DatabaseID]bool{}
		next, err := f.store.Feed(f.cursor, func(c store.Change) bool {
			seen[c.Database] = true
			return true
		})
		if err == nil {
			f.cursor = next
			for db := range seen {
				if info, err := f.store.Info(db); err == nil && info.Kind == Kind {
					changed = append(changed, db)
				} else {
					gone = append(gone, db)
				}
			}
			return changed, gone, nil
		}
		if !errors.Is(err, store.ErrFeedCut) {
			return nil, nil, err
		}
	}
	f.cursor = f.store.Now()
	err = f.store.Infos(func(i *layout.Info) {
		if i.Kind == Kind {
			changed = append(changed, i.ID)
		}
	})
	f.begun = err == nil
	return changed, nil, err
}
