package session

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
)

// ID is the database of a server outside any cluster. Each server has its own, created when the first session begins.
// SharedID is the database of a cluster, with a replica at every member. Once SharedID is available, the content of ID
// is moved into it.
const (
	ID       note.DatabaseID = 0x000000000000D1B6
	SharedID note.DatabaseID = 0x000000000000D1B7
)

// Shared returns the settings to create a cluster's database. The beginning or end of a session is acknowledged only
// when another member has it too.
func Shared() store.Create {
	return store.Create{ID: SharedID, Title: "Sessions", Kind: Kind, Ack: layout.AckCluster}
}

// place selects the database in use.
type place struct {
	// db is the id of the database, 0 before one is created. came reports that SharedID may have appeared, or appeared
	// again.
	db   atomic.Uint64
	came atomic.Bool
	// again is the time of the next attempt to adopt SharedID, in Unix seconds.
	again atomic.Int64
	// moving is write-locked while the database is replaced, and read-locked during every update.
	moving sync.RWMutex

	mu   sync.Mutex
	stop func() // stops watching the database
}

// Shared reports whether the sessions are those of the whole cluster.
func (b *base) Shared() bool { return b.place.id() == SharedID }

func (p *place) id() note.DatabaseID { return note.DatabaseID(p.db.Load()) }

// use switches to a database and watches it.
func (b *base) use(id note.DatabaseID) error {
	stop, err := b.s.Watch(id, b.changed)
	if err != nil {
		return fmt.Errorf("session: watch: %w", err)
	}
	b.place.unwatch()
	b.place.mu.Lock()
	b.place.stop = stop
	b.place.mu.Unlock()
	b.place.db.Store(uint64(id))
	return nil
}

func (p *place) unwatch() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stop != nil {
		p.stop()
		p.stop = nil
	}
}

// openPlace finds the existing database.
func (b *base) openPlace() error {
	_, err := b.s.Info(ID)
	switch {
	case err == nil:
		err = b.use(ID)
	case errors.Is(err, store.ErrNotFound):
		err = nil
	}
	if err != nil {
		return fmt.Errorf("session: %w", err)
	}
	b.place.came.Store(true)
	b.s.WatchInfos(func(id note.DatabaseID) {
		if id == SharedID {
			b.place.came.Store(true)
			b.changed()
		}
	})
	b.adopt(context.Background())
	return nil
}

// make creates the database of a server outside a cluster. The caller holds moving for reading.
func (b *base) make() error {
	if b.place.db.Load() != 0 {
		return nil
	}
	_, err := b.s.CreateDatabase(note.System, store.Create{ID: ID, Title: "Sessions", Kind: Kind})
	if err != nil && !errors.Is(err, store.ErrExists) {
		return fmt.Errorf("session: create: %w", err)
	}
	return b.use(ID)
}

// adopt switches to the cluster's database once it is available, and moves the content of the server's own database
// into it. Until then, and if it fails, the server's own database stays in use. The next lookup of a session retries,
// after adoptAgain.
func (b *base) adopt(ctx context.Context) {
	p := &b.place
	if !p.came.Load() || b.env.Clock.Now().Unix() < p.again.Load() || !p.moving.TryLock() {
		return
	}
	defer p.moving.Unlock()
	if !p.came.Swap(false) {
		return
	}
	info, err := b.s.Info(SharedID)
	if errors.Is(err, store.ErrNotFound) || err == nil && info.State != layout.InService {
		return // WatchInfos reports a change
	}
	if err == nil {
		err = b.moveAll(ctx)
	}
	if err == nil {
		err = b.use(SharedID)
	}
	if err != nil {
		p.again.Store(b.env.Clock.Now().Unix() + adoptAgain)
		p.came.Store(true)
		b.env.Log.Warn("sessions of the cluster are not in use yet", "error", err)
		return
	}
	b.version.Add(1)
	err = b.s.RemoveDatabase(note.System, ID)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		b.env.Log.Warn("cannot discard the sessions from before the cluster", "error", err)
	}
}

// adoptAgain is the time before a failed attempt is retried, in seconds.
const adoptAgain = 10

// moveAtOnce is the maximum number of notes in one update of moveAll.
const moveAtOnce = 500

// moveAll copies the notes of the server's own database into the cluster's.
func (b *base) moveAll(ctx context.Context) error {
	var list []store.New
	err := b.s.Read(ctx, note.System, ID, func(r *store.Reader) error {
		list = nil
		var ids []note.ID
		if err := r.Notes(0, func(id note.ID, _ *layout.Note) bool { ids = append(ids, id); return true }); err != nil {
			return err
		}
		for _, id := range ids {
			u, items, err := document(r, id)
			if errors.Is(err, store.ErrNotFound) {
				continue
			}
			if err != nil {
				return err
			}
			list = append(list, store.New{UNID: u, Content: note.Content{Items: items}})
		}
		return nil
	})
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	for err == nil && len(list) > 0 {
		n := min(len(list), moveAtOnce)
		err = b.updateIn(ctx, SharedID, func(w *store.Writer) error {
			for _, one := range list[:n] {
				if _, err := w.Create(one); err != nil && !errors.Is(err, store.ErrExists) &&
					!errors.Is(err, store.ErrGrave) {
					return err
				}
			}
			return nil
		})
		list = list[n:]
	}
	if err != nil {
		return fmt.Errorf("session: move: %w", err)
	}
	return nil
}

// read calls fn with a snapshot of the database. It does nothing if there is no database.
func (b *base) read(ctx context.Context, fn func(*store.Reader) error) error {
	for {
		id := b.place.id()
		if id == 0 {
			return nil
		}
		err := b.s.Read(ctx, note.System, id, fn)
		if errors.Is(err, store.ErrNotFound) && b.place.id() != id {
			continue // the database was just replaced
		}
		return err
	}
}

func (b *base) update(ctx context.Context, fn func(*store.Writer) error) error {
	b.adopt(ctx)
	b.place.moving.RLock()
	defer b.place.moving.RUnlock()
	if err := b.make(); err != nil {
		return err
	}
	err := b.updateIn(ctx, b.place.id(), fn)
	if err == nil {
		// Another update may still have to notify the watchers, so increase the version here too.
		b.version.Add(1)
	}
	return err
}

func (b *base) updateIn(ctx context.Context, id note.DatabaseID, fn func(*store.Writer) error) error {
	return b.s.Update(ctx, note.System, []note.DatabaseID{id}, func(tx *store.Tx) error {
		w, err := tx.Database(id)
		if err != nil {
			return err
		}
		return fn(w)
	})
}
