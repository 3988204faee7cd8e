package search

import (
	"context"
	"errors"
	"sync"

	"doublet/note"
	"doublet/search/index"
	"doublet/store"
)

// merges merges the segments of an index, in a goroutine of its own.
type merges struct {
	s *Service
	x *index.Index
	// more is signaled when a database is added.
	more chan struct{}

	mu        sync.Mutex
	mergeable map[note.DatabaseID]bool // databases that may have segments to merge
}

// add adds databases to those that may have segments to merge.
func (m *merges) add(list ...note.DatabaseID) {
	if len(list) == 0 {
		return
	}
	m.mu.Lock()
	for _, db := range list {
		m.mergeable[db] = true
	}
	m.mu.Unlock()
	signal(m.more)
}

func (m *merges) take() (note.DatabaseID, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for db := range m.mergeable {
		delete(m.mergeable, db)
		return db, true
	}
	return 0, false
}

// run merges small segments into larger ones.
func (m *merges) run(ctx context.Context) error {
	for ctx.Err() == nil {
		db, ok := m.take()
		if !ok {
			select {
			case <-m.more:
			case <-ctx.Done():
			}
			continue
		}
		if err := m.one(ctx, db); err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (m *merges) one(ctx context.Context, db note.DatabaseID) error {
	begun := m.s.env.Clock.Now()
	pause := func() error {
		m.s.pace(ctx, begun, m.s.opt.Share)
		begun = m.s.env.Clock.Now()
		return ctx.Err()
	}
	var unread error
	alive := func(ids []note.ID) ([]bool, error) {
		out := make([]bool, len(ids))
		unread = m.s.store.Read(ctx, note.System, db, func(r *store.Reader) error {
			for i, id := range ids {
				_, err := r.Row(id)
				switch {
				case errors.Is(err, store.ErrDamaged):
					m.s.log.Warn("search: cannot read a note", "database", db.String(), "note", uint64(id), "err", err)
					out[i] = true // its words stay: the repair of the note may bring them back
				case err == nil:
					out[i] = true
				case !errors.Is(err, store.ErrNotFound):
					return err
				}
			}
			return nil
		})
		return out, unread
	}
	for _, next := range []bool{false, true} {
		for merged := true; merged; {
			var err error
			merged, err = m.x.Merge(db, next, alive, pause)
			if unread != nil && ctx.Err() == nil && !errors.Is(unread, store.ErrClosed) {
				m.s.log.Info("search: segments are not merged, the database cannot be read", "database", db.String(),
					"err", unread)
				return nil // the database was removed or is out of service
			}
			if err != nil {
				return err
			}
			if merged {
				m.s.stat.merged.Inc()
				m.s.step()
			}
			if err := pause(); err != nil {
				return err
			}
		}
	}
	return nil
}
