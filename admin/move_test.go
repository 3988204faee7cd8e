package admin

import (
	"context"
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"doublet/bus/pki"
	"doublet/directory"
	"doublet/env"
	"doublet/note"
	"doublet/replica/https"
	"doublet/store"
)

// hasty is a clock on which the wait for the old place takes no time.
type hasty struct{ env.Clock }

func (c hasty) After(d time.Duration) <-chan time.Time {
	if d == settled {
		d = 0
	}
	return c.Clock.After(d)
}

// domainDoor is the door at which other servers of a domain reach a system.
type domainDoor struct {
	own *pki.Own
	url string
	// closed rejects all connections.
	closed atomic.Bool
}

// inDomain gives a system its own key, and serves replication to servers of the domain.
func inDomain(t *testing.T, s *Running) *domainDoor {
	t.Helper()
	own, err := pki.MakeOwn(s.Env, "key", pki.Options{})
	if err != nil {
		t.Fatal(err)
	}
	self := func() *pki.Own { return own }
	connecting(s, nil, self)
	d := &domainDoor{own: own}
	web := httptest.NewUnstartedServer(https.New(s.Replica, s.Store, s.Env, https.Options{
		Server: s.Name,
		Identify: func(r *http.Request) (https.Identity, error) {
			key, _ := pki.PeerKey(r.TLS)
			f, known, err := s.Directory.Servers.ByKey(r.Context(), key)
			if err == nil && (!known || d.closed.Load()) {
				err = directory.ErrNotFound
			}
			return https.Identity{Who: note.System, Name: f.Name, Server: f.ID}, err
		},
		Refuse: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusUnauthorized) },
	}))
	web.TLS = pki.Server(&tls.Config{}, self)
	web.StartTLS()
	t.Cleanup(web.Close)
	d.url = web.URL
	return d
}

// enterMember enters a server into a system's directory, with the given cluster unless it is empty.
func enterMember(t *testing.T, s *Running, d *domainDoor, name, cluster string) {
	t.Helper()
	ctx := context.Background()
	_, err := s.Directory.Servers.Enter(ctx, note.System, d.own.ID,
		directory.ServerFields{Name: name, Key: d.own.Key, Doors: []string{"web " + d.url}})
	if err == nil && cluster != "" {
		err = s.Store.Update(ctx, note.System, []note.DatabaseID{directory.ID}, func(tx *store.Tx) error {
			w, err := tx.Database(directory.ID)
			if err != nil {
				return err
			}
			id, err := w.Find(d.own.ID)
			if err != nil {
				return err
			}
			c, err := w.Content(id)
			if err != nil {
				return err
			}
			c.Content.Items = c.Content.Items.With(directory.ItemCluster, note.Text(cluster))
			return w.Rewrite(id, c.Content)
		})
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestUserMoveAsksAll checks that a move asks every server of the old place at its end. Each may have received mail
// that the others do not have. If one does not answer, the move reports it, and a later run copies its mail.
func TestUserMoveAsksAll(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	one, two, url, print := twoSystems(t)
	three := newSystemOf(t, 3)
	e := *three.Env
	e.Clock = hasty{e.Clock}
	three.Env = &e
	mustDo[Replicated](t, two, "replica copy", ReplicaCopy{URL: url, Fingerprint: print, User: "ada",
		Password: "engine", Direction: "pull", Adopt: true})
	ada, err := one.Directory.Names.PersonNamed(ctx, "ada")
	if err == nil {
		_, err = three.Directory.People.Adopt(ctx, note.System, ada.ID,
			directory.PersonSpec{PersonFields: ada.PersonFields, Password: "engine"})
	}
	if err != nil {
		t.Fatal(err)
	}
	late := func(at *Running, subject string) {
		t.Helper()
		writeFile(t, at, subject, "From bob@example.org Mon Jan  5 09:00:00 2026\nSubject: "+subject+"\n\nbody\n")
		mustDo[Transferred](t, at, "import mbox", ImportMbox{Path: subject, User: "ada"})
	}
	late(one, "at-one") // the other has not received it
	late(two, "at-two")

	doorOne, doorTwo, doorThree := inDomain(t, one), inDomain(t, two), inDomain(t, three)
	for s, d := range map[*Running]*domainDoor{one: doorOne, two: doorTwo, three: doorThree} {
		enterMember(t, s, doorOne, "one", "Pair")
		enterMember(t, s, doorTwo, "two", "Pair")
		enterMember(t, s, doorThree, "three", "")
		s.Directory.Servers.UseServer(d.own.ID)
		err := s.Directory.Servers.FoundDomain(ctx, note.System, doorOne.own.ID)
		if err == nil {
			_, err = s.Directory.People.Set(ctx, note.System, ada.ID,
				func(f *directory.PersonFields) error { f.MailServer = doorOne.own.ID; return nil })
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	move := func(from string, wrong string, want int) {
		t.Helper()
		out, err := Do[Moved](ctx, Direct{three}, "user move", UserMove{Name: "ada", From: from})
		if wrong == "" && (err != nil || out.From != "Pair" || out.To != "three") || wrong != "" &&
			(err == nil || !strings.Contains(err.Error(), wrong)) {
			t.Errorf("%+v: %v", out, err)
		}
		if n := messages(t, three, "ada"); n != want {
			t.Errorf("%d messages came, not %d", n, want)
		}
	}
	doorTwo.closed.Store(true)
	move("", "fetch it with doublet user move --from", 2)
	doorTwo.closed.Store(false)
	move("Pair", "", 3)
	late(two, "later")
	late(one, "latest")
	move("Pair", "", 5)
}
