package session

import (
	"errors"
	"fmt"

	"doublet/note"
	"doublet/store"
)

// consumer is the name of the subscribers' cursor in the feed.
const consumer = "Web Push"

// Now is the place in the feed behind everything durable.
func (ss *subscriptions) Now() store.Cursor { return ss.s.Now() }

// Told writes down that subscribers have been told of everything before a place in the feed.
func (ss *subscriptions) Told(c store.Cursor) error {
	if err := ss.s.SaveCursor(consumer, c); err != nil {
		return fmt.Errorf("session: %w", err)
	}
	return nil
}

// Missed says which databases have changed since Told; all says that it may be any.
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
