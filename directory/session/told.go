package session

import (
	"errors"
	"fmt"

	"doublet/note"
	"doublet/store"
)

// consumer is the name of the push subscribers' cursor in the feed.
const consumer = "Web Push"

// Now returns the position in the feed after everything durable.
func (ss *subscriptions) Now() store.Cursor { return ss.s.Now() }

// Told saves the position in the feed up to which subscribers were notified.
func (ss *subscriptions) Told(c store.Cursor) error {
	if err := ss.s.SaveCursor(consumer, c); err != nil {
		return fmt.Errorf("session: %w", err)
	}
	return nil
}

// Missed returns the databases that have changed since Told. all reports that any database may have changed.
func (ss *subscriptions) Missed() (changed map[note.DatabaseID]bool, all bool, err error) {
	c, err := ss.s.LoadCursor(consumer)
	if err == nil {
		changed = make(map[note.DatabaseID]bool)
		_, err = ss.s.Feed(c, func(c store.Change) bool {
			changed[c.Database] = true
			return true
		})
	}
	if errors.Is(err, store.ErrFeedCut) {
		return nil, true, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("session: %w", err)
	}
	return changed, false, nil
}
