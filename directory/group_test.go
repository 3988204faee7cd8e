package directory

import (
	"fmt"
	"slices"
	"testing"

	"doublet/note"
)

// expand resolves addresses and expands the targets. It returns the recipients' names.
func (w *world) expand(addresses ...string) (names, outside []string, err error) {
	w.t.Helper()
	var targets []Target
	for _, a := range addresses {
		x, err := w.Names.Resolve(bg, a)
		w.ok(err)
		targets = append(targets, x)
	}
	x, err := w.Names.Expand(bg, targets)
	for _, r := range x.Recipients {
		if r.Database == 0 || r.ID.IsZero() {
			w.t.Errorf("recipient %+v", r)
		}
		names = append(names, r.Name)
	}
	return names, x.Outside, err
}

func TestExpand(t *testing.T) {
	t.Parallel()
	w := open(t)
	for _, n := range []string{"alice", "bob", "carol", "dave"} {
		w.add(n, n)
	}
	w.mailIn("Box", "box@example.com")
	inner := w.group("Inner", "", "bob", "carol@example.com", "far@elsewhere.org", "box")
	outer := w.group("Outer", "outer@example.com", "alice", inner.ID.String(), "bob", "far@elsewhere.org",
		"near@elsewhere.org")
	// A cycle, and a group that contains itself.
	_, err := w.Groups.Set(bg, note.System, inner.ID, func(f *GroupFields) error {
		f.Members = append(f.Members, "Outer", "Inner")
		return nil
	})
	w.ok(err)
	names, outside, err := w.expand("outer@example.com")
	w.ok(err)
	if want := []string{"alice", "bob", "carol", "Box"}; !slices.Equal(names, want) {
		t.Errorf("%v, want %v", names, want)
	}
	if want := []string{"far@elsewhere.org", "near@elsewhere.org"}; !slices.Equal(outside, want) {
		t.Errorf("%v, want %v", outside, want)
	}
	names, _, err = w.expand("dave@example.com", "carol+x@example.com", "outer@example.com", "dave+y@example.com")
	w.ok(err)
	if want := []string{"dave", "carol", "alice", "bob", "Box"}; !slices.Equal(names, want) {
		t.Errorf("%v, want %v", names, want)
	}
	// Without groups Expand reads nothing, but still removes duplicates.
	names, _, err = w.expand("dave@example.com", "dave+y@example.com", "box@example.com")
	w.ok(err)
	if want := []string{"dave", "Box"}; !slices.Equal(names, want) {
		t.Errorf("%v, want %v", names, want)
	}
	// A removed person is skipped, and returns after Undo.
	bob, err := w.Names.PersonNamed(bg, "bob")
	w.ok(err)
	w.ok(w.People.Remove(bg, note.System, bob.ID))
	names, _, err = w.expand("outer@example.com")
	w.ok(err)
	if slices.Contains(names, "bob") {
		t.Error(names)
	}
	w.ok(w.Groups.Remove(bg, note.System, inner.ID))
	names, _, err = w.expand("outer@example.com")
	w.ok(err)
	if want := []string{"alice"}; !slices.Equal(names, want) {
		t.Errorf("%v, want %v", names, want)
	}
	w.ok(w.Removals.Undo(bg, note.System, inner.ID))
	w.ok(w.Removals.Undo(bg, note.System, bob.ID))
	names, _, err = w.expand("outer@example.com")
	w.ok(err)
	if want := []string{"alice", "bob", "carol", "Box"}; !slices.Equal(names, want) {
		t.Errorf("%v, want %v", names, want)
	}
	got, err := w.Groups.Get(bg, outer.ID)
	w.ok(err)
	for _, m := range got.Members[:3] {
		if _, err := note.ParseUNID(m); err != nil {
			t.Errorf("member %q is kept by name", m)
		}
	}
}

func TestExpandIsBounded(t *testing.T) {
	t.Parallel()
	w := open(t, func(o *Options) { o.MaxMembers = 5 })
	var few []string
	for i := range 3 {
		few = append(few, w.add(fmt.Sprint("p", i), "").ID.String())
	}
	a := w.group("A", "a@example.com", append(few, "x@elsewhere.org", "y@elsewhere.org")...)
	w.group("B", "b@example.com", a.ID.String(), "z@elsewhere.org")
	_, _, err := w.expand("a@example.com")
	w.ok(err)
	_, _, err = w.expand("b@example.com")
	w.want(err, ErrTooMany)
	_, err = w.Groups.Add(bg, note.System, GroupFields{Name: "C",
		Members: []string{"a@x.org", "b@x.org", "c@x.org", "d@x.org", "e@x.org", "f@x.org"}})
	w.want(err, ErrTooMany)

	deep := open(t)
	member := deep.add("p", "p").ID
	for i := range maxDepth {
		member = deep.group(fmt.Sprint("g", i), fmt.Sprintf("g%d@example.com", i), member.String()).ID
	}
	if names, _, err := deep.expand(fmt.Sprintf("g%d@example.com", maxDepth-1)); err != nil || len(names) != 1 {
		t.Error(names, err)
	}
	deep.group("deepest", "deepest@example.com", member.String())
	_, _, err = deep.expand("deepest@example.com")
	deep.want(err, ErrTooMany)
}

func TestGroupKinds(t *testing.T) {
	t.Parallel()
	w := open(t)
	alice := w.add("Alice", "alice", func(s *PersonSpec) { s.Roles = []string{"Admin"} })
	make := func(name, address string, kind GroupKind, members ...string) Group {
		g, err := w.Groups.Add(bg, note.System, GroupFields{Name: name, InternetAddress: address, Kind: kind,
			Members: members})
		w.ok(err)
		return g
	}
	multi := make("Multi", "", "", "alice")
	mail := make("Mail", "mail@example.com", GroupMail, "alice", "Multi")
	access := make("Access", "", GroupAccess, "Multi", "Mail")
	top := make("Top", "top@example.com", GroupMulti, "Access")
	behind := make("Behind", "", GroupMulti, "Mail")
	_, err := w.Groups.Set(bg, note.System, multi.ID,
		func(f *GroupFields) error { f.Members = append(f.Members, "Top"); return nil })
	w.ok(err)

	who, err := w.Names.WhoOf(bg, alice.ID)
	w.ok(err)
	for g, in := range map[note.UNID]bool{multi.ID: true, access.ID: true, top.ID: true, mail.ID: false,
		behind.ID: false} {
		if slices.Contains(who.Groups, g) != in {
			n, _ := w.Names.NameOf(bg, g)
			t.Errorf("in %s is not %v", n, in)
		}
	}
	if len(who.Groups) != 3 || who.Person != alice.ID || who.System || RequireAdmin(who) != nil {
		t.Errorf("%+v", who)
	}
	for range 2 { // the second time from the cache
		all, err := w.Names.AllGroupsOf(bg, alice.ID)
		if err != nil || len(all) != 5 || !slices.Contains(all, mail.ID) || !slices.Contains(all, behind.ID) {
			t.Errorf("all groups: %v %v", all, err)
		}
	}
	// Groups for access only get no mail, neither by address nor as a member.
	w.resolves("access@example.com", note.UNID{})
	w.resolves("multi@example.com", note.UNID{}) // it has no address
	names, _, err := w.expand("top@example.com")
	if err != nil || names != nil {
		t.Error(names, err)
	}
	_, err = w.Groups.Add(bg, note.System, GroupFields{Name: "X", Kind: GroupAccess, InternetAddress: "x@example.com"})
	w.want(err, ErrInvalid)
	_, err = w.Groups.Add(bg, note.System, GroupFields{Name: "X", Kind: "odd"})
	w.want(err, ErrInvalid)
	_, err = w.Groups.Add(bg, note.System, GroupFields{Name: "X", Members: []string{"nobody"}})
	w.want(err, ErrNotFound)
	_, err = w.Groups.Add(bg, note.System, GroupFields{Name: "X", Members: []string{"nobody@example.com"}})
	w.want(err, ErrNotFound)
	_, err = w.Groups.Add(bg, note.System, GroupFields{Name: "X", Members: []string{note.UNID{9}.String()}})
	w.want(err, ErrNotFound)
	_, err = w.Groups.Add(bg, note.System, GroupFields{Name: "X", Members: []string{unidDomains.String()}})
	w.want(err, ErrInvalid)
	_, err = w.Groups.Add(bg, note.System, GroupFields{Name: "alice"})
	w.want(err, ErrNameTaken)
	_, err = w.Groups.Add(bg, note.Who{Person: note.UNID{3}}, GroupFields{Name: "X"})
	w.want(err, ErrDenied)

	// The next WhoOf sees a change of a group.
	if who.Directory != w.Version() {
		t.Error("a Who that is current does not look so")
	}
	w.ok(w.Groups.Remove(bg, note.System, top.ID))
	if who.Directory == w.Version() {
		t.Error("a Who that is out of date looks current")
	}
	who, err = w.Names.WhoOf(bg, alice.ID)
	w.ok(err)
	if len(who.Groups) != 2 {
		t.Error(who.Groups)
	}
	if all, err := w.Names.AllGroupsOf(bg, alice.ID); err != nil || len(all) != 4 {
		t.Error(all, err)
	}
}

func TestMailInAndServers(t *testing.T) {
	t.Parallel()
	w := open(t)
	m := w.mailIn("Box", "box@example.com")
	_, err := w.MailIns.Set(bg, note.System, m.ID, func(f *MailInFields) error {
		f.InternetAddress, f.Database = "crate@example.com", 78
		return nil
	})
	w.ok(err)
	w.resolves("box+x@example.com", m.ID) // by its name
	if got, err := w.MailIns.Named(bg, "crate@example.com"); err != nil || got.Database != 78 {
		t.Error(got, err)
	}
	_, err = w.MailIns.Add(bg, note.System, MailInFields{Name: "Other", InternetAddress: "crate@example.com",
		Database: 1})
	w.want(err, ErrNameTaken)
	_, err = w.MailIns.Add(bg, note.System, MailInFields{Name: "Other", InternetAddress: "other@example.com"})
	w.want(err, ErrInvalid)
	_, err = w.MailIns.Add(bg, note.System, MailInFields{Name: "Other", Database: 1})
	w.want(err, ErrInvalid)
	list, next, err := w.MailIns.List(bg, "", 0, "")
	if err != nil || len(list) != 1 || next != "" {
		t.Error(list, next, err)
	}
	w.ok(w.MailIns.Remove(bg, note.System, m.ID))
	w.resolves("crate@example.com", note.UNID{})

	s, err := w.Servers.Add(bg, note.System, ServerFields{Name: "Box", Host: "Mail.Example.com"})
	w.ok(err)
	_, err = w.Servers.Add(bg, note.System, ServerFields{Name: "box"})
	w.want(err, ErrNameTaken)
	_, err = w.Servers.Add(bg, note.System, ServerFields{Name: "box2", Host: "not a host"})
	w.want(err, ErrInvalid)
	_, err = w.Servers.Set(bg, note.System, s.ID, func(f *ServerFields) error { f.Name = "Crate"; return nil })
	w.ok(err)
	servers, _, err := w.Servers.List(bg, "", 0, "")
	if err != nil || len(servers) != 1 || servers[0].Name != "Crate" || servers[0].Host != "mail.example.com" {
		t.Error(servers, err)
	}
	w.ok(w.Servers.Remove(bg, note.System, s.ID))

	// Enter a server with a given id twice.
	id := note.UNID{7}
	for range 2 {
		s, err = w.Servers.Enter(bg, note.System, id, ServerFields{Name: "Twice", Host: "twice.example.com"})
		w.ok(err)
		if s.ID != id || s.Name != "Twice" {
			t.Errorf("%+v", s)
		}
	}
	_, err = w.Servers.Enter(bg, note.System, note.UNID{8}, ServerFields{Name: "twice"})
	w.want(err, ErrNameTaken)
	w.ok(w.Servers.Remove(bg, note.System, id))
	_, err = w.Servers.Enter(bg, note.System, id, ServerFields{Name: "Twice"})
	w.want(err, ErrNotFound)
}
