package directory

import (
	"context"
	"errors"
	"testing"

	"doublet/bus"
	"doublet/note"
	"doublet/store"
)

// enter adds a server document, with the given cluster unless it is empty.
func (w *world) enter(n byte, name, cluster, state string) Server {
	w.t.Helper()
	s, err := w.Servers.Enter(bg, note.System, note.UNID{n},
		ServerFields{Name: name, Key: bus.Key{n}, Doors: []string{"smtp " + name + ":25"}})
	if err == nil && cluster != "" {
		err = w.update(bg, note.System, func(e *edit) error {
			return e.change(s.ID, formServer, func(items note.Items) (note.Items, error) {
				f := fields{items}
				f.text(ItemCluster, cluster)
				f.text(ItemState, state)
				return f.items, nil
			})
		})
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

func (w *world) away(server note.UNID) bool {
	w.t.Helper()
	away, err := w.Servers.Away(bg, server)
	if err != nil {
		w.t.Fatal(err)
	}
	return away
}

// made records the created mail files.
type made struct{ list []note.DatabaseID }

func (*made) Elsewhere(note.DatabaseID) bool { return false }
func (m *made) MakeMailFile(_ context.Context, f MailFile) error {
	m.list = append(m.list, f.ID)
	return nil
}
func (*made) RemoveMailFile(context.Context, note.DatabaseID) error { return nil }

func TestPlaces(t *testing.T) {
	t.Parallel()
	files := &made{}
	w := open(t, func(o *Options) { o.MailFiles = files })
	old, err := w.People.Add(bg, note.System, PersonSpec{PersonFields: PersonFields{FullName: []string{"Old"},
		ShortName: "old"}})
	if err != nil || !old.MailServer.IsZero() || len(files.list) != 1 {
		t.Fatal(old.MailServer, files.list, err)
	}
	one, two, three := w.enter(1, "one", "", ""), w.enter(2, "two", "Pair", "active"), w.enter(3, "three",
		"Pair", "active")
	gone := w.enter(4, "four", "Pair", StateRemoved)
	if list, err := w.Servers.Places(bg); err != nil || len(list) != 0 || w.away(two.ID) {
		t.Fatal("outside a domain there are no places: ", list, err)
	}
	w.Servers.UseServer(one.ID)
	if err := w.Servers.FoundDomain(bg, note.System, one.ID); err != nil {
		t.Fatal(err)
	}
	if err := w.Servers.FoundDomain(bg, note.System, two.ID); err != nil { // the first server does not change
		t.Fatal(err)
	}
	for _, c := range []struct {
		at             note.UNID
		none, one, two bool
	}{
		{one.ID, false, false, true}, {two.ID, true, true, false}, {three.ID, true, true, false},
		{gone.ID, true, true, false},
		{note.UNID{9}, true, true, true}, // a server without a document has no mail files
	} {
		w.Servers.UseServer(c.at)
		if w.away(note.UNID{}) != c.none || w.away(one.ID) != c.one || w.away(two.ID) != c.two ||
			w.away(gone.ID) != c.two || !w.away(note.UNID{8}) {
			t.Errorf("at %s: %v %v %v %v", c.at, w.away(note.UNID{}), w.away(one.ID), w.away(two.ID), w.away(gone.ID))
		}
	}
	w.Servers.UseServer(three.ID)
	list, err := w.Servers.Places(bg)
	if err != nil || len(list) != 2 || list[0].Name != "one" || list[0].Here || list[1].Name != "Pair" ||
		!list[1].Here || len(list[1].Servers) != 2 {
		t.Errorf("%+v, %v", list, err)
	}
	for name, id := range map[string]note.UNID{"ONE": one.ID, "pair": two.ID, "three": three.ID,
		one.ID.String(): one.ID} {
		if s, err := w.Servers.Named(bg, name); err != nil || s.ID != id {
			t.Errorf("%s: %+v, %v", name, s, err)
		}
	}
	if _, err := w.Servers.Named(bg, "five"); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	if _, err := w.Servers.PlaceOf(bg, note.UNID{8}); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	for key, known := range map[bus.Key]bool{one.Key: true, gone.Key: false, {9}: false, {}: false} {
		if _, ok, err := w.Servers.ByKey(bg, key); ok != known || err != nil {
			t.Errorf("%s: %v, %v", key, ok, err)
		}
	}

	// A person added here has the mail file here. No mail file of another place is created here.
	here, err := w.People.Add(bg, note.System, PersonSpec{PersonFields: PersonFields{FullName: []string{"Here"},
		ShortName: "here"}})
	there, err2 := w.People.Add(bg, note.System, PersonSpec{PersonFields: PersonFields{FullName: []string{"There"},
		ShortName: "there", MailServer: one.ID}})
	if err != nil || err2 != nil || here.MailServer != three.ID || len(files.list) != 2 ||
		files.list[1] != here.MailDatabase {
		t.Fatal(here.MailServer, files.list, err, err2)
	}
	letters, err := w.MailIns.Add(bg, note.System, MailInFields{Name: "Letters", InternetAddress: "letters@example.com",
		Database: 7})
	if err != nil || letters.MailServer != three.ID {
		t.Error("a mail-in database belongs where it is made: ", letters.MailServer, err)
	}
	if err := w.People.EnsureMailFile(bg, there.ID); err != nil || len(files.list) != 2 {
		t.Error(err, files.list)
	}
	var elsewhere *ElsewhereError
	if _, err := w.People.MailFileOf(bg, &there); !errors.As(err, &elsewhere) || elsewhere.User != "there" ||
		elsewhere.Server() != "one" || elsewhere.Door("smtp") != "one:25" || elsewhere.Door("imap") != "" {
		t.Errorf("%+v, %v", elsewhere, err)
	}
	if id, err := w.People.MailFileOf(bg, &here); err != nil || id != here.MailDatabase {
		t.Error(id, err)
	}
	target, err := w.Names.TargetOf(bg, there.ID)
	if err != nil || target.MailServer != one.ID || target.Database != there.MailDatabase {
		t.Errorf("%+v, %v", target, err)
	}
	if err := w.People.Remove(bg, note.System, there.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Names.TargetOf(bg, there.ID); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}

	// The edition changes only when the servers change.
	edition := func() uint64 {
		n, err := w.Servers.Edition(bg)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := edition()
	if err := w.Domains.Add(bg, note.System, "example.net"); err != nil || edition() != before {
		t.Error("another Internet domain is no other server", err)
	}
	if _, err := w.Servers.Set(bg, note.System, one.ID, func(f *ServerFields) error {
		f.Doors = []string{"smtp other:25"}
		return nil
	}); err != nil || edition() == before {
		t.Error("another door is another edition", err)
	}
	err = w.store.Read(bg, note.System, ID, func(r *store.Reader) error {
		_, c, err := find(r, two.ID)
		if err == nil && c.Content.Items.Get(ItemCluster).AsText() != "Pair" {
			t.Error("the directory forgot what is the cluster's")
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
