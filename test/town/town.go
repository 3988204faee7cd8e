// Package town is a cluster for tests of protocol servers ("doors"). Its members run in one process, each with a
// replica of one person's mail file. The test decides which member is the primary (home) and hands the mail file over.
// Stores, replication and the forwarding of sessions over streams are real.
package town

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"doublet/bus"
	"doublet/cluster"
	"doublet/env"
	"doublet/mailbox"
	"doublet/note"
	"doublet/replica"
	"doublet/serve/forward"
	"doublet/serve/listen"
	"doublet/serve/signin"
	"doublet/stat"
	"doublet/store"
	"doublet/test/door"
)

// Town is the cluster.
type Town struct {
	Members  []*Member
	Person   note.UNID
	Database note.DatabaseID

	t    testing.TB
	mu   sync.Mutex
	home int
}

// Member is one server of a Town.
type Member struct {
	Town    *Town
	Name    string
	Env     *env.Env
	Stats   *stat.Tree
	Store   *store.Store
	Mail    *mailbox.Service
	Forward *forward.Service
	// Memory is the budget for messages in flight, for the door too.
	Memory *listen.Budget
	// Addr is the address at which the member's door listens.
	Addr net.Addr

	slot int
	id   note.UNID
	reps *replica.Service
	link *link
}

// New creates n members; the first is the home. open returns the door of a member and its options, of which only TLS,
// Far and Left are used.
func New(t testing.TB, n int, open func(*Member) (listen.Door, door.Options)) *Town {
	t.Helper()
	w := &Town{t: t, Person: note.UNID{15: 1}}
	for i := range n {
		w.Members = append(w.Members, w.member(i, open))
	}
	return w
}

func (w *Town) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *Town) member(i int, open func(*Member) (listen.Door, door.Options)) *Member {
	w.t.Helper()
	e := env.TestRealTime(w.t).Env
	e.Rand = env.Seeded(uint64(i + 1))
	m := &Member{
		Town: w, Name: fmt.Sprint("m", i), Env: e, Stats: stat.New(e.Clock),
		slot: i, id: note.UNID{0: 9, 15: byte(i + 1)}, link: &link{town: w, streams: map[string]bus.StreamHandler{}},
	}
	var err error
	m.Store, err = store.Open(e, "store", store.Options{
		CacheSize: 4 << 20, MemTableSize: 1 << 20, FloorBytes: -1, Ballast: -1, LogSyncInterval: 20 * time.Microsecond,
	})
	w.must(err)
	w.t.Cleanup(func() { w.must(m.Store.Close()) })
	m.Mail = mailbox.New(m.Store, e, mailbox.Options{MessageSize: 12 << 20})
	m.reps = replica.New(m.Store, m.Mail, e, replica.Options{})
	w.replica(m)
	m.Memory = listen.NewBudget(256 << 20)
	m.Forward = forward.New(e, func() (forward.Node, bus.Bus) { return m, m.link }, m.Memory, m.Stats)
	d, o := open(m)
	at := door.At(w.t, e, d, o)
	m.Addr = at.Addr
	doors := m.Forward.Doors(at.Front, func(_ context.Context, who note.UNID) (signin.Account, error) {
		return signin.Account{Name: "alice", Database: w.Database, Who: note.Who{Person: who}}, nil
	})
	doors.Add(d.Name, d.Serve)
	doors.Serve(m.link)
	return m
}

// replica creates the mail file at the first member, and replicas of it at the others.
func (w *Town) replica(m *Member) {
	w.t.Helper()
	var err error
	if m.slot == 0 {
		w.Database, err = m.Mail.Make(context.Background(), w.Person, "alice", 0, 0)
		w.must(err)
		w.must(m.Store.Share(context.Background(), w.Database, 0))
		return
	}
	info, err := w.Members[0].Store.Info(w.Database)
	w.must(err)
	w.must(m.Store.CreateReplica(note.System, info, uint8(m.slot)))
}

// Send replicates all changes from one member to another.
func (w *Town) Send(from, to *Member) {
	w.t.Helper()
	_, err := replica.Send(context.Background(), from.reps.As(note.System), to.reps.As(note.System), w.Database,
		replica.SendOptions{})
	w.must(err)
}

func (m *Member) position() (p store.Position) {
	m.Town.t.Helper()
	m.Town.must(m.Store.Read(context.Background(), note.System, m.Town.Database, func(r *store.Reader) error {
		p = r.Position()
		return nil
	}))
	return p
}

// Home returns the member that is home.
func (w *Town) Home() *Member {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.Members[w.home]
}

func (w *Town) setHome(i int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.home = i
}

// File returns the mail file at its home.
func (w *Town) File() *mailbox.File {
	return w.Home().Mail.File(note.Who{Person: w.Person}, w.Database)
}

// Moved returns how many times a session has moved.
func (w *Town) Moved() (n uint64) {
	for _, m := range w.Members {
		n += m.Stats.Counter("Server.Cluster.Sessions.Moved", "").Value()
	}
	return n
}

// HandOver makes another member the home, as the cluster's HandOvers.HandOver does.
func (w *Town) HandOver(to int) {
	w.t.Helper()
	ctx := context.Background()
	from, next := w.Home(), w.Members[to]
	if from == next {
		return
	}
	resume, err := from.Forward.Vacate(ctx, w.Database)
	w.must(err)
	defer resume()
	w.Send(from, next)
	w.must(from.Store.Follow(ctx, w.Database))
	w.Send(from, next)
	at := from.position()
	w.must(next.Store.Lead(ctx, w.Database, store.LeadOptions{HandOver: &at}))
	w.setHome(to)
}

// TakeOver makes another member the home while the old home is frozen and does not notice.
func (w *Town) TakeOver(to int) {
	w.t.Helper()
	ctx, next, old := context.Background(), w.Members[to], w.Home()
	before := next.position()
	w.must(next.Store.Lead(ctx, w.Database, store.LeadOptions{}))
	lost := store.Position{Ledger: before.Ghost(&before.Ledger, uint8(old.slot), false),
		LastUIDValidity: before.LastUIDValidity}
	w.must(next.Store.Heal(ctx, w.Database, lost))
	w.setHome(to)
}

// Wake resumes a frozen member, which learns of the new home: it steps down and takes over the new home's numbers.
func (w *Town) Wake(m *Member) {
	w.t.Helper()
	ctx := context.Background()
	w.must(m.Store.Follow(ctx, w.Database))
	winner := w.Home()
	w.must(winner.Store.Heal(ctx, w.Database, m.position()))
	w.must(m.Store.StepDown(ctx, w.Database, winner.position()))
	for range 2 {
		w.Send(m, winner)
		w.Send(winner, m)
	}
}

// Where implements forward.Node.
func (m *Member) Where(context.Context, note.DatabaseID) (cluster.Place, error) {
	h := m.Town.Home()
	return cluster.Place{Server: h.id, Self: h == m, Name: h.Name}, nil
}

// Open implements forward.Node.
func (m *Member) Open(ctx context.Context, db note.DatabaseID) (cluster.Place, error) {
	return m.Where(ctx, db)
}

// Use implements forward.Node.
func (m *Member) Use(note.DatabaseID) func() { return func() {} }

// Elsewhere implements forward.Node.
func (m *Member) Elsewhere(note.DatabaseID) bool { return false }

// Holders implements forward.Node.
func (m *Member) Holders(note.DatabaseID) []note.UNID { return nil }

// Stays implements forward.Node.
func (m *Member) Stays(_ context.Context, db note.DatabaseID) bool { return m.Store.Leads(db) }

// link is a member's end of a bus over TCP. It supports only streams.
type link struct {
	bus.Bus
	town    *Town
	streams map[string]bus.StreamHandler
}

// Handle implements bus.Bus.
func (l *link) Handle(string, bus.Handler) {}

// HandleStream implements bus.Bus.
func (l *link) HandleStream(verb string, fn bus.StreamHandler) { l.streams[verb] = fn }

// Stream implements bus.Bus.
func (l *link) Stream(_ context.Context, to bus.ServerID, verb string, header []byte) (bus.Stream, error) {
	at, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer at.Close()
	here, err := net.Dial("tcp", at.Addr().String())
	if err != nil {
		return nil, err
	}
	there, err := at.Accept()
	if err != nil {
		return nil, err
	}
	x := &stream{TCPConn: here.(*net.TCPConn), ended: make(chan error, 1)}
	mate := l.town.Members[to[15]-1]
	go func() {
		x.ended <- mate.link.streams[verb](context.Background(), mate.id, header,
			&stream{TCPConn: there.(*net.TCPConn)})
		_ = there.Close()
	}()
	return x, nil
}

// stream is one end of a stream. An error of the handler at the other side is returned after the data.
type stream struct {
	*net.TCPConn
	ended chan error
}

// Read implements bus.Stream.
func (x *stream) Read(p []byte) (int, error) {
	n, err := x.TCPConn.Read(p)
	if err == io.EOF && x.ended != nil {
		if refusal := <-x.ended; refusal != nil {
			code, text := bus.Refusal(refusal)
			err = &bus.RemoteError{Code: code, Text: text}
		}
		x.ended <- nil
	}
	return n, err
}
