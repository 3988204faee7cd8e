// Package member manages this server's membership in a cluster: its identity, its end of the bus, and its node. A
// server outside a cluster has a Member too, because it may found a cluster while it runs.
//
// A Member opens in three stages, because the store calls it and it needs the store. New comes before the store. Join
// comes after the store and before the directory, because a new member has to fetch the directory from another member.
// Serve comes when the services above the cluster are open.
package member

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"doublet/bus"
	"doublet/bus/pki"
	"doublet/cluster"
	"doublet/directory"
	"doublet/env"
	"doublet/note"
	"doublet/replica"
	"doublet/store"
)

// Options are the settings of a Member.
type Options struct {
	// Dir is the folder of the identity. Files selects how its files are written.
	Dir   string
	Files pki.Options
	// Addresses returns the addresses at which other members reach this server: routes (host:port, empty if the cluster
	// uses an external NATS) and direct.
	Addresses func() (routes, direct string, err error)
	// OpenBus opens this server's end of the bus. It returns nil if the settings turn it off.
	OpenBus func(f *pki.Folder, admit Admit) (bus.Bus, error)
}

// Admit admits a server that joins the cluster with a token.
type Admit = func(ctx context.Context, m bus.Member, a pki.Applicant) (pki.Admission, error)

// Ground holds the rooms below a node, and its settings.
type Ground struct {
	Store   *store.Store
	Replica *replica.Service
	// Activity stores how much each database is used.
	Activity cluster.Table
	// Node holds the options of the node; the Member sets Cluster, Seeds, Activity, Vacate and Users.
	Node cluster.Options
}

// Services are the functions of the rooms above the cluster that the cluster calls.
type Services struct {
	// Joined is called when the server is a member and the services are open, until it succeeds once.
	Joined func(context.Context, *cluster.Node) error
	Admit  Admit
	// Vacate ends the work on a database that is about to move. It is the Vacate of cluster.Options.
	Vacate func(ctx context.Context, db note.DatabaseID) (resume func(), err error)
	// Users returns the number of people who are signed in.
	Users func() int
}

// joined is the state of a server that has joined its cluster.
type joined struct {
	node *cluster.Node
	bus  bus.Bus
	// served means that Services.Joined has succeeded. The turn of Member.starts guards it.
	served bool
	// stop ends the node, ended waits until it has ended.
	stop  func()
	ended sync.WaitGroup
}

// Member is this server's membership in a cluster, or the lack of one. It is safe for concurrent use.
type Member struct {
	env *env.Env
	opt Options

	in       atomic.Pointer[joined]
	services atomic.Pointer[Services]
	own      atomic.Pointer[pki.Own]
	handlers handlers
	starts   starts

	mu     sync.Mutex // guards the fields below
	folder *pki.Folder
	ground *Ground
}

// New reads the key of the server. It opens nothing else.
func New(e *env.Env, o Options) (*Member, error) {
	m := &Member{env: e, opt: o}
	return m, m.readOwn()
}

// readOwn reads the key that identifies this server to other servers. There is none outside clusters and domains.
func (m *Member) readOwn() error {
	own, err := pki.OpenOwn(m.env, m.opt.Dir)
	if err != nil && !errors.Is(err, pki.ErrNone) {
		return err
	}
	m.own.Store(own)
	return nil
}

// Own returns the key that identifies this server to other servers, nil outside clusters and domains.
func (m *Member) Own() *pki.Own { return m.own.Load() }

// MakeOwn creates the key that Own returns, or returns the existing one.
func (m *Member) MakeOwn() (*pki.Own, error) {
	own, err := pki.MakeOwn(m.env, m.opt.Dir, m.opt.Files)
	if err == nil {
		m.own.Store(own)
	}
	return own, err
}

// DomainTokens returns the tokens with which servers join the domain.
func (m *Member) DomainTokens() *pki.Tokens { return pki.DomainTokens(m.env, m.opt.Dir, m.opt.Files) }

// Addresses returns the addresses at which other members reach this server.
func (m *Member) Addresses() (routes, direct string, err error) { return m.opt.Addresses() }

// Folder returns the identity in the cluster, nil if there is none.
func (m *Member) Folder() (*pki.Folder, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.folder != nil {
		return m.folder, nil
	}
	f, err := pki.Open(m.env, m.opt.Dir, m.opt.Files)
	if errors.Is(err, pki.ErrNone) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cluster: %w", err)
	}
	m.folder = f
	return f, nil
}

// Found creates the authority of a new cluster and this server's identity in it.
func (m *Member) Found(name, server string) (*pki.Folder, error) {
	if _, err := pki.Create(m.env, m.opt.Dir, name, server, m.opt.Files); err != nil {
		return nil, err
	}
	if err := m.readOwn(); err != nil {
		return nil, err
	}
	return m.Folder()
}

// Node returns this server's node, nil outside a cluster.
func (m *Member) Node() *cluster.Node {
	n, _ := m.Joined()
	return n
}

// Joined returns this server's node and its end of the bus. Both are nil outside a cluster.
func (m *Member) Joined() (*cluster.Node, bus.Bus) {
	if j := m.in.Load(); j != nil {
		return j.node, j.bus
	}
	return nil, nil
}

// Primary reports whether this server acts for its place in the domain. Outside a cluster it always does; in a cluster,
// only the primary of the directory does.
func (m *Member) Primary(ctx context.Context) bool {
	n := m.Node()
	if n == nil {
		return true
	}
	home, err := n.Opens.Where(ctx, directory.ID)
	return err == nil && home.Self
}

// Join makes the server join its cluster, if it is in one, and waits until it has both directories.
func (m *Member) Join(ctx context.Context, g Ground) error {
	m.mu.Lock()
	m.ground = &g
	m.mu.Unlock()
	if !m.starts.begin() {
		return errClosed
	}
	j, err := m.start(ctx)
	m.starts.end()
	if err != nil || j == nil {
		return err
	}
	return m.awaitDirectories(ctx, j.node)
}

// Serve makes the node call the services from now on. Until then, no server can join here.
func (m *Member) Serve(ctx context.Context, s Services) error {
	m.services.Store(&s)
	if !m.starts.begin() {
		return errClosed
	}
	defer m.starts.end()
	if j := m.in.Load(); j != nil {
		return m.serve(ctx, j)
	}
	return nil
}

// Enter makes a running server join the cluster that it has just founded. entered is true if this call made the server
// join, false if it had joined before. After an error it can be called again, and continues where it failed.
func (m *Member) Enter(ctx context.Context) (entered bool, err error) {
	if !m.starts.begin() {
		return false, errClosed
	}
	defer m.starts.end()
	j, err := m.start(ctx)
	if err != nil || j == nil || j.served {
		return false, err
	}
	err = m.serve(ctx, j)
	return err == nil, err
}

// serve calls Services.Joined. The caller has the turn of starts.
func (m *Member) serve(ctx context.Context, j *joined) error {
	err := m.services.Load().Joined(ctx, j.node)
	j.served = err == nil
	return err
}

// errClosed rejects a start while the server stops.
var errClosed = errors.New("cluster: server is stopping")

// starts serializes the calls that start the node and notify the services, because cluster init may run twice. After
// close, begin returns false.
type starts struct {
	mu     sync.Mutex
	closed bool
}

// begin waits for its turn. After true the caller must call end.
func (s *starts) begin() bool {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return false
	}
	return true
}

func (s *starts) end() { s.mu.Unlock() }

// close returns after the turn in progress.
func (s *starts) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
}

// start opens the bus and runs the node, once. It returns nil outside a cluster, and if the settings turn the bus off.
// The caller has the turn of starts.
func (m *Member) start(ctx context.Context) (*joined, error) {
	if j := m.in.Load(); j != nil {
		return j, nil
	}
	f, err := m.Folder()
	if err != nil || f == nil {
		return nil, err
	}
	b, err := m.opt.OpenBus(f, m.admit)
	if err != nil || b == nil {
		return nil, err
	}
	j, members, err := m.node(ctx, f, b)
	if err != nil {
		return nil, errors.Join(err, b.Close())
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	j.stop = stop
	m.handlers.open(b)
	j.ended.Add(1)
	m.in.Store(j)
	b.SetMembers(members)
	m.env.Go("cluster", func() {
		defer j.ended.Done()
		j.node.Run(running)
	})
	me := f.Identity()
	m.env.Log.Info("in a cluster", "cluster", f.Cluster(), "server", me.Name, "id", me.ID.String(), "members",
		len(members))
	return j, nil
}

// node creates the node.
func (m *Member) node(ctx context.Context, f *pki.Folder, b bus.Bus) (*joined, []bus.Member, error) {
	m.mu.Lock()
	g := *m.ground
	m.mu.Unlock()
	members, err := f.Members()
	if err != nil {
		return nil, nil, err
	}
	o := g.Node
	if o.Activity, err = cluster.ReadActivity(ctx, g.Activity, m.env.Clock.Now()); err != nil {
		return nil, nil, err
	}
	for _, x := range members {
		o.Seeds = append(o.Seeds, cluster.Member{Member: x, Cluster: f.Cluster(), State: cluster.Active})
	}
	o.Cluster, o.Vacate, o.Users = f.Cluster(), m.vacate, m.users
	return &joined{node: cluster.New(m.env, g.Store, b, g.Replica, o), bus: b}, members, nil
}

// awaitDirectories waits until a server that joins has both directories. Without them nobody can sign in.
func (m *Member) awaitDirectories(ctx context.Context, n *cluster.Node) error {
	const every = 200 * time.Millisecond
	for i := 0; ; i++ {
		if n.Filled(cluster.ID) && n.Filled(directory.ID) {
			return nil
		}
		if i%25 == 10 {
			m.env.Log.Info("waiting for the directory from the other members of the cluster")
		}
		select {
		case <-m.env.Clock.After(every):
		case <-ctx.Done():
			return fmt.Errorf("stopped while waiting for the directory: %w", ctx.Err())
		}
	}
}

// Close ends the node and the bus.
func (m *Member) Close(context.Context) error {
	m.starts.close()
	j := m.in.Load()
	if j == nil {
		return nil
	}
	j.stop()
	err := j.bus.Close()
	j.ended.Wait()
	return err
}
