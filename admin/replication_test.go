package admin

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"doublet/directory"
	"doublet/note"
	"doublet/replica/https"
)

// replicating serves a system's replication over HTTPS, and returns its URL and the certificate's fingerprint.
func replicating(t *testing.T, s *Running) (url, fingerprint string) {
	t.Helper()
	h := https.New(s.Replica, s.Store, s.Env, https.Options{
		Server: s.Name,
		Identify: func(r *http.Request) (https.Identity, error) {
			user, secret, _ := r.BasicAuth()
			who, p, err := s.Directory.SignIns.Authenticate(r.Context(), user, secret, "test")
			return https.Identity{Who: who, Name: p.Name(), Address: p.InternetAddress, Short: p.ShortName,
				Mail: p.MailDatabase}, err
		},
		Refuse: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusUnauthorized) },
	})
	web := httptest.NewTLSServer(h)
	t.Cleanup(web.Close)
	sum := sha256.Sum256(web.Certificate().Raw)
	return web.URL, hex.EncodeToString(sum[:])
}

// messages returns the number of messages in a person's INBOX, -1 without one.
func messages(t *testing.T, s *Running, user string) int {
	t.Helper()
	p, err := s.Directory.Names.PersonNamed(context.Background(), user)
	if err != nil {
		return -1
	}
	folders, err := s.Mailbox.File(note.System, p.MailDatabase).Folders(context.Background())
	if err != nil {
		return -1
	}
	for _, f := range folders {
		if f.Name == "INBOX" {
			return int(f.Total)
		}
	}
	return -1
}

func mustDo[R any](t *testing.T, s *Running, verb string, args any) R {
	t.Helper()
	out, err := Do[R](context.Background(), Direct{s}, verb, args)
	if err != nil {
		t.Fatalf("%s: %v", verb, err)
	}
	return out
}

// twoSystems returns a server with Ada's mail, and one that will copy it.
func twoSystems(t *testing.T) (hub, laptop *Running, url, fingerprint string) {
	t.Helper()
	hub, laptop = newSystem(t), newSystemOf(t, 2)
	mustDo[User](t, hub, "user add", UserAdd{Name: "Ada Lovelace", Short: "ada", Password: "engine"})
	writeFile(t, hub, "mbox", "From bob@example.org Mon Jan  5 09:00:00 2026\nSubject: one\n\nbody\n")
	mustDo[Transferred](t, hub, "import mbox", ImportMbox{Path: "mbox", User: "ada"})
	url, fingerprint = replicating(t, hub)
	return hub, laptop, url, fingerprint
}

// TestReplicaCopy checks that a person's mail file is copied, the person signs in to the copy, and changes replicate in
// both directions.
func TestReplicaCopy(t *testing.T) {
	t.Parallel()
	hub, laptop, url, print := twoSystems(t)
	copied := ReplicaCopy{URL: url, Fingerprint: print, User: "ada", Password: "engine", Direction: "both", Adopt: true}
	r := mustDo[Replicated](t, laptop, "replica copy", copied)
	if r.Bad() || len(r.Databases) != 1 || !r.Databases[0].New || r.Databases[0].Received < 7 {
		t.Fatalf("%+v", r)
	}
	ctx := context.Background()
	who, p, err := laptop.Directory.SignIns.Authenticate(ctx, "ada@example.com", "engine", "test")
	if err != nil {
		t.Fatal(err)
	}
	there, err := hub.Directory.Names.PersonNamed(ctx, "ada")
	if err != nil || p.ID != there.ID || p.MailDatabase != there.MailDatabase || messages(t, laptop, "ada") != 1 {
		t.Fatalf("%+v %+v %v", p, there, err)
	}
	folders, err := laptop.Mailbox.File(who, p.MailDatabase).Folders(ctx)
	if err != nil || len(folders) < 6 {
		t.Errorf("Ada sees %v: %v", folders, err)
	}
	writeFile(t, laptop, "mbox", "From bob@example.org Mon Jan  5 09:00:00 2026\nSubject: two\n\nbody\n")
	mustDo[Transferred](t, laptop, "import mbox", ImportMbox{Path: "mbox", User: "ada"})
	r = mustDo[Replicated](t, laptop, "replica copy", copied)
	if r.Bad() || r.Databases[0].New || r.Databases[0].Sent != 1 || messages(t, hub, "ada") != 2 {
		t.Fatalf("%+v", r)
	}
	list := mustDo[[]ReplicaShown](t, laptop, "replica history", struct{}{})
	if len(list) != 1 || list[0].Title != "Ada Lovelace" || list[0].Received == 0 || list[0].Given == 0 {
		t.Errorf("%+v", list)
	}
	mustDo[Done](t, laptop, "replica forget", ReplicaForget{Database: list[0].Database, Replica: list[0].Replica})
	if list = mustDo[[]ReplicaShown](t, laptop, "replica history", struct{}{}); len(list) != 0 {
		t.Errorf("forgotten: %+v", list)
	}
	copied.Password = "wrong"
	if _, err := Do[Replicated](ctx, Direct{laptop}, "replica copy", copied); err == nil ||
		!strings.Contains(err.Error(), "rejects this name") {
		t.Errorf("a wrong password: %v", err)
	}
	if _, _, err := laptop.Directory.SignIns.Authenticate(ctx, "ada", "wrong", "test"); err == nil {
		t.Error("a password that the source refused signs in here")
	}
}

// TestConnections checks that the task runs due connections, stops removed ones, and reports the results.
func TestConnections(t *testing.T) {
	t.Parallel()
	hub, laptop, url, print := twoSystems(t)
	mustDo[Replicated](t, laptop, "replica copy", ReplicaCopy{URL: url, Fingerprint: print, User: "ada",
		Password: "engine", Adopt: true})
	add := ConnectionAdd{Name: "home", URL: url, Fingerprint: print, User: "ada", Password: "engine",
		Every: "continuous", Direction: "both"}
	c := mustDo[Connection](t, laptop, "connection add", add)
	if c.Every != "continuous" || c.Server != laptop.Name {
		t.Fatalf("%+v", c)
	}
	bad := add
	bad.Name, bad.Password, bad.Every = "bad", "wrong", "1h"
	mustDo[Connection](t, laptop, "connection add", bad)
	elsewhere := add
	elsewhere.Name, elsewhere.Server = "elsewhere", "other.example.com"
	mustDo[Connection](t, laptop, "connection add", elsewhere)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- laptop.Replicator.Run(ctx) }()
	until := func(what string, ok func() bool) {
		t.Helper()
		for range 1000 {
			if ok() {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
		t.Fatalf("%s never: %+v", what, mustDo[[]Connection](t, laptop, "connection list", struct{}{}))
	}
	state := func(name string) (out Connection) {
		for _, c := range mustDo[[]Connection](t, laptop, "connection list", struct{}{}) {
			if c.Name == name {
				out = c
			}
		}
		return out
	}
	mustDo[Transferred](t, hub, "import mbox", ImportMbox{Path: "mbox", User: "ada", Folder: "INBOX"})
	until("the new message came", func() bool { return messages(t, laptop, "ada") == 2 })
	until("it was told", func() bool {
		c := state("home")
		return c.State == "running" && c.Received >= 1 && c.Runs >= 2
	})
	until("the wrong password was told", func() bool {
		c := state("bad")
		return c.Runs == 1 && strings.Contains(c.Error, "rejects this name") &&
			c.NextRun.After(c.LastRun.Add(50*time.Minute))
	})
	if c := state("elsewhere"); c.State != "" || c.Runs != 0 {
		t.Errorf("another server's connection runs here: %+v", c)
	}
	home, err := laptop.Connections.Named(ctx, "home")
	if err != nil {
		t.Fatal(err)
	}
	mustDo[Done](t, laptop, "connection remove", Named{Name: "home"})
	until("it ended", func() bool { return laptop.Replicator.Status(&home).State == "" })
	mustDo[Transferred](t, hub, "import mbox", ImportMbox{Path: "mbox", User: "ada", Folder: "INBOX"})
	time.Sleep(800 * time.Millisecond)
	if n := messages(t, laptop, "ada"); n != 2 {
		t.Errorf("a connection that was removed goes on: %d messages", n)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	failed := laptop.Stats.Counter("Replica.Successful", "").Value()
	if failed == 0 {
		t.Error("nothing was counted")
	}
}

// TestConnectionSecret checks that no verb returns a connection's password.
func TestConnectionSecret(t *testing.T) {
	t.Parallel()
	s := newSystem(t)
	ctx := context.Background()
	mustDo[Connection](t, s, "connection add", ConnectionAdd{Name: "home", URL: "mail.example.org", User: "ada",
		Password: "sesame", Direction: "both", Every: "1h"})
	list, err := s.Directory.Connections.List(ctx, note.Who{Roles: []string{directory.RoleAdmin}})
	if err != nil || len(list) != 1 || list[0].Password != "" {
		t.Errorf("an administrator sees %+v: %v", list, err)
	}
	if _, err := s.Directory.Connections.List(ctx, note.Who{Person: note.UNID{1}}); err == nil {
		t.Error("anybody sees connections")
	}
	out, err := s.Run(ctx, note.System, "dump database", []byte(`{"name":"Directory"}`), nil)
	if err == nil && strings.Contains(string(out), "sesame") {
		t.Error("a dump has the password")
	}
	if !directory.SecretItem("UserPassword") {
		t.Error("the item of the password is not secret")
	}
}
