package replica

import (
	"context"
	"errors"
	"sync"
	"time"

	"doublet/env"
	"doublet/mailbox"
	"doublet/note"
	"doublet/stat"
	"doublet/store"
)

// Options holds the settings of a Service. Zero values take the defaults.
type Options struct {
	// Memory limits the bytes of received objects that no note has used yet (256 MB). An object may be at most half as
	// large.
	Memory int64
	// MaxMessage is the maximum size of a message from a person, in bytes (50 MB).
	MaxMessage uint64
	Stats      *stat.Tree
}

// Service implements replication at one server. Its Sides share it.
type Service struct {
	s    *store.Store
	mail *mailbox.Service
	env  *env.Env
	opt  Options
	hist history
	stage
	stat statistics
	came came

	peersMu sync.Mutex
	peers   map[recordKey]time.Time
}

// New returns the Service for a store. It uses m to parse mail from people in the same way as incoming mail.
func New(s *store.Store, m *mailbox.Service, e *env.Env, o Options) *Service {
	if o.Memory <= 0 {
		o.Memory = 256 << 20
	}
	if o.MaxMessage == 0 {
		o.MaxMessage = 50 << 20
	}
	x := &Service{s: s, mail: m, env: e, opt: o, hist: history{s: s}, peers: map[recordKey]time.Time{}}
	x.stage = stage{env: e, most: o.Memory, parts: map[stageKey]*staged{}}
	x.stat.init(o.Stats)
	return x
}

// As returns the Side of the local replicas for the server itself or for a person. A person sees and changes only what
// the access lists grant.
func (s *Service) As(who note.Who) *Local { return &Local{s, who} }

// History lists the records of other replicas.
func (s *Service) History(ctx context.Context) ([]Record, error) { return s.hist.list(ctx) }

// Local is a Side on this server, for one person or for the server itself.
type Local struct {
	*Service
	who note.Who
}

var _ Side = (*Local)(nil)

// read calls fn with a snapshot of the database and the caller's grant.
func (l *Local) read(ctx context.Context, db note.DatabaseID, fn func(*store.Reader, *grant) error) error {
	if db == ID {
		return ErrLocalOnly
	}
	return l.s.Read(ctx, note.System, db, func(r *store.Reader) error {
		g := grantOf(&l.who, r)
		if g.may() == 0 {
			return store.ErrDenied
		}
		return fn(r, g)
	})
}

// current returns the state of the database and the caller's rights. For the server itself it reads no rows.
func (l *Local) current(ctx context.Context, db note.DatabaseID) (c store.Current, may May, err error) {
	if l.who.System && db != ID {
		c, err = l.s.Current(ctx, db)
		return c, MayPull | MayPush, err
	}
	err = l.read(ctx, db, func(r *store.Reader, g *grant) error {
		c, may = r.Current(), g.may()
		return nil
	})
	return c, may, err
}

// mayPush returns store.ErrDenied if the caller may not change the database.
func (l *Local) mayPush(ctx context.Context, db note.DatabaseID) error {
	_, may, err := l.current(ctx, db)
	if err == nil && may&MayPush == 0 {
		err = store.ErrDenied
	}
	return err
}

func (l *Local) peerOf(r *store.Reader) Peer {
	return Peer{Store: l.s.Incarnation(), Replica: r.Info().Replica}
}

// Hello implements Side.
func (l *Local) Hello(ctx context.Context, db note.DatabaseID, by Peer) (Greeting, error) {
	now, may, err := l.current(ctx, db)
	if err != nil {
		return Greeting{}, err
	}
	info, c := now.Info, &now.Counters
	g := Greeting{
		Version: Version, Oldest: Oldest, Peer: Peer{Store: l.s.Incarnation(), Replica: info.Replica},
		Title: info.Title, Kind: info.Kind, Owner: info.Owner, Shared: c.Ledger.Shared, Leads: l.s.Leads(db),
		Position: now.Position, Seq: c.Seq, Notes: c.Notes, May: may,
	}
	if by.Replica == 0 {
		return g, nil
	}
	rec, known, err := l.hist.of(ctx, db, by.Replica)
	if err != nil || !known {
		return g, err
	}
	g.Seen = store.Cursor{Incarnation: rec.Store, Seq: rec.Received}
	if g.Select = rec.Select; rec.Keeps {
		g.Given = Given{Store: rec.Store, Seq: rec.Given}
	}
	for _, a := range rec.Aside {
		if !a.UNID.IsZero() {
			g.Aside = append(g.Aside, a.UNID)
		}
	}
	return g, nil
}

// resolve converts a position in another incarnation of the store into one in this incarnation, at most last. For an
// unknown incarnation it returns 0.
func (l *Local) resolve(c store.Cursor, last uint64) uint64 {
	if c.Incarnation == l.s.Incarnation() {
		return c.Seq
	}
	// The feed knows where the incarnations diverged. If no change follows that point, the feed returns its own end.
	at, err := l.s.Feed(c, func(store.Change) bool { return false })
	if err != nil || at.Incarnation != l.s.Incarnation() {
		return 0
	}
	return min(at.Seq, last)
}

// Mark implements Side.
func (l *Local) Mark(ctx context.Context, db note.DatabaseID, m Mark) error {
	if m.Peer.Replica == 0 {
		return formatError("a mark without a replica")
	}
	now, _, err := l.current(ctx, db)
	if err != nil {
		return err
	}
	if m.Given > now.Counters.Seq {
		return formatError("a mark at %d, the database is at %d", m.Given, now.Counters.Seq)
	}
	shared := now.Counters.Ledger.Shared
	var passed uint64
	err = l.hist.set(ctx, db, m.Peer.Replica, &l.who, l.env.Clock.Now(), !shared, func(x *Record) {
		if x.Store != m.Peer.Store && m.Received == 0 {
			x.Received = 0 // a new incarnation: the old progress is void
		}
		x.Store = m.Peer.Store
		if m.Received > 0 {
			x.Received = m.Received
		}
		if m.Gives {
			x.Given = m.Given
		}
		x.Keeps = x.Keeps || m.Knows || m.Gives
		passed = x.Given
		x.Select = m.Select
		if m.Name != "" {
			x.Name = m.Name
		}
		if m.Aside != nil {
			x.Aside = m.Aside
		}
	})
	if err != nil || !m.Knows && !m.Gives || shared && !l.due(db, m.Peer.Replica) {
		return err
	}
	// Deletions are kept as long as some known replica has not received them.
	err = l.s.Replicate(ctx, db, func(w *store.Writer) error {
		err := w.Peers.Set(m.Peer.Replica, passed)
		if err == nil && m.Met.Last != 0 {
			err = w.Peers.Meet(m.Peer.Replica, m.Met)
		}
		return err
	})
	if err == nil && shared {
		l.committed(db, m.Peer.Replica)
	}
	return err
}

// peersEvery is the minimum time between two commits of a mate's progress. As a result deletions are kept a little
// longer, and what a lost replica may have shown begins a little earlier. But a change seldom costs a second commit,
// also in a database that changes a few times a minute.
const peersEvery = time.Minute

// due reports if the progress of a mate is to be committed.
func (s *Service) due(db note.DatabaseID, replica note.ReplicaID) bool {
	s.peersMu.Lock()
	defer s.peersMu.Unlock()
	at, known := s.peers[recordKey{db, replica}]
	return !known || s.env.Clock.Now().Sub(at) >= peersEvery
}

// committed notes that the progress of a mate was committed.
func (s *Service) committed(db note.DatabaseID, replica note.ReplicaID) {
	s.peersMu.Lock()
	defer s.peersMu.Unlock()
	if len(s.peers) >= maxDue {
		clear(s.peers)
	}
	s.peers[recordKey{db, replica}] = s.env.Clock.Now()
}

// maxDue limits the number of entries in Service.peers.
const maxDue = 100_000

// Forget deletes the record of another replica; deletions are no longer kept for it.
func (s *Service) Forget(ctx context.Context, db note.DatabaseID, replica note.ReplicaID) error {
	return s.hist.drop(ctx, db, replica)
}

// statistics holds the counters of all replication of the server, named as in Domino.
type statistics struct {
	added, updated, deleted, failed, successful, refused, sent, received, objects, ahead, restored *stat.Counter
}

func (s *statistics) init(t *stat.Tree) {
	s.added = t.Counter("Replica.Docs.Added", "notes that replication has added here")
	s.updated = t.Counter("Replica.Docs.Updated", "notes that replication has changed here")
	s.deleted = t.Counter("Replica.Docs.Deleted", "notes that replication has deleted here")
	s.failed = t.Counter("Replica.Failed", "replications that failed")
	s.successful = t.Counter("Replica.Successful", "replications that succeeded")
	s.refused = t.Counter("Replica.Docs.Refused", "notes set aside, because they could not be read or applied")
	s.sent = t.Counter("Replica.Docs.Sent", "notes sent to other replicas")
	s.received = t.Counter("Replica.Objects.Received", "objects received from other replicas")
	s.objects = t.Counter("Replica.Objects.ReceivedBytes", "bytes of objects received from other replicas")
	s.ahead = t.Counter("Replica.Clock.Ahead", "notes whose stamps lie more than a minute ahead of the clock")
	s.restored = t.Counter("Replica.Restored", "other replicas whose store had a new incarnation")
}

// took counts the notes applied here.
func (s *statistics) took(a *Ack) {
	s.added.Add(uint64(a.Added))
	s.updated.Add(uint64(a.Updated))
	s.deleted.Add(uint64(a.Deleted))
	s.refused.Add(uint64(len(a.Refused)))
}

// Done counts a finished replication.
func (s *Service) Done(err error) {
	switch {
	case err == nil:
		s.stat.successful.Inc()
	case !errors.Is(err, context.Canceled):
		s.stat.failed.Inc()
	}
}

// keepStaged is the time for which objects are held for the notes that name them.
const keepStaged = 10 * time.Minute
