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

// TestFound makes a running server found a cluster. The functions that the store calls work before and after. Handlers
// that were registered without a bus answer on it, and Joined is called once.
func TestFound(t *testing.T) {
	t.Parallel()
	f, ctx := env.TestRealTime(t), context.Background()
	net := memory.New(f.Env, nil)
	var opened []*memory.Bus
	m, err := New(f.Env, Options{
		Dir: "data/cluster", Addresses: func() (string, string, error) { return "", "one:7223", nil },
		OpenBus: func(f *pki.Folder, _ Admit) (bus.Bus, error) {
			b := net.Open(f.Identity().ID, bus.Grant{})
			opened = append(opened, b)
			return b, nil
		},
	})
	if err != nil || m.Own() != nil {
		t.Fatal(m.Own(), err)
	}
	tree := stat.New(f.Clock)
	st, err := store.Open(f.Env, "data", store.Options{FloorBytes: -1, Ballast: -1, MemTableSize: 1 << 20,
		Indexes: directory.Indexes(), Confirm: m.Confirm, Admit: m.Permit, Mend: m.Mend})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	kept, err := keep.Open(st, f.Env, tree)
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close(ctx)
	ground := Ground{
		Store: st, Replica: replica.New(st, mailbox.New(st, f.Env, mailbox.Options{}), f.Env,
			replica.Options{Stats: tree}),
		Activity: kept.Table(cluster.ActivityTable), Node: cluster.Options{Stats: tree},
	}
	if err := m.Join(ctx, ground); err != nil || m.Node() != nil {
		t.Fatal("a server that is alone has joined", err)
	}
	if err := errors.Join(m.Confirm(ctx, nil, 1), m.Permit(ctx, nil), m.Repair(ctx)); err != nil {
		t.Error(err)
	}
	if err := m.Mend(note.Digest{}); !errors.Is(err, ErrAlone) {
		t.Error(err)
	}
	people, err := directory.Open(st, f.Env, password.New(f.Env, 1, 1), directory.Options{Domain: "example.com"})
	if err != nil {
		t.Fatal(err)
	}
	defer people.Close()
	m.Handle("early", func(context.Context, bus.ServerID, []byte) ([]byte, error) { return []byte("yes"), nil })
	if _, err := m.admit(ctx, bus.Member{}, pki.Applicant{}); !errors.Is(err, errStarting) {
		t.Errorf("a server joins before the services are open: %v", err)
	}
	var joined []*cluster.Node
	err = m.Serve(ctx, Services{Joined: func(_ context.Context, n *cluster.Node) error {
		joined = append(joined, n)
		return nil
	}, Users: func() int { return 3 }})
	if err != nil || len(joined) != 0 {
		t.Fatal(joined, err)
	}
	if _, err := m.Found("Acme", "one"); err != nil || m.Own() == nil {
		t.Fatal(m.Own(), err)
	}
	if err := errors.Join(cluster.Found(st), m.Enter(ctx), m.Enter(ctx)); err != nil { // the second does nothing
		t.Fatal(err)
	}
	defer m.Close(ctx)
	if len(joined) != 1 || joined[0] != m.Node() || len(opened) != 1 || m.users() != 3 {
		t.Fatalf("%d nodes, %d buses, %d users", len(joined), len(opened), m.users())
	}
	m.HandleStream("late", func(context.Context, bus.ServerID, []byte, bus.Stream) error { return nil })
	me := opened[0].Self()
	other := net.Open(note.UNID{9}, bus.Grant{})
	for _, b := range []*memory.Bus{opened[0], other} {
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
	if err := m.Enter(ctx); !errors.Is(err, errClosed) { // cluster init while the server stops
		t.Errorf("entered after Close: %v", err)
	}
}
