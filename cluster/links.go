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

// links holds what replication to each mate needs. A mate has a link as long as it is a member.
type links struct {
	*base
	job job

	mu sync.Mutex
	by map[note.UNID]*link
}

// set makes links to members that have none, and drops those to servers that are members no more.
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

// get returns the link to a mate; nil if the server is no mate.
func (s *links) get(mate note.UNID) *link {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.by[mate]
}

// caught reports whether a mate has everything that waited for it when it came back.
func (s *links) caught(mate note.UNID) bool {
	l := s.get(mate)
	return l != nil && l.hasCaughtUp()
}

// link is the way of changes to one mate: its Cluster Replicators, what is remembered of its replicas, and
// how far it has caught up since it came back. Its lock may be held while a replicator is asked.
type link struct {
	reps []*replicator
	// known is what is remembered of the mate's replicas.
	known knowledge
	// objects bounds the large parts that are under way to the mate.
	objects *bus.Credits

	mu sync.Mutex
	// goal is the sequence that the mate must reach to have caught up; 0: not known yet.
	goal   uint64
	caught bool
}

// replicator returns the one that carries a database.
func (l *link) replicator(db note.DatabaseID) *replicator { return l.reps[share(db, len(l.reps))] }

// restart forgets what is known of a mate that came back, and has all databases compared with it.
func (l *link) restart() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.known.forget()
	l.goal, l.caught = 0, false
	for _, r := range l.reps {
		r.restart()
	}
}

// follow notices that the mate has caught up: all databases were compared with it since it came back, and it
// has everything up to the sequence at which that was done. now returns the present sequence.
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

// drop forgets what waits for a server that is no mate any more.
func (l *link) drop() {
	for _, r := range l.reps {
		r.drop()
	}
}

// objectsAtOnce is about how many bytes of large parts are under way to a mate. The mate holds them until the
// notes that name them arrive; this is a part of what it holds at most (replica.Options.Memory). A larger
// note goes alone.
const objectsAtOnce = 64 << 20

// room waits until so many bytes of large parts may go to the mate.
func (l *link) room(ctx context.Context, bytes uint64) (give func(), err error) {
	n := int64(min(bytes, 1<<62))
	if err := l.objects.Take(ctx, n); err != nil {
		return nil, err
	}
	return func() { l.objects.Give(n) }, nil
}

// knowledge remembers where a mate's replicas stand, so that a change needs one request to get there. It is
// bounded: where an entry was forgotten, the mate is asked once more.
type knowledge struct {
	mu       sync.Mutex
	now, old map[note.DatabaseID]*replica.Known
}

// maxKnown is how many databases are remembered at least.
const maxKnown = 4096

// of returns what is known of one replica. The replicator updates it.
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

// waiting is what waits to be sent to a mate.
type waiting struct {
	databases int
	// lag is how long the oldest has waited, trouble the last error.
	lag     time.Duration
	trouble string
}

// state returns what waits for the mate.
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
