package cluster

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"doublet/bus"
	"doublet/directory"
	"doublet/env"
	"doublet/note"
	"doublet/replica"
	"doublet/store"
	"doublet/store/layout"
)

// base holds settings, external services, statistics and signals that every part uses. Only New sets its fields.
type base struct {
	opt   Options
	env   *env.Env
	store *store.Store
	bus   bus.Bus
	reps  *replica.Service
	self  note.UNID
	// boot is a random number that differs each time the process starts.
	boot  uint64
	start time.Time
	stat  *statistics
	// wake fires when a Decide is due.
	wake signal
	// recount means that databases may have been added or removed: the next Decide compares the holdings with the store
	// and the catalogue.
	recount atomic.Bool
	awake   awake
}

func (b *base) now() time.Time { return b.env.Clock.Now() }

func (b *base) log(level slog.Level, text string, args ...any) {
	b.env.Log.Log(context.Background(), level, "cluster: "+text, args...)
}

// limited returns ctx with the timeout of a request.
func (b *base) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, b.opt.Timeout)
}

// within returns ctx with a limit on the server's clock. After it, the cause of the cancellation is cause.
func (b *base) within(ctx context.Context, limit time.Duration, cause error) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := b.env.Clock.AfterFunc(limit, func() { cancel(cause) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// clustered reports whether a database takes part in the cluster. Some databases are local to each server.
func (b *base) clustered(i *layout.Info) bool {
	return i.Kind != replica.Kind && (b.opt.Local == nil || !b.opt.Local(i))
}

// core adds the shared registers to base. Each register has its own lock and calls no other part while it holds it.
type core struct {
	*base
	members   *membership
	catalogue *catalogue
	holdings  *holdings
	links     *links
	places    *placeCache
}

// ask sends a request to a mate. If the mate does not answer, the error is errMate.
func (c *core) ask(ctx context.Context, to note.UNID, verb string, body []byte) ([]byte, error) {
	return c.askWithin(ctx, c.opt.Timeout, to, verb, body)
}

// askWithin works like ask, but with the given timeout.
func (c *core) askWithin(
	ctx context.Context, limit time.Duration, to note.UNID, verb string, body []byte,
) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	answer, err := c.bus.Request(ctx, to, verb, body)
	if err != nil && !errors.Is(err, bus.ErrRefused) {
		return nil, fmt.Errorf("%w: %s: %w", errMate, c.name(to), err)
	}
	return answer, err
}

// name returns the name of a server, or its id if it is not a member.
func (c *core) name(id note.UNID) string { return c.members.view().name(id) }

// leadsNow reports whether this server is the primary of a database.
func (c *core) leadsNow(db note.DatabaseID) bool {
	h := c.holdings.get(db)
	return h != nil && h.leads
}

// touch queues a database for replication to a mate, changed or not.
func (c *core) touch(mate note.UNID, h *held) {
	if l := c.links.get(mate); l != nil {
		l.replicator(h.db).touch(h.db, h.queue)
	}
}

// touchAll queues a database for every mate that has a replica.
func (c *core) touchAll(db note.DatabaseID) {
	h, e := c.holdings.get(db), c.catalogue.get(db)
	if h == nil || e == nil {
		return
	}
	for _, r := range e.Replicas {
		c.touch(r.Server, h)
	}
}

// mayReplicate returns an error for a server that may not replicate a database.
func (c *core) mayReplicate(from note.UNID, db note.DatabaseID) error {
	if _, ok := c.members.view().members[from]; !ok {
		return bus.Refuse(codeDenied, ErrNotMember.Error())
	}
	if _, on := c.catalogue.get(db).on(from); on {
		return nil
	}
	if c.opt.everywhere(db) {
		return nil // a member whose entry has not arrived yet
	}
	return bus.Refuse(codeDenied, "the server has no replica of database "+db.String())
}

// isDirectory reports whether a database is one of the two directories that every member needs.
func isDirectory(db note.DatabaseID) bool { return db == ID || db == directory.ID }

// records is a table of records by database with its own lock. A record in the table is immutable: a change replaces it
// by a copy. So readers need no lock to read a record.
type records[T any] struct {
	mu sync.Mutex
	by map[note.DatabaseID]*T
	// order lists the databases in ascending order. It is nil after one was added or removed.
	order []note.DatabaseID
}

// get returns the record of a database, nil if there is none.
func (r *records[T]) get(db note.DatabaseID) *T {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.by[db]
}

// put adds or replaces a record.
func (r *records[T]) put(db note.DatabaseID, x *T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.set(db, x)
}

func (r *records[T]) set(db note.DatabaseID, x *T) {
	if r.by[db] == nil {
		r.order = nil
	}
	if r.by == nil {
		r.by = make(map[note.DatabaseID]*T)
	}
	r.by[db] = x
}

// update replaces a record by a copy that fn has changed. It does nothing if there is no record. fn runs under the lock
// of the table, so it must only access its argument and must not lock anything.
func (r *records[T]) update(db note.DatabaseID, fn func(*T)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if x := r.by[db]; x != nil {
		next := *x
		fn(&next)
		r.by[db] = &next
	}
}

// drop removes a record.
func (r *records[T]) drop(db note.DatabaseID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.by[db] != nil {
		delete(r.by, db)
		r.order = nil
	}
}

// ids lists the databases in ascending order. Callers must not change the list.
func (r *records[T]) ids() []note.DatabaseID {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.order == nil && len(r.by) > 0 {
		r.order = slices.Sorted(maps.Keys(r.by))
	}
	return r.order
}

// listAtOnce is the number of records that all reads under one lock.
const listAtOnce = 256

// all yields the records in ascending order of their databases. It may miss records that are added or removed
// meanwhile.
func (r *records[T]) all() iter.Seq[*T] {
	return func(yield func(*T) bool) {
		list := make([]*T, 0, listAtOnce)
		for ids := range slices.Chunk(r.ids(), listAtOnce) {
			list = list[:0]
			r.mu.Lock()
			for _, db := range ids {
				if x := r.by[db]; x != nil {
					list = append(list, x)
				}
			}
			r.mu.Unlock()
			for _, x := range list {
				if !yield(x) {
					return
				}
			}
		}
	}
}

// count returns the number of records, and the number for which fn returns true. fn may be nil.
func (r *records[T]) count(fn func(*T) bool) (all, some int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, x := range r.by {
		if fn != nil && fn(x) {
			some++
		}
	}
	return len(r.by), some
}

// signal wakes all goroutines that wait for a change. The zero value is ready to use.
type signal struct {
	mu sync.Mutex
	c  chan struct{}
}

func (s *signal) fire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.c != nil {
		close(s.c)
		s.c = nil
	}
}

// next returns a channel that closes when the signal fires after this call.
func (s *signal) next() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.c == nil {
		s.c = make(chan struct{})
	}
	return s.c
}
