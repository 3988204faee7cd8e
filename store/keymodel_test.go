package store_test

import (
	"context"
	"errors"

	"doublet/note"
	"doublet/store"
)

// meant returns the databases that a message is said to be for. The update may be in another one.
func (m *model) meant(d *modelDB) []note.DatabaseID {
	switch {
	case !m.keyed:
		return nil
	case m.rng.IntN(2) == 0:
		return []note.DatabaseID{d.id}
	}
	return []note.DatabaseID{m.dbs[0].id, m.dbs[1].id}[:m.rng.IntN(3)]
}

// rekey gives a database a key of its own, changes its wrapping or takes it away; at times not to the end.
func (m *model) rekey(d *modelDB) {
	store.KeyFile(m.t, m.f.Env, "own")
	info, err := m.s.Info(d.id)
	m.must(err)
	switch {
	case info.Key == nil || m.rng.IntN(3) == 0:
		m.must(m.s.SetKey(d.id, "own"))
	case m.rng.IntN(2) == 0:
		m.must(m.s.DropKey(d.id))
	default:
		m.must(m.s.LockDatabase(d.id))
		if err := m.s.Read(m.ctx, note.System, d.id, func(*store.Reader) error { return nil }); !errors.Is(err,
			store.ErrOutOfService) {
			m.t.Errorf("a locked database was read: %v", err)
		}
		m.must(m.s.UnlockDatabase(d.id, ""))
	}
	ctx, cancel := context.WithCancel(m.ctx)
	defer cancel()
	half := m.rng.IntN(3) == 0
	err = m.s.Settle(ctx, d.id, func(uint64) {
		if half {
			cancel()
		}
	})
	if err != nil && !errors.Is(err, context.Canceled) {
		m.t.Fatal(err)
	}
}

// rekey gives a replica a key of its own, or takes it away. The other replicas do not change.
func (m *clusterModel) rekey(x *clusterNode) {
	store.KeyFile(m.t, x.f.Env, "own")
	info, err := x.s.Info(m.db)
	m.must(err)
	if info.Key == nil || info.Key.Leaving {
		m.must(x.s.SetKey(m.db, "own"))
	} else {
		m.must(x.s.DropKey(m.db))
	}
	if m.rng.IntN(3) > 0 {
		m.must(x.s.Settle(m.ctx, m.db, nil))
	}
}
