package directory

import (
	"testing"

	"doublet/note"
)

func TestResolve(t *testing.T) {
	t.Parallel()
	w := open(t)
	w.ok(w.Domains.Add(bg, note.System, "Müller.example"))
	alice := w.add("Alice Smith", "alice", func(s *PersonSpec) {
		s.MailAddress = []string{"A.Smith@EXAMPLE.com", "list+explicit@example.com", "jörg@xn--mller-kva.example"}
		s.SizeLimit = 1000
	})
	bob := w.add("Bob", "", func(s *PersonSpec) { s.InternetAddress = `"Bob The Builder"@example.com` })
	box := w.mailIn("Invoices", "invoices@example.com")
	if alice.InternetAddress != "alice@example.com" {
		t.Fatalf("address is %q", alice.InternetAddress)
	}
	var nobody note.UNID
	for _, c := range []struct {
		address string
		id      note.UNID
		detail  string
	}{
		{"alice@example.com", alice.ID, ""},
		{"ALICE@Example.COM", alice.ID, ""},
		{"a.smith@example.com", alice.ID, ""},
		{"alice+News@example.com", alice.ID, "News"},
		{"alice+a+b@example.com", alice.ID, "a+b"},
		{"alice+@example.com", alice.ID, ""},
		{"list+explicit@example.com", alice.ID, ""},
		{"LIST+explicit@example.com", alice.ID, ""},
		{"list@example.com", nobody, ""},
		{"list+other@example.com", nobody, ""},
		{"+alice@example.com", nobody, ""},
		{"alice@müller.example", alice.ID, ""}, // by short name, under every local domain
		{"jörg@müller.example", alice.ID, ""},
		{"JÖRG@XN--MLLER-KVA.example", alice.ID, ""},
		{"jo\u0308rg@mu\u0308ller.example", alice.ID, ""}, // NFD
		{"jörg@example.com", nobody, ""},
		{`"alice smith"@example.com`, alice.ID, ""},
		{`"alice"@example.com`, alice.ID, ""},
		{`"bob the builder"@example.com`, bob.ID, ""},
		{"bob@example.com", bob.ID, ""},
		{"invoices+7@example.com", box.ID, "7"},
		{"carol@example.com", nobody, ""},
	} {
		// The cache answers the second lookup.
		for range 2 {
			if got := w.resolves(c.address, c.id); got.Detail != c.detail {
				t.Errorf("%s: detail %q, want %q", c.address, got.Detail, c.detail)
			}
		}
	}
	got := w.resolves("alice@example.com", alice.ID)
	if got.Kind != TargetPerson || got.Database != alice.MailDatabase || got.Database == 0 || got.SizeLimit != 1000 ||
		got.Name != "Alice Smith" {
		t.Errorf("target is %+v", got)
	}
	if got := w.resolves("invoices@example.com", box.ID); got.Kind != TargetMailIn || got.Database != 77 {
		t.Errorf("target is %+v", got)
	}
	_, err := w.Names.Resolve(bg, "alice@elsewhere.org")
	w.want(err, ErrNotLocal)
	_, err = w.Names.Resolve(bg, "alice@[127.0.0.1]")
	w.want(err, ErrNotLocal)
	for _, bad := range []string{"", "alice", "@example.com", "a@b@example.com", "a..b@example.com", "alice@",
		"alice@-example.com", "al ice@example.com", "alice@exa mple.com"} {
		_, err := w.Names.Resolve(bg, bad)
		w.want(err, ErrInvalid)
	}
}

func (w *world) mailIn(name, address string) MailIn {
	w.t.Helper()
	m, err := w.MailIns.Add(bg, note.System, MailInFields{Name: name, InternetAddress: address, Database: 77})
	w.ok(err)
	return m
}

func TestPostmaster(t *testing.T) {
	t.Parallel()
	w := open(t)
	var nobody note.UNID
	w.resolves("postmaster@example.com", nobody)
	admin := w.add("Root", "root", func(s *PersonSpec) { s.Roles = []string{"admin"} })
	w.add("Second", "second", func(s *PersonSpec) { s.Roles = []string{"Admin"} })
	for _, a := range []string{"postmaster@example.com", "Postmaster", "ABUSE@example.com",
		"postmaster+x@example.com"} {
		if got := w.resolves(a, admin.ID); !got.ByRole || got.Database != admin.MailDatabase {
			t.Errorf("%s: %+v", a, got)
		}
	}
	help := w.add("Help Desk", "postmaster")
	if got := w.resolves("postmaster@example.com", help.ID); got.ByRole {
		t.Errorf("%+v", got)
	}
	w.resolves("abuse@example.com", admin.ID)
	w.ok(w.People.Remove(bg, note.System, help.ID))
	w.resolves("postmaster@example.com", admin.ID)
}

func TestLookupByName(t *testing.T) {
	t.Parallel()
	w := open(t)
	alice := w.add("Älice  Smith", "alice", func(s *PersonSpec) {
		s.FullName = append(s.FullName, "Alice Jones")
		s.MailAddress = []string{"asmith@example.com"}
	})
	for _, n := range []string{"älice smith", "ALICE JONES", " alice\tjones ", "Alice", "alice@example.com",
		"ASmith@example.com", "A\u0308lice Smith"} {
		p, err := w.Names.PersonNamed(bg, n)
		if err != nil || p.ID != alice.ID || p.Name() != "Älice Smith" {
			t.Errorf("%q: %v %v", n, p.Name(), err)
		}
	}
	for _, n := range []string{"", "bob", "smith", "alice+x@example.com", "alice@other.org", "a\x00b", "\xff",
		"postmaster@example.com"} {
		_, err := w.Names.PersonNamed(bg, n)
		w.want(err, ErrNotFound)
	}
	g := w.group("Team", "", "alice")
	_, err := w.Names.PersonNamed(bg, "team")
	w.want(err, ErrNotFound)
	if got, err := w.Groups.Named(bg, "TEAM"); err != nil || got.ID != g.ID {
		t.Error(got, err)
	}
	if n, err := w.Names.NameOf(bg, g.ID); err != nil || n != "Team" {
		t.Error(n, err)
	}
	_, err = w.Names.NameOf(bg, note.UNID{1})
	w.want(err, ErrNotFound)
	_, err = w.Names.Person(bg, g.ID)
	w.want(err, ErrNotFound)
}

func TestMaySendAs(t *testing.T) {
	t.Parallel()
	w := open(t)
	alice := w.add("Alice Smith", "alice", func(s *PersonSpec) { s.MailAddress = []string{"sales@example.com"} })
	w.add("Bob", "bob")
	w.group("Team", "team@example.com", "alice")
	who, err := w.Names.WhoOf(bg, alice.ID)
	w.ok(err)
	for a, want := range map[string]bool{
		"alice@example.com": true, "Alice+x@example.com": true, "sales@example.com": true, "sales+1@example.com": true,
		"bob@example.com": false, "team@example.com": false, "nobody@example.com": false, "alice@other.org": false,
		"postmaster@example.com": false, "": false, "x": false,
	} {
		if got, err := w.Names.MaySendAs(bg, who, a); err != nil || got != want {
			t.Errorf("%q: %v %v", a, got, err)
		}
	}
	if got, err := w.Names.MaySendAs(bg, note.System, "any@thing"); err != nil || !got {
		t.Error(got, err)
	}
}

func TestDomains(t *testing.T) {
	t.Parallel()
	w := open(t)
	alice := w.add("Alice", "alice")
	list := func(want ...string) {
		t.Helper()
		got, err := w.Domains.List(bg)
		w.ok(err)
		if len(got) != len(want) {
			t.Fatalf("%v, want %v", got, want)
		}
		for i := range got {
			if got[i] != want[i] {
				t.Fatalf("%v, want %v", got, want)
			}
		}
	}
	list("example.com")
	w.ok(w.Domains.Add(bg, note.System, "XN--MLLER-KVA.de"))
	w.ok(w.Domains.Add(bg, note.System, "müller.DE"))
	list("example.com", "müller.de")
	w.ok(w.Domains.SetDefault(bg, note.System, "new.example"))
	list("new.example", "example.com", "müller.de")
	w.resolves("alice@new.example", alice.ID)
	if bob := w.add("Bob", "bob"); bob.InternetAddress != "bob@new.example" {
		t.Error(bob.InternetAddress)
	}
	w.ok(w.Domains.Remove(bg, note.System, "example.com"))
	_, err := w.Names.Resolve(bg, "alice@example.com")
	w.want(err, ErrNotLocal)
	// An address in a removed domain does not prevent changes of other fields.
	_, err = w.People.Set(bg, note.System, alice.ID, func(f *PersonFields) error { f.Quota = 5; return nil })
	w.ok(err)
	_, err = w.People.Set(bg, note.System, alice.ID,
		func(f *PersonFields) error { f.MailAddress = []string{"x@strange.org"}; return nil })
	w.want(err, ErrInvalid)
	for d, want := range map[string]bool{"MÜLLER.de": true, "example.com": false, "": false, "a b": false} {
		if got, err := w.Domains.IsLocal(bg, d); err != nil || got != want {
			t.Errorf("%q: %v %v", d, got, err)
		}
	}
	w.want(w.Domains.Add(bg, note.System, "no domain"), ErrInvalid)
	w.want(w.Domains.Add(bg, note.Who{Person: alice.ID}, "evil.org"), ErrDenied)
}
