package cluster

import (
	"context"
	"errors"
	"maps"
	"sync/atomic"
	"time"

	"doublet/note"
	"doublet/store"
)

// holdings is the table of the databases of which this server has a replica. It only stores records: election,
// hand-over, replication and other parts read and replace them.
type holdings struct {
	*base
	records[held]
}

// held is the record of one database with a local replica. It is immutable (see records).
type held struct {
	db    note.DatabaseID
	queue bool
	// shared means that the database has, or had, another replica with a slot.
	shared bool
	// leads means that this server is the primary.
	leads bool
	// out means that the replica cannot lead: it is damaged or was taken out of service.
	out bool
	// pos is the last position read. For a follower it is the current one.
	pos store.Position
	// reports holds the positions that mates reported for their replicas. The map is immutable too.
	reports map[note.UNID]reported
	// suspect means that the store's incarnation has changed since the replica was complete. Numbers that it assigned
	// may then be known elsewhere and not here. It remains set until the primary has begun a new term.
	suspect bool
	// lostNumbers means that a mate has numbers of this server's term that are lost here.
	lostNumbers bool
	// orphaned is the time since which the database has had no live primary; zero while it has one.
	orphaned time.Time
	// busy means that the primary is being moved.
	busy bool
	// competed means that this server led while a surviving primary did too, and has not stepped down yet.
	competed bool
	// State per term, reset when this server stops leading. yielded[m] is the highest MODSEQ that the competing primary
	// m had assigned when it stepped down. outlived[m] is the incarnation of m for which outlive has already advanced
	// our counters.
	yielded  map[note.UNID]note.ModSeq
	outlived map[note.UNID]uint64
	// route is the server that receives unnumbered changes: the primary; zero: all mates.
	route note.UNID
	// users counts the users that have the database open here. All copies of the record share the counter.
	users *atomic.Int64
	// stays is the end of the pause after a failed move. Until then neither Homeward nor an open moves the database.
	stays time.Time
}

// reported is a position that a mate reported at the time at. If at is zero, the mate must report again.
type reported struct {
	report
	at time.Time
	// good is the last position that the mate reported while it had not lost data.
	good store.Position
}

// filling reports whether the mate's replica was never complete. A person who opened the database there would wait
// until all of it has arrived.
func (r *reported) filling() bool {
	return r.missing || !r.at.IsZero() && (r.pos.Last == 0 || r.pos.Partial)
}

// lead sets whether this server leads. If not, it resets the state per term, because a later term of this server may be
// on another line.
func (h *held) lead(yes bool) {
	if h.leads = yes; yes {
		h.competed = false
	} else {
		h.yielded, h.outlived = nil, nil
	}
}

// heard records a mate's report on its replica.
func (h *held) heard(mate note.UNID, r reported) { h.reports = with(h.reports, mate, r) }

// with returns a copy of m with m[k] = v.
func with[K comparable, V any](m map[K]V, k K, v V) map[K]V {
	if m = maps.Clone(m); m == nil {
		m = map[K]V{}
	}
	m[k] = v
	return m
}

// begun reports whether the replica is a follower and was never complete.
func (h *held) begun() bool {
	return h.shared && !h.leads && (h.pos.Last == 0 || h.pos.Partial && h.pos.Complete == 0)
}

// complete reports whether the replica was complete once, so that its data is consistent.
func (h *held) complete() bool {
	return !h.shared || h.leads || h.pos.Last != 0 && !h.pos.Partial
}

// inUse reports whether a user has the database open here.
func (h *held) inUse() bool { return h.users.Load() > 0 }

// homeless reports whether the database has no live primary.
func (h *held) homeless() bool { return !h.leads && !h.orphaned.IsZero() }

// challenged reports whether a mate reported a later line than this server's.
func (h *held) challenged() bool {
	own := lineOf(&h.pos.Ledger)
	for _, r := range h.reports {
		if own.before(lineOf(&r.pos.Ledger)) {
			return true
		}
	}
	return false
}

// upToDate reports whether a mate's replica is known to have the whole ledger of ours.
func (h *held) upToDate(mate note.UNID) bool {
	r, ok := h.reports[mate]
	return ok && !r.missing && !r.out && !behind(&r.pos.Ledger, &h.pos.Ledger)
}

// take sets busy. It returns false if busy was set already.
func (s *holdings) take(db note.DatabaseID) (ok bool) {
	s.update(db, func(h *held) { ok, h.busy = !h.busy, true })
	return ok
}

func (s *holdings) release(db note.DatabaseID) {
	s.update(db, func(h *held) { h.busy = false })
}

// forget invalidates all reports of a mate, which must report again.
func (s *holdings) forget(mate note.UNID) {
	for h := range s.all() {
		if _, ok := h.reports[mate]; ok {
			s.update(h.db, func(h *held) {
				h.heard(mate, reported{good: h.reports[mate].good})
			})
		}
	}
}

// position reads the position of a database from the store.
func (s *holdings) position(ctx context.Context, db note.DatabaseID) (store.Position, error) {
	c, err := s.store.Current(ctx, db)
	return c.Position, err
}

// refresh updates the record after the database has changed here.
func (s *holdings) refresh(ctx context.Context, db note.DatabaseID) (store.Position, error) {
	pos, err := s.position(ctx, db)
	if err != nil {
		return pos, err
	}
	leads := s.store.Leads(db)
	s.update(db, func(h *held) {
		h.pos, h.shared = pos, pos.Shared
		h.lead(leads)
	})
	return pos, nil
}

// hold adds a database to the table or updates its record.
func (s *holdings) hold(ctx context.Context, e *Entry) error {
	pos, err := s.position(ctx, e.ID)
	out := errors.Is(err, store.ErrOutOfService) || errors.Is(err, store.ErrDamaged)
	if err != nil && !out {
		return err
	}
	mine, _ := e.On(s.self)
	leads, suspect := s.store.Leads(e.ID), s.suspects(&mine)
	s.mu.Lock()
	defer s.mu.Unlock()
	next := held{db: e.ID, queue: e.Queue, users: &atomic.Int64{}, leads: leads}
	if have := s.by[e.ID]; have != nil {
		next = *have
		next.lead(leads)
	}
	next.out, next.pos, next.shared, next.suspect = out, pos, pos.Shared, suspect
	s.set(e.ID, &next)
	return nil
}

// suspects reports whether the local replica was complete in another incarnation of the store.
func (s *holdings) suspects(mine *Replica) bool {
	return mine.Incarnation != 0 && mine.Incarnation != s.store.Incarnation()
}
