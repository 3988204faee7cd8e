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

// holdings is the table of the databases of which this server has a replica. It does nothing but remember:
// election, hand-over, replication and the others read it and put changed records into it.
type holdings struct {
	*base
	records[held]
}

// held is what this server knows of one database that it holds. It is immutable (see records).
type held struct {
	db    note.DatabaseID
	queue bool
	// shared says that the database has, or had, another replica with a slot.
	shared bool
	// leads says that this server is the primary.
	leads bool
	// out says that the replica cannot be led: damaged, or taken out of service.
	out bool
	// pos is the position at the last look. For a follower it is the present one.
	pos store.Position
	// reports are the positions that mates told of their replicas. The map is immutable too.
	reports map[note.UNID]reported
	// suspect says that the store's incarnation changed since the replica was complete: numbers that it
	// assigned may be known elsewhere and not here. It stays so until the primary has begun a new term.
	suspect bool
	// lostNumbers says that a mate knows numbers of this server's term that are lost here.
	lostNumbers bool
	// orphaned is since when the database has had no live primary; zero while it has one.
	orphaned time.Time
	// busy says that the primary is being moved.
	busy bool
	// competed says that this server led while another primary did that survives, and has not stepped down
	// before that one yet.
	competed bool
	// What this server did for mates while it leads; forgotten when it stops. yielded[m] is the highest
	// MODSEQ that the competing primary m had assigned when it stepped down; outlived[m] is the incarnation
	// of m whose lost replica our counters were advanced past.
	yielded  map[note.UNID]note.ModSeq
	outlived map[note.UNID]uint64
	// route is the server that unnumbered changes go to: the primary; zero: all mates.
	route note.UNID
	// users counts who has the database open here. It is the same counter in all copies of the record.
	users *atomic.Int64
	// stays is until when nobody tries again to move it where it belongs.
	stays time.Time
}

// reported is a position that a mate told, at a time; the zero time: it has to tell again.
type reported struct {
	report
	at time.Time
	// good is the last position that the mate told while it had lost nothing.
	good store.Position
}

// filling reports whether the mate's replica was never complete: to open the database there would mean to
// wait for all of it.
func (r *reported) filling() bool {
	return r.missing || !r.at.IsZero() && (r.pos.Last == 0 || r.pos.Partial)
}

// lead notes whether this server leads. What was done for mates counts for the line that was led then: the
// next time it leads, the server may be on another line.
func (h *held) lead(yes bool) {
	if h.leads = yes; yes {
		h.competed = false
	} else {
		h.yielded, h.outlived = nil, nil
	}
}

// heard takes what a mate told of its replica.
func (h *held) heard(mate note.UNID, r reported) { h.reports = with(h.reports, mate, r) }

// with returns a copy of m in which k has the value v.
func with[K comparable, V any](m map[K]V, k K, v V) map[K]V {
	if m = maps.Clone(m); m == nil {
		m = map[K]V{}
	}
	m[k] = v
	return m
}

// begun reports whether the replica follows and was never complete.
func (h *held) begun() bool {
	return h.shared && !h.leads && (h.pos.Last == 0 || h.pos.Partial && h.pos.Complete == 0)
}

// complete reports whether the replica was filled once, so that what it holds fits together.
func (h *held) complete() bool {
	return !h.shared || h.leads || h.pos.Last != 0 && !h.pos.Partial
}

// inUse reports whether somebody has the database open here.
func (h *held) inUse() bool { return h.users.Load() > 0 }

// homeless reports whether the database has no live primary.
func (h *held) homeless() bool { return !h.leads && !h.orphaned.IsZero() }

// challenged reports whether a mate told of a later primary than this server.
func (h *held) challenged() bool {
	own := lineOf(&h.pos.Ledger)
	for _, r := range h.reports {
		if own.before(lineOf(&r.pos.Ledger)) {
			return true
		}
	}
	return false
}

// upToDate reports whether a mate's replica is known to have all of the ledger that ours has.
func (h *held) upToDate(mate note.UNID) bool {
	r, ok := h.reports[mate]
	return ok && !r.missing && !r.out && !behind(&r.pos.Ledger, &h.pos.Ledger)
}

// take marks a database as one whose primary is being moved. It returns false if it is already.
func (s *holdings) take(db note.DatabaseID) (ok bool) {
	s.update(db, func(h *held) { ok, h.busy = !h.busy, true })
	return ok
}

func (s *holdings) release(db note.DatabaseID) {
	s.update(db, func(h *held) { h.busy = false })
}

// forget takes back what a mate reported of all databases: it has to tell again.
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
func (s *holdings) position(ctx context.Context, db note.DatabaseID) (pos store.Position, err error) {
	err = s.store.Read(ctx, note.System, db, func(r *store.Reader) error {
		pos = r.Position()
		return nil
	})
	return pos, err
}

// refresh takes up the position of a database after it was changed here.
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

// hold begins to look after a database, or looks at it again.
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

// suspects reports whether the replica here was complete in another incarnation of the store.
func (s *holdings) suspects(mine *Replica) bool {
	return mine.Incarnation != 0 && mine.Incarnation != s.store.Incarnation()
}
