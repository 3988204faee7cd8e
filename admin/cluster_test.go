package admin

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"doublet/bus"
	"doublet/bus/pki"
	"doublet/cluster"
	"doublet/cluster/member"
	"doublet/directory"
	"doublet/env"
	"doublet/note"
)

// inCluster adds cluster settings to a system.
func inCluster(s *Running, routes, direct string) *Running {
	m, err := member.New(s.Env, member.Options{
		Dir: "data/cluster", Addresses: func() (string, string, error) { return routes, direct, nil },
	})
	if err != nil {
		panic(err)
	}
	s.Member = m
	return s
}

// verb runs a verb and decodes its result.
func verb[R any](t *testing.T, s *Running, name, args string) (r R, err error) {
	t.Helper()
	raw, err := s.Run(context.Background(), note.System, name, json.RawMessage(args), nil)
	if err == nil {
		err = json.Unmarshal(raw, &r)
	}
	return r, err
}

func TestClusterInit(t *testing.T) {
	t.Parallel()
	s := inCluster(newSystem(t), "one:7222", "one:7223")
	ctx := context.Background()
	if _, err := verb[JoinToken](t, s, "cluster token", `{"expires":"1h"}`); !errors.Is(err, pki.ErrNone) {
		t.Errorf("a token without a cluster: %v", err)
	}
	started := 0
	s.Enter = func(context.Context) (bool, error) { started++; return started == 1, nil }
	m, err := verb[ClusterMember](t, s, "cluster init", `{"name":"Acme"}`)
	if err != nil || m.Cluster != "Acme" || m.Server != "mx.example.com" || m.Direct != "one:7223" ||
		m.Routes != "one:7222" || started != 1 {
		t.Fatalf("%+v, %v, started %d", m, err, started)
	}
	list, err := cluster.Members(ctx, s.Store, "Acme")
	f, ferr := s.Member.Folder()
	if err != nil || ferr != nil || len(list) != 1 {
		t.Fatalf("%+v, %v, %v", list, err, ferr)
	}
	if me := f.Identity(); list[0].ID != me.ID || list[0].Key != me.Key || list[0].State != cluster.Active ||
		list[0].Direct != "one:7223" {
		t.Errorf("the server document says %+v", list[0])
	}
	if saved, err := f.Members(); err != nil || len(saved) != 1 || saved[0] != list[0].Member {
		t.Errorf("saved: %+v, %v", saved, err)
	}
	if _, err := s.Store.Info(cluster.ID); err != nil {
		t.Errorf("the Cluster Database Directory: %v", err)
	}
	for _, name := range []string{"Acme", "Other"} {
		if _, err := verb[ClusterMember](t, s, "cluster init", `{"name":"`+name+`"}`); !errors.Is(err, pki.ErrExists) {
			t.Errorf("init %s again: %v", name, err)
		}
	}
	for _, expires := range []string{"1s", "never", "721h"} {
		if _, err := verb[JoinToken](t, s, "cluster token", `{"expires":"`+expires+`"}`); !errors.Is(err, ErrUsage) {
			t.Errorf("a token for %q: %v", expires, err)
		}
	}
	token, err := verb[JoinToken](t, s, "cluster token", `{"expires":"1h"}`)
	if parsed, bad := pki.ParseToken(token.Token); err != nil || bad != nil || parsed.Address != "one:7223" ||
		parsed.Fingerprint != f.Fingerprint() {
		t.Errorf("%+v, %v, %v", token, err, bad)
	}

	// The server's addresses have changed.
	inCluster(s, "moved:7222", "moved:7223")
	for range 2 {
		if err := s.Announce(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if list, err = cluster.Members(ctx, s.Store, "Acme"); err != nil || list[0].Direct != "moved:7223" ||
		list[0].Route != "moved:7222" {
		t.Errorf("%+v, %v", list, err)
	}
}

// TestClusterInitEnters checks that cluster init can be run again if the running server could not join the cluster that
// it founded, and that the server joins then, without a restart.
func TestClusterInitEnters(t *testing.T) {
	t.Parallel()
	s := inCluster(newSystem(t), "one:7222", "one:7223")
	broken, calls := errors.New("address in use"), 0
	s.Enter = func(context.Context) (bool, error) {
		if calls++; calls < 3 {
			return false, broken
		}
		return calls == 3, nil
	}
	for i, want := range []error{broken, broken, nil, pki.ErrExists} {
		m, err := verb[ClusterMember](t, s, "cluster init", `{"name":"Acme"}`)
		if !errors.Is(err, want) || err == nil && m.Cluster != "Acme" || calls != i+1 {
			t.Errorf("init %d: %+v, %v", i, m, err)
		}
	}
}

// TestClusterInitAgain checks that an init that was interrupted anywhere can be run again from the beginning.
func TestClusterInitAgain(t *testing.T) {
	t.Parallel()
	s := inCluster(newSystem(t), "one:7222", "one:7223")
	faults := s.Env.FS.(*env.Faults)
	for n := 1; ; n++ {
		faults.FailNth(env.OpRename, n, nil)
		_, err := verb[ClusterMember](t, s, "cluster init", `{"name":"Acme"}`)
		faults.Heal()
		if err == nil {
			if n < 3 {
				t.Errorf("done after %d failures", n-1)
			}
			break
		}
		inCluster(s, "one:7222", "one:7223") // the next start
		if n > 50 {
			t.Fatal(err)
		}
	}
	if list, err := cluster.Members(context.Background(), s.Store, "Acme"); err != nil || len(list) != 1 {
		t.Errorf("%+v, %v", list, err)
	}
}

func TestClusterAdmit(t *testing.T) {
	t.Parallel()
	s := inCluster(newSystem(t), "one:7222", "one:7223")
	ctx := context.Background()
	if _, err := s.Admit(ctx, bus.Member{ID: note.UNID{1}, Name: "two"}, pki.Applicant{}); err == nil {
		t.Error("admitted to no cluster")
	}
	if _, err := verb[ClusterMember](t, s, "cluster init", `{"name":"Acme"}`); err != nil {
		t.Fatal(err)
	}
	two := bus.Member{ID: note.UNID{2}, Name: "two", Key: bus.Key{3}, Route: "two:7222", Direct: "two:7223"}
	for range 2 { // the first response was lost
		a, err := s.Admit(ctx, two, pki.Applicant{Name: "two", Host: "two.example.com"})
		if err != nil || a.Domain != "example.com" || len(a.Members) != 2 {
			t.Fatalf("%+v, %v", a, err)
		}
	}
	three := two
	three.ID = note.UNID{3}
	if _, err := s.Admit(ctx, three, pki.Applicant{Name: "two"}); !errors.Is(err, directory.ErrNameTaken) {
		t.Errorf("another of that name: %v", err)
	}
	servers, _, err := s.Directory.Servers.List(ctx, "", 0, "")
	names := []string{}
	for _, x := range servers {
		names = append(names, x.Name+" "+x.Host)
	}
	if got := strings.Join(names, ", "); err != nil || got != "mx.example.com mx.example.com, two two.example.com" {
		t.Errorf("servers: %s, %v", got, err)
	}
}
