package directory

import (
	"fmt"
	"testing"

	"doublet/env"
	"doublet/note"
	"doublet/store"
)

func TestCacheIsBounded(t *testing.T) {
	t.Parallel()
	c := newNameCache(3, nil)
	key := func(i int) cacheKey { return cacheKey{kind: 'a', text: fmt.Sprint(i)} }
	for i := range 5 {
		c.put(key(i), 1, answer{target: Target{Name: fmt.Sprint(i)}})
		c.get(key(0), 1) // stays, because it is in use
	}
	for i, want := range []bool{true, false, false, true, true} {
		if a, ok := c.get(key(i), 1); ok != want || ok && a.target.Name != fmt.Sprint(i) {
			t.Errorf("%d: %v %v", i, a, ok)
		}
	}
	c.put(key(4), 1, answer{})
	if c.len() != 3 {
		t.Error(c.len())
	}
	if _, ok := c.get(key(3), 2); ok || c.len() != 2 {
		t.Error("an answer of an older version was given, or kept")
	}
	// A long answer displaces several short ones.
	who := &note.Who{Groups: make([]note.UNID, 100)}
	c = newNameCache(4, nil)
	for i := range 4 {
		c.put(key(i), 1, answer{who: who})
	}
	if c.len() != 2 || c.weight > 4*entryWeight {
		t.Errorf("%d entries weigh %d", c.len(), c.weight)
	}
	off := newNameCache(-1, nil)
	off.put(key(1), 1, answer{})
	if off.len() != 0 {
		t.Error("a cache that is off keeps something")
	}
}

func TestCacheIsInvalidated(t *testing.T) {
	t.Parallel()
	w := open(t)
	alice := w.add("Alice", "alice")
	lookups := func() (hits float64) {
		for _, e := range w.stats.Snapshot("Directory.NameCache.Hits") {
			hits = e.Value
		}
		return hits
	}
	w.resolves("alice@example.com", alice.ID)
	before := lookups()
	w.resolves("alice@example.com", alice.ID)
	if lookups() != before+1 {
		t.Error("the second look-up was no hit")
	}
	// Change the database without the directory's methods, as replication does.
	version := w.Version()
	err := w.store.Update(bg, note.System, []note.DatabaseID{ID}, func(tx *store.Tx) error {
		wr, err := tx.Database(ID)
		if err != nil {
			return err
		}
		id, err := wr.Find(alice.ID)
		if err != nil {
			return err
		}
		c, err := wr.Content(id)
		if err != nil {
			return err
		}
		win, _ := c.Tree.Winner()
		next := c.Content
		next.Items = next.Items.With(itemInternetAddress, note.Text("moved@example.com")).With(itemShortName,
			nil).With(itemFullName, note.TextList("Moved"))
		_, err = wr.Revise(id, win.Rev, next, nil)
		return err
	})
	w.ok(err)
	if w.Version() == version {
		t.Fatal("the version is the same after a change")
	}
	w.resolves("alice@example.com", note.UNID{})
	w.resolves("moved@example.com", alice.ID)
	if p, err := w.Names.Person(bg, alice.ID); err != nil || p.Name() != "Moved" {
		t.Error(p, err)
	}
}

func TestReopen(t *testing.T) {
	t.Parallel()
	w := open(t)
	alice := w.add("Alice", "alice", func(s *PersonSpec) { s.Password = "wonder" })
	w.end()
	// Another default domain in the options has no effect if a domain exists.
	w.start(func(o *Options) { o.Domain = "other.example" })
	w.resolves("alice@example.com", alice.ID)
	if got, err := w.Domains.List(bg); err != nil || len(got) != 1 || got[0] != "example.com" {
		t.Error(got, err)
	}
	_, _, err := w.SignIns.Authenticate(bg, "alice", "wonder", "t")
	w.ok(err)
}

// TestSameNameTwice checks that disconnected replicas may both have assigned a name. Every server chooses the same
// document.
func TestSameNameTwice(t *testing.T) {
	t.Parallel()
	w := open(t)
	low, high := note.UNID{1}, note.UNID{2}
	err := w.store.Update(bg, note.System, []note.DatabaseID{ID}, func(tx *store.Tx) error {
		wr, err := tx.Database(ID)
		if err != nil {
			return err
		}
		for _, u := range []note.UNID{high, low} {
			f := PersonFields{FullName: []string{"Twin"}, InternetAddress: "twin@example.com", MailDatabase: 4}
			if _, err := wr.Create(store.New{UNID: u, Content: note.Content{Items: f.write(nil)}}); err != nil {
				return err
			}
		}
		return nil
	})
	w.ok(err)
	w.resolves("twin@example.com", low)
	// The listing shows both, so that an administrator can rename one.
	list, next, err := w.People.List(bg, "", 1, "")
	if err != nil || len(list) != 2 || next != "" {
		t.Error(list, next, err)
	}
	_, err = w.People.Set(bg, note.System, high, func(f *PersonFields) error { f.Quota = 1; return nil })
	w.ok(err) // names that do not change are not checked
	_, err = w.People.Set(bg, note.System, high, func(f *PersonFields) error {
		f.FullName, f.InternetAddress = []string{"Twin the Second"}, "twin2@example.com"
		return nil
	})
	w.ok(err)
	w.resolves("twin2@example.com", high)
}

// TestCrash checks that acknowledged data, also the secret, survives a power cut.
func TestCrash(t *testing.T) {
	t.Parallel()
	w := open(t)
	alice := w.add("Alice", "alice", func(s *PersonSpec) { s.Password, s.Scram = "wonder", true })
	_, secret, err := w.Passwords.AddApp(bg, note.System, alice.ID, "phone")
	w.ok(err)
	for seed := range uint64(3) {
		after := &world{t: t, fix: w.fix.Crash(50, seed)}
		after.start()
		after.resolves("alice@example.com", alice.ID)
		_, _, err := after.SignIns.Authenticate(bg, "alice", secret, "t")
		after.ok(err)
		after.ok(after.scramSignIn("alice", "wonder"))
		after.end()
	}
}

// TestHalfMade checks that an interrupted first start is completed by the next start.
func TestHalfMade(t *testing.T) {
	t.Parallel()
	w := &world{t: t, fix: env.Test(t)}
	s, err := store.Open(w.fix.Env, "data", storeOptions())
	w.ok(err)
	_, err = s.CreateDatabase(note.System, store.Create{ID: ID, Title: "Directory", Kind: Kind})
	w.ok(err)
	w.ok(s.Close())
	w.start()
	defer w.end()
	w.resolves("alice@example.com", w.add("Alice", "alice").ID)
}

// TestNobodyReadsIt checks that the database's access list grants nothing to people.
func TestNobodyReadsIt(t *testing.T) {
	t.Parallel()
	w := open(t)
	alice := w.add("Alice", "alice", func(s *PersonSpec) { s.Roles = []string{"Admin"} })
	who, err := w.Names.WhoOf(bg, alice.ID)
	w.ok(err)
	err = w.store.Read(bg, who, ID, func(r *store.Reader) error {
		id, err := r.Find(alice.ID)
		if err == nil {
			_, err = r.Content(id)
		}
		return err
	})
	w.want(err, store.ErrNotFound)
}
