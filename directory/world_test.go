package directory

import (
	"context"
	"errors"
	"testing"

	"doublet/directory/password"
	"doublet/env"
	"doublet/note"
	"doublet/stat"
	"doublet/store"
)

// world is a directory in memory.
type world struct {
	*Directory
	t     testing.TB
	fix   *env.Fixture
	store *store.Store
	stats *stat.Tree
}

func storeOptions() store.Options {
	return store.Options{FloorBytes: -1, Ballast: -1, Indexes: Indexes()}
}

func open(t testing.TB, change ...func(*Options)) *world {
	t.Helper()
	w := &world{t: t, fix: env.Test(t)}
	w.start(change...)
	t.Cleanup(w.end)
	return w
}

func (w *world) start(change ...func(*Options)) {
	w.t.Helper()
	s, err := store.Open(w.fix.Env, "data", storeOptions())
	if err != nil {
		w.t.Fatal(err)
	}
	w.store, w.stats = s, stat.New(w.fix.Clock)
	o := Options{Domain: "example.com", Stats: w.stats}
	for _, c := range change {
		c(&o)
	}
	if w.Directory, err = Open(s, w.fix.Env, password.New(w.fix.Env, 2, 100), o); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) end() {
	w.Close()
	if err := w.store.Close(); err != nil {
		w.t.Error(err)
	}
}

var bg = context.Background()

func (w *world) ok(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) want(err, kind error) {
	w.t.Helper()
	if !errors.Is(err, kind) {
		w.t.Fatalf("error is %v, not %v", err, kind)
	}
}

// add adds a person with a full name and a short name.
func (w *world) add(full, short string, change ...func(*PersonSpec)) Person {
	w.t.Helper()
	s := PersonSpec{PersonFields: PersonFields{FullName: []string{full}, ShortName: short}}
	for _, c := range change {
		c(&s)
	}
	p, err := w.People.Add(bg, note.System, s)
	w.ok(err)
	return p
}

func (w *world) group(name, address string, members ...string) Group {
	w.t.Helper()
	g, err := w.Groups.Add(bg, note.System, GroupFields{Name: name, InternetAddress: address, Members: members})
	w.ok(err)
	return g
}

// resolves checks the recipient of an address. A zero id expects ErrNoSuchRecipient.
func (w *world) resolves(address string, id note.UNID) Target {
	w.t.Helper()
	x, err := w.Names.Resolve(bg, address)
	if id.IsZero() {
		if !errors.Is(err, ErrNoSuchRecipient) {
			w.t.Fatalf("%s: %v, %v; want no such recipient", address, x, err)
		}
		return x
	}
	if err != nil || x.ID != id {
		w.t.Fatalf("%s: %v %v, want %v", address, x, err, id)
	}
	return x
}
