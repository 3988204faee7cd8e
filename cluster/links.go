package cluster

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"doublet/bus"
	"doublet/note"
	"doublet/replica"
)

// links holds the replication state for each mate. A mate has a link while it is a member.
type links struct {
	*base
	job job

	mu sync.Mutex
	by map[note.UNID]*link
}

// set creates links to new members and drops those to former members.
func (s *links) set(list []Member) {
	s.mu.Lock()
	next := make(map[note.UNID]*link, len(list))
	for i := range list {
		m := &list[i]
		if m.ID == s.self {
			continue
		}
		if next[m.ID] = s.by[m.ID]; next[m.ID] == nil {
			next[m.ID] = s.link(m)
		}
	}
	dropped := s.by
	s.by = next
	s.mu.Unlock()
	for id, l := range dropped {
		if next[id] == nil {
			l.drop()
		}
	}
}

func (s *links) link(m *Member) *link {
	l := &link{objects: bus.NewCredits(bus.Grant{Requests: s.opt.Requests, Bytes: objectsAtOnce})}
	q := s.stat.mate(m)
	for w := range s.opt.Workers {
		lanes := lanes(s.opt.Workers, s.opt.Requests)
		l.reps = append(l.reps, newReplicator(m.ID, w, s.opt.Workers, lanes, s.store, s.env.Clock, s.job, q))
	}
	return l
}

// get returns the link to a mate, nil if the server is not a mate.
func (s *links) get(mate note.UNID) *link {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.by[mate]
}

// caught reports whether a mate has received everything that was waiting when it came back.
func (s *links) caught(mate note.UNID) bool {
	l := s.get(mate)
	return l != nil && l.hasCaughtUp()
}

// link holds the replication to one mate: its Cluster Replicators, the known state of its replicas, and whether it has
// caught up since it came back. Methods of the replicators may be called under the lock of the link.
type link struct {
	reps []*replicator
	// known caches the state of the mate's replicas.
	known knowledge
	// objects limits the bytes of large parts in transfer to the mate, and transfers sends each of them once.
	objects   *bus.Credits
	transfers replica.Transfers

	mu sync.Mutex
	// goal is the sequence number that the mate must reach to have caught up; 0: not determined yet.
	goal   uint64
	caught bool
}

// replicator returns the replicator that is responsible for a database.
func (l *link) replicator(db note.DatabaseID) *replicator { return l.reps[share(db, len(l.reps))] }

// restart discards the cached state of a mate that came back, and starts a comparison of all databases.
func (l *link) restart() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known.forget()
	l.goal, l.caught = 0, false
	for _, r := range l.reps {
		r.restart()
	}
}

// follow checks whether the mate has caught up: all databases have been compared since it came back, and it has
// everything up to the sequence number at the end of the comparison. now returns the current sequence number.
func (l *link) follow(now func() uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	behind := func(reached func(*replicator) bool) bool {
		return slices.ContainsFunc(l.reps, func(r *replicator) bool { return !reached(r) })
	}
	if l.caught || behind((*replicator).swept) {
		return
	}
	if l.goal == 0 {
		l.goal = now()
	}
	l.caught = !behind(func(r *replicator) bool { return r.reached(l.goal) })
}

func (l *link) hasCaughtUp() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.caught
}

// drop discards the backlog for a former mate.
func (l *link) drop() {
	for _, r := range l.reps {
		r.drop()
	}
}

// objectsAtOnce is the approximate number of bytes of large parts in transfer to a mate. The mate holds them until the
// notes that name them arrive, so this is only a part of its limit (replica.Options.Memory). A note with more bytes is
// sent alone.
const objectsAtOnce = 64 << 20

// room blocks until bytes of large parts may be sent to the mate.
func (l *link) room(ctx context.Context, bytes uint64) (give func(), err error) {
	n := int64(min(bytes, 1<<62))
	if err := l.objects.Take(ctx, n); err != nil {
		return nil, err
	}
	return func() { l.objects.Give(n) }, nil
}

// knowledge caches the state of a mate's replicas, so that a change can be sent in one request. Its size is limited. If
// an entry was dropped, the mate is asked once more.
type knowledge struct {
	mu       sync.Mutex
	now, old map[note.DatabaseID]*replica.Known
}

// maxKnown is the minimum number of databases in the cache. Two generations of this size are kept.
const maxKnown = 4096

// of returns the entry of one replica. The replicator updates it.
func (k *knowledge) of(db note.DatabaseID) *replica.Known {
	k.mu.Lock()
	defer k.mu.Unlock()
	if x := k.now[db]; x != nil {
		return x
	}
	x := k.old[db]
	if x == nil {
		x = &replica.Known{}
	}
	if k.now == nil || len(k.now) >= maxKnown {
		k.now, k.old = make(map[note.DatabaseID]*replica.Known), k.now
	}
	k.now[db] = x
	return x
}

func (k *knowledge) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.now, k.old = nil, nil
}

// waiting describes the backlog for a mate.
type waiting struct {
	databases int
	// lag is the time for which the oldest database has waited. trouble is the last error.
	lag     time.Duration
	trouble string
}

// state returns the backlog for the mate.
func (l *link) state(now time.Time) (w waiting) {
	for _, r := range l.reps {
		databases, oldest, trouble := r.state()
		w.databases += databases
		if databases > 0 {
			w.lag = max(w.lag, now.Sub(oldest))
		}
		w.trouble = cmp.Or(trouble, w.trouble)
	}
	return w
}
