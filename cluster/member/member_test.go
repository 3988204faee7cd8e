package member

import (
	"context"
	"errors"
	"testing"

	"doublet/bus"
	"doublet/bus/memory"
	"doublet/bus/pki"
	"doublet/cluster"
	"doublet/directory"
	"doublet/directory/password"
	"doublet/env"
	"doublet/mail/keep"
	"doublet/mailbox"
	"doublet/note"
	"doublet/replica"
	"doublet/stat"
	"doublet/store"
)

// alone is a server outside a cluster, with the rooms below its Member.
type alone struct {
	*Member
	store  *store.Store
	ground Ground
	net    *memory.Network
	// opened lists the buses. broken, if set, is the error of OpenBus.
	opened []*memory.Bus
	broken error
}

func newAlone(t *testing.T) *alone {
	t.Helper()
	f, ctx := env.TestRealTime(t), context.Background()
	a := &alone{net: memory.New(f.Env, nil)}
	m, err := New(f.Env, Options{
		Dir: "data/cluster", Addresses: func() (string, string, error) { return "", "one:7223", nil },
		OpenBus: func(f *pki.Folder, _ Admit) (bus.Bus, error) {
			if a.broken != nil {
				return nil, a.broken
			}
			b := a.net.Open(f.Identity().ID, bus.Grant{})
			a.opened = append(a.opened, b)
			return b, nil
		},
	})
	if err != nil || m.Own() != nil {
		t.Fatal(m.Own(), err)
	}
	a.Member = m
	tree := stat.New(f.Clock)
	st, err := store.Open(f.Env, "data", store.Options{FloorBytes: -1, Ballast: -1, MemTableSize: 1 << 20,
		Indexes: directory.Indexes(), Confirm: m.Confirm, Admit: m.Permit, Mend: m.Mend})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	a.store = st
	kept, err := keep.Open(st, f.Env, tree)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = kept.Close(ctx) })
	a.ground = Ground{
		Store: st, Replica: replica.New(st, mailbox.New(st, f.Env, mailbox.Options{}), f.Env,
			replica.Options{Stats: tree}),
		Activity: kept.Table(cluster.ActivityTable), Node: cluster.Options{Stats: tree},
	}
	if err := m.Join(ctx, a.ground); err != nil || m.Node() != nil {
		t.Fatal("a server that is alone has joined", err)
	}
	people, err := directory.Open(st, f.Env, password.New(f.Env, 1, 1), directory.Options{Domain: "example.com"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(people.Close)
	return a
}

// found founds a cluster of the server.
func (a *alone) found(t *testing.T) {
	t.Helper()
	if _, err := a.Found("Acme", "one"); err != nil || a.Own() == nil {
		t.Fatal(a.Own(), err)
	}
	if err := cluster.Found(a.store); err != nil {
		t.Fatal(err)
	}
}

// enters calls Enter, and checks its results.
func (a *alone) enters(t *testing.T, entered bool, err error) {
	t.Helper()
	if got, gotErr := a.Enter(context.Background()); !errors.Is(gotErr, err) || got != entered {
		t.Fatalf("entered: %t, %v", got, gotErr)
	}
}

// TestEnterAgain checks that Enter can be called again after an error, and that it continues where it failed: neither
// the bus nor the node is opened twice, and Joined is not called after it has succeeded.
func TestEnterAgain(t *testing.T) {
	t.Parallel()
	a, ctx := newAlone(t), context.Background()
	calls := 0
	full := errors.New("no space")
	err := a.Serve(ctx, Services{Joined: func(context.Context, *cluster.Node) error {
		if calls++; calls < 3 {
			return full
		}
		return nil
	}, Users: func() int { return 0 }})
	if err != nil {
		t.Fatal(err)
	}
	a.enters(t, false, nil) // there is no cluster
	a.found(t)
	defer a.Close(ctx)
	a.broken = errors.New("address in use")
	a.enters(t, false, a.broken)
	a.broken = nil
	a.enters(t, false, full)
	node := a.Node()
	a.enters(t, false, full)
	a.enters(t, true, nil)
	a.enters(t, false, nil)
	if calls != 3 || len(a.opened) != 1 || node == nil || a.Node() != node {
		t.Errorf("Joined was called %d times, %d buses are open", calls, len(a.opened))
	}
}

// TestFound makes a running server found a cluster. The functions that the store calls work before and after. Handlers
// that were registered without a bus answer on it, and Joined is called once.
func TestFound(t *testing.T) {
	t.Parallel()
	m, ctx := newAlone(t), context.Background()
	if err := errors.Join(m.Confirm(ctx, nil, 1), m.Permit(ctx, nil), m.Repair(ctx)); err != nil {
		t.Error(err)
	}
	if err := m.Mend(note.Digest{}); !errors.Is(err, ErrAlone) {
		t.Error(err)
	}
	m.Handle("early", func(context.Context, bus.ServerID, []byte) ([]byte, error) { return []byte("yes"), nil })
	if _, err := m.admit(ctx, bus.Member{}, pki.Applicant{}); !errors.Is(err, errStarting) {
		t.Errorf("a server joins before the services are open: %v", err)
	}
	var joined []*cluster.Node
	err := m.Serve(ctx, Services{Joined: func(_ context.Context, n *cluster.Node) error {
		joined = append(joined, n)
		return nil
	}, Users: func() int { return 3 }})
	if err != nil || len(joined) != 0 {
		t.Fatal(joined, err)
	}
	m.found(t)
	m.enters(t, true, nil)
	m.enters(t, false, nil)
	defer m.Close(ctx)
	if len(joined) != 1 || joined[0] != m.Node() || len(m.opened) != 1 || m.users() != 3 {
		t.Fatalf("%d nodes, %d buses, %d users", len(joined), len(m.opened), m.users())
	}
	m.HandleStream("late", func(context.Context, bus.ServerID, []byte, bus.Stream) error { return nil })
	me := m.opened[0].Self()
	other := m.net.Open(note.UNID{9}, bus.Grant{})
	for _, b := range []*memory.Bus{m.opened[0], other} {
		b.SetMembers([]bus.Member{{ID: me}, {ID: other.Self()}})
	}
	if answer, err := other.Request(ctx, me, "early", nil); err != nil || string(answer) != "yes" {
		t.Errorf("%q, %v", answer, err)
	}
	if _, err := other.Request(ctx, me, "never", nil); bus.Code(err) != bus.CodeNoVerb {
		t.Error(err)
	}
	if err := errors.Join(m.Close(ctx), m.Close(ctx)); err != nil {
		t.Error(err)
	}
	m.enters(t, false, errClosed) // cluster init while the server stops
}
