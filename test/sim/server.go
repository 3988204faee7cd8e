package sim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"doublet/bus"
	"doublet/bus/memory"
	"doublet/cluster"
	"doublet/directory"
	"doublet/directory/password"
	"doublet/directory/session"
	"doublet/env"
	"doublet/groupware"
	"doublet/mail/queue"
	"doublet/mail/trace"
	"doublet/mailbox"
	"doublet/note"
	"doublet/replica"
	"doublet/serve/forward"
	"doublet/serve/listen"
	"doublet/stat"
	"doublet/store"
	"doublet/store/layout"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// server is one server: its persistent state and, while it runs, the parts of its process.
type server struct {
	w      *world
	number int
	name   string
	id     note.UNID
	clock  *env.Manual
	disk   *vfs.MemFS
	boots  int
	// backup is a copy of the disk, made at the tick backupTime.
	backup     *vfs.MemFS
	backupTime int
	slow       bool
	until      int  // the tick at which it starts again, while it is down
	full       int  // the tick at which its disk gets free space again; 0: it is not full
	older      bool // it runs a version of the program without shared sessions
	joined     bool

	env   *env.Env
	fs    *env.Faults
	store *store.Store
	dir   *directory.Directory
	mail  *mailbox.Service
	bus   *memory.Bus
	node  *cluster.Node
	// carrier asks mates on behalf of the rooms above the cluster.
	carrier *forward.Service
	// browsers holds the browser sessions if the world has them.
	browsers *session.Service
	stat     *stat.Tree
	// office is the mail and the groupware of the server if the world has them.
	office *office
	// vacate is called before a database moves away from the server, if it is set.
	vacate func(note.DatabaseID) (resume func(), err error)
	// waiting is the nesting depth of await.
	waiting int
}

// browserIdle is the time after which an unused browser session ends. Uses are recorded once an hour.
const browserIdle = 16 * time.Hour

func (w *world) newServer(i int) *server {
	offset := time.Duration(w.rng.IntN(4000)-2000) * time.Millisecond
	if w.chance(15) {
		offset += time.Duration(w.rng.IntN(2)*2-1) * time.Hour
	}
	return &server{
		w: w, number: i, name: fmt.Sprintf("S%d", i+1), clock: env.NewManual(w.now.Add(offset)),
		disk: vfs.NewCrashableMem(), older: w.older,
	}
}

// floor is the free space in bytes below which a store rejects new data. A full disk here has slightly less free space,
// so that the engine's background writes still succeed.
const floor = 64 << 20

// room sets the free space of the disk.
func (s *server) room() {
	if s.full > 0 {
		s.fs.SetSpace(floor - 1)
		return
	}
	s.fs.SetSpace(1 << 40)
}

func storeOptions() store.Options {
	return store.Options{
		FloorBytes: floor, FloorPercent: -1, Ballast: -1, MemTableSize: 256 << 10, CacheSize: 2 << 20,
		LogSyncInterval: time.Nanosecond,
		Indexes: slices.Concat(directory.Indexes(), session.Indexes(), trace.Indexes(), mailbox.Indexes(),
			groupware.Indexes()),
	}
}

// boot starts the server.
func (s *server) boot() error {
	s.boots++
	e := env.Real(slog.New(&logHandler{s: s}))
	s.fs = env.WithFaults(s.disk)
	s.room()
	e.Clock, e.FS = s.clock, s.fs
	e.Rand = env.Seeded(s.w.Seed*1_000_003 + uint64(s.number)*1009 + uint64(s.boots))
	s.env, s.stat = e, stat.New(s.clock)
	var err error
	if s.store, err = store.Open(e, "data", s.options()); err != nil {
		return err
	}
	s.mail = mailbox.New(s.store, e, mailbox.Options{KeepDeleted: 24 * time.Hour})
	if s.id.IsZero() { // the first start, before there is a cluster
		s.dir, err = directory.Open(s.store, e, password.New(e, 1, 1), directory.Options{Domain: "example.com"})
		return err
	}
	s.startNode()
	s.openDirectory()
	if !s.w.browsers {
		return nil
	}
	return s.openSessions()
}

// options returns the options of the store with those of its node, which starts later.
func (s *server) options() store.Options {
	o := storeOptions()
	o.Confirm = func(ctx context.Context, ids []note.DatabaseID, seq uint64) error {
		if s.node == nil {
			return nil
		}
		return s.node.Acks.Confirm(ctx, ids, seq)
	}
	o.Admit = func(ctx context.Context, ids []note.DatabaseID) error {
		if s.node == nil {
			return nil
		}
		return s.node.Acks.Admit(ctx, ids)
	}
	return o
}

// startNode joins the cluster.
func (s *server) startNode() {
	s.bus = s.w.net.Open(s.id, bus.Grant{})
	var everywhere []store.Create
	if s.w.browsers && !s.older {
		everywhere = []store.Create{session.Shared()}
	}
	s.node = cluster.New(s.env, s.store, s.bus, replica.New(s.store, s.mail, s.env, replica.Options{Stats: s.stat}),
		cluster.Options{
			Everywhere: everywhere, Older: s.older,
			Local: func(i *layout.Info) bool {
				return i.ID == session.ID || s.older && i.Kind == session.Kind ||
					i.Kind == queue.Kind && queue.Sole(i.ID) || i.ID == queue.OutboxID || i.Kind == trace.TraceKind
			},
			Cluster: clusterName, Seeds: s.w.members(), Workers: 1 + s.number%2, Replicas: 2, Timeout: time.Hour,
			DeadAfter: 2 * time.Second,
			Vacate: func(ctx context.Context, db note.DatabaseID) (func(), error) {
				switch {
				case s.vacate != nil:
					return s.vacate(db)
				case s.office != nil:
					return s.office.mail.Vacate(ctx, db)
				}
				return func() {}, nil
			},
			Await: s.await, Stats: s.stat, Load: cluster.NewLoad(s.clock, 0),
		})
	inline := *s.env // run background work inline, because a world has only one thread
	inline.Go = func(_ string, f func()) { f() }
	s.carrier = forward.New(&inline, func() (forward.Node, bus.Bus) { return s.node.Opens, s.bus },
		listen.NewBudget(1<<20), s.stat)
}

// openSessions opens the sessions of browsers.
func (s *server) openSessions() (err error) {
	sessions := session.Options{Idle: browserIdle, Stats: s.stat}
	if !s.older {
		sessions.Mates = s.carrier.Sessions()
	}
	s.browsers, err = session.Open(s.store, s.env, []byte("the key of the domain"), sessions)
	if err == nil && !s.older {
		forward.ServeSessions(s.bus, s.browsers)
	}
	return err
}

// rebranch changes the incarnation of the store on the disk, as a restore does.
func (s *server) rebranch() error {
	s.boots++
	e := env.Real(slog.New(slog.DiscardHandler))
	e.Clock, e.FS = s.clock, env.WithFaults(s.disk)
	e.Rand = env.Seeded(s.w.Seed*1_000_003 + uint64(s.number)*1009 + uint64(s.boots))
	st, err := store.Open(e, "data", storeOptions())
	if err != nil {
		return err
	}
	return errors.Join(st.Rebranch(), st.Close())
}

// openDirectory opens the directory when its replica is here.
func (s *server) openDirectory() {
	if s.dir != nil || s.node == nil {
		return
	}
	if _, err := s.store.Info(directory.ID); err != nil {
		return
	}
	if !s.joined {
		// The replica of a server that joins is opened only when it is complete.
		if !s.node.Filled(directory.ID) {
			return
		}
		s.joined = true
	}
	d, err := directory.Open(s.store, s.env, password.New(s.env, 1, 1), directory.Options{})
	if err != nil {
		if errors.Is(err, store.ErrOutOfService) {
			return
		}
		s.w.failf("%s: open the directory: %v", s.name, err)
	}
	s.dir = d
	if s.w.offices {
		s.w.must(s.openOffice(), "open the office of "+s.name)
	}
}

// stop shuts the server down cleanly.
func (s *server) stop() {
	for _, b := range s.w.boxes {
		if homes := s.w.homes(b); len(homes) > 1 && slices.Contains(homes, s) {
			b.widowed = true
		}
	}
	if s.bus != nil {
		_ = s.bus.Close()
	}
	if s.dir != nil {
		s.dir.Close()
	}
	if s.browsers != nil {
		s.browsers.Close()
	}
	if s.store != nil {
		_ = s.store.Close()
	}
	s.store, s.dir, s.bus, s.node, s.mail, s.browsers, s.office = nil, nil, nil, nil, nil, nil, nil
}

// crash stops the server as a power failure does: some of the unflushed data is lost.
func (s *server) crash() {
	after := s.clone(s.w.rng.IntN(2) * s.w.rng.IntN(100))
	s.w.logf("%s crashes", s.name)
	s.stop()
	s.disk = after
}

// clone returns the disk as a power failure at this moment would leave it.
func (s *server) clone(unsynced int) *vfs.MemFS {
	return s.disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: unsynced,
		RNG: rand.New(rand.NewPCG(s.w.Seed, s.w.rng.Uint64()))})
}

func (s *server) decide() {
	if err := s.node.Decide(s.w.ctx); err != nil {
		s.w.logf("%s: decide: %s", s.name, s.w.names(err.Error()))
	}
	if s.node == nil {
		return
	}
	if err := s.node.HandOvers.Homeward(s.w.ctx); err != nil {
		s.w.logf("%s: homeward: %s", s.name, s.w.names(err.Error()))
	}
}

// replicate runs one step of each Cluster Replicator.
func (s *server) replicate() {
	for _, mate := range s.node.Mates() {
		for k := range s.node.Workers() {
			if s.node == nil {
				return
			}
			if _, err := s.node.Replicate(s.w.ctx, mate, k); err != nil && !errors.Is(err, bus.ErrNoServer) &&
				!errors.Is(err, bus.ErrNoAnswer) {
				s.w.logf("%s: replicate to %s: %s", s.name, s.w.names(mate.String()), s.w.names(err.Error()))
			}
		}
	}
}

// await is the node's Options.Await. It runs the replicators up to four times until done returns true. A nested call
// does not run them again.
func (s *server) await(_ context.Context, limit time.Duration, _ func() <-chan struct{}, done func() bool) bool {
	s.waiting++
	defer func() { s.waiting-- }()
	if s.waiting > 1 {
		return done()
	}
	for range 4 {
		if done() {
			return true
		}
		s.replicate()
	}
	return done()
}

// degraded returns the number of acknowledgements that no mate had confirmed.
func (s *server) degraded() uint64 {
	return s.stat.Counter("Server.Cluster.Acknowledged.Degraded", "").Value()
}
