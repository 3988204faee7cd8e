package main

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"doublet/admin"
	"doublet/bus"
	"doublet/bus/embedded"
	"doublet/bus/natsbus"
	"doublet/bus/pki"
	"doublet/cmd/doublet/config"
	"doublet/env"
	"doublet/test/program"
)

// freeAddresses returns free addresses on loopback.
func freeAddresses(t *testing.T, n int) []string {
	t.Helper()
	list := program.FreePorts(t, n)
	for i := range list {
		list[i] = "127.0.0.1:" + list[i]
	}
	return list
}

func TestClusterAddresses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		set    func(*config.Cluster)
		want   addresses
		refuse string
	}{
		{func(*config.Cluster) {}, addresses{address{":7222", "mx.example.org:7222"},
			address{":7223", "mx.example.org:7223"}}, ""},
		{func(c *config.Cluster) { c.Direct, c.Routes = "10.0.0.5:1", "0.0.0.0:2" },
			addresses{address{"0.0.0.0:2", "mx.example.org:2"}, address{"10.0.0.5:1", "10.0.0.5:1"}}, ""},
		{func(c *config.Cluster) { c.Advertise = "cluster.example.org" },
			addresses{address{":7222", "cluster.example.org:7222"}, address{":7223", "cluster.example.org:7223"}}, ""},
		{func(c *config.Cluster) { c.Interface = "lo" }, addresses{address{"127.0.0.1:7222", "127.0.0.1:7222"},
			address{"127.0.0.1:7223", "127.0.0.1:7223"}}, ""},
		{func(c *config.Cluster) { c.NATS = "nats://nats:4222" },
			addresses{direct: address{":7223", "mx.example.org:7223"}}, ""},
		{func(c *config.Cluster) { c.Direct, c.Routes = "off", "off" }, addresses{}, ""},
		{func(c *config.Cluster) { c.Direct = "nonsense" }, addresses{}, "cluster.direct"},
		{func(c *config.Cluster) { c.Interface = "none-such" }, addresses{}, "cluster.interface"},
	} {
		cfg := config.Default()
		cfg.Server.Name = "mx.example.org"
		c.set(&cfg.Cluster)
		got, err := clusterAddresses(&cfg)
		if cfg.Cluster.Interface == "lo" && err != nil {
			continue // this machine uses another name for it
		}
		if (err != nil) != (c.refuse != "") || err != nil && !strings.Contains(err.Error(), c.refuse) || got != c.want {
			t.Errorf("%+v: %+v, %v", cfg.Cluster, got, err)
		}
	}
}

// TestClusterJoin founds a cluster beside a running server and joins another one with a token. Each must accept the
// other.
func TestClusterJoin(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	one, two := filepath.Join(dir, "one"), filepath.Join(dir, "two")
	ports := freeAddresses(t, 4)
	made(t, one)
	settings := []string{"DOUBLET_CLUSTER_ROUTES=" + ports[0], "DOUBLET_CLUSTER_DIRECT=" + ports[1],
		"DOUBLET_SERVER_NAME=one.example.org"}
	log := newLines()
	p := startServe(t, log, settings, "--data", one)
	log.await(t, "server started")
	if code, _, errs := command(t, "", "cluster", "token", "--data", one); code != exitFailed ||
		!strings.Contains(errs, "cluster init") {
		t.Errorf("a token without a cluster: %d %s", code, errs)
	}
	code, out, errs := command(t, "", "cluster", "init", "Acme", "--data", one, "--json")
	var first admin.ClusterMember
	if err := json.Unmarshal([]byte(out), &first); code != 0 || err != nil || first.Cluster != "Acme" ||
		first.Server != "one.example.org" || first.Direct != ports[1] || first.Routes != ports[0] {
		t.Fatalf("init: %d %s %s", code, out, errs)
	}
	if code, _, errs := command(t, "", "cluster", "init", "Other", "--data", one); code == 0 ||
		!strings.Contains(errs, "Acme") {
		t.Errorf("found another: %d %s", code, errs)
	}
	code, out, errs = command(t, "", "cluster", "token", "--data", one, "--json")
	var token admin.JoinToken
	if err := json.Unmarshal([]byte(out), &token); code != 0 || err != nil || time.Until(token.Expires) > time.Hour {
		t.Fatalf("token: %d %s %s", code, out, errs)
	}
	join := []string{"cluster", "join", token.Token, "--data", two, "--name", "two", "--routes", ports[2], "--direct",
		ports[3], "--imap", "127.0.0.1:1143"}
	if code, out, errs := command(t, "", join...); code != 0 || !strings.Contains(out, "joined Acme as two") {
		t.Fatalf("join: %d %s %s", code, out, errs)
	}
	privateFiles(t, filepath.Join(one, clusterDir))
	privateFiles(t, filepath.Join(two, clusterDir))
	text, err := os.ReadFile(filepath.Join(two, config.FileName))
	for _, want := range []string{`domain = "example.org"`, `routes = "` + ports[2] + `"`,
		`direct = "` + ports[3] + `"`, `imap = "127.0.0.1:1143"`} {
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s is not in the settings: %v", want, err)
		}
	}
	if code, _, errs := command(t, "", join...); code != exitFailed ||
		!strings.Contains(errs, "holds a store already") {
		t.Errorf("join again: %d %s", code, errs)
	}
	join[4] = filepath.Join(dir, "three")
	if code, _, errs := command(t, "", join...); code != exitFailed || !strings.Contains(errs, "already used") {
		t.Errorf("another server with that token: %d %s", code, errs)
	}
	join[2] = "doublet-join-rubbish"
	if code, _, errs := command(t, "", join...); code != exitUsage || !strings.Contains(errs, "not a join token") {
		t.Errorf("rubbish: %d %s", code, errs)
	}

	// The second server's end of the bus, as its serve opens it.
	f, err := pki.Open(quiet, filepath.Join(two, clusterDir), pki.Options{WritePrivate: writePrivate})
	if err != nil {
		t.Fatal(err)
	}
	members, err := f.Members()
	if err != nil || len(members) != 2 {
		t.Fatalf("members: %+v, %v", members, err)
	}
	meets(t, quiet, f, ports[2], ports[3], members, first.ID)
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(); err != nil {
		t.Errorf("the server ended with %v", err)
	}
	// The first server rejoins its cluster at the next start, at a new address too.
	moved := freeAddresses(t, 2)
	log = newLines()
	startServe(t, log, []string{"DOUBLET_CLUSTER_ROUTES=" + moved[0], "DOUBLET_CLUSTER_DIRECT=" + moved[1],
		"DOUBLET_SERVER_NAME=one.example.org"}, "--data", one)
	log.await(t, "in a cluster")
	log.await(t, "server started")
	for i := range members {
		if members[i].ID.String() == first.ID {
			members[i].Route, members[i].Direct = moved[0], moved[1]
		}
	}
	meets(t, quiet, f, ports[2], ports[3], members, first.ID)
}

// meets opens the bus of a folder and waits until a member answers.
func meets(t *testing.T, e *env.Env, f *pki.Folder, routes, direct string, members []bus.Member, id string) {
	t.Helper()
	b, err := embedded.Open(e, embedded.Options{Options: natsbus.Options{Identity: f, Listen: direct}, Routes: routes})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	b.SetMembers(members)
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		var err error
		for _, m := range members {
			if m.ID.String() == id {
				_, err = b.Request(ctx, m.ID, "test.nothing", nil)
			}
		}
		cancel()
		if bus.Code(err) == bus.CodeNoVerb {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the first server does not answer: %v", err)
		}
	}
}

// privateFiles checks that only the server's account can read keys and tokens.
func privateFiles(t *testing.T, dir string) {
	t.Helper()
	n := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			err = errors.New(path + ": " + info.Mode().String())
		}
		n++
		return err
	})
	if err != nil || n < 5 {
		t.Errorf("%d files, %v", n, err)
	}
}
