package directory

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"doublet/directory/assist"
	"doublet/directory/assist/ldaptest"
	"doublet/note"
	"doublet/wire/ldap"
)

// otherPerson returns an entry of another directory.
func otherPerson(uid, cn, mail string) ldaptest.Entry {
	return ldaptest.Entry{DN: "uid=" + uid + ",dc=x", Password: "secret-" + uid, Attributes: map[string][]string{
		"objectclass": {"inetOrgPerson"}, "uid": {uid}, "cn": {cn}, "mail": {mail}}}
}

// other starts another directory and uses it.
func (w *world) other(change func(*AssistanceFields), entries ...ldaptest.Entry) (*ldaptest.Server, OtherDirectory) {
	w.t.Helper()
	srv := ldaptest.Serve(w.t, w.fix.Env, nil, append(entries, ldaptest.Entry{DN: "dc=x"})...)
	f := AssistanceFields{Name: "corp",
		Settings: assist.Settings{URLs: []string{"ldap://" + srv.Address}, Base: "dc=x"}}
	if change != nil {
		change(&f)
	}
	d, err := w.Assistance.Add(bg, note.System, f)
	w.ok(err)
	return srv, d
}

func (w *world) signsIn(user, secret string) Proof {
	w.t.Helper()
	p, err := w.SignIns.SignIn(bg, user, secret, "test")
	w.ok(err)
	return p
}

func (w *world) refuses(user, secret string, kind error) {
	w.t.Helper()
	_, err := w.SignIns.SignIn(bg, user, secret, "test")
	w.want(err, kind)
}

// TestAssisted checks a person whose password another directory keeps.
func TestAssisted(t *testing.T) {
	t.Parallel()
	w := open(t)
	srv, d := w.other(nil, otherPerson("nora", "Nora New", "nora@example.com"))
	p := w.add("Nora New", "nora", func(s *PersonSpec) { s.Password, s.Scram = "local", true })
	_, app, err := w.Passwords.AddApp(bg, note.System, p.ID, "phone")
	w.ok(err)
	was := w.signsIn("nora", "local").Person.PasswordID
	assisted := func(id note.UNID) {
		t.Helper()
		p, err = w.People.Set(bg, note.System, p.ID, func(f *PersonFields) error { f.Assistance = id; return nil })
		w.ok(err)
	}
	assisted(d.ID)
	w.refuses("nora", "local", ErrAuthentication)
	w.refuses("nora", "", ErrAuthentication)
	for _, user := range []string{"nora", "Nora New", "nora@example.com"} {
		got := w.signsIn(user, "secret-nora")
		if got.Person.ID != p.ID || got.Person.PasswordID == was || !got.Person.HasPassword || got.Person.HasScram {
			t.Errorf("%s: %+v", user, got.Person)
		}
	}
	// App passwords, and SCRAM with them alone, work as before.
	if got := w.signsIn("nora", app); got.App == "" {
		t.Error("the app password is taken for another one")
	}
	if list, err := w.SignIns.ScramCredentials(bg, "nora"); err != nil || len(list) != 1 {
		t.Errorf("SCRAM: %d credentials, %v", len(list), err)
	}
	w.want(w.Passwords.Set(bg, note.System, p.ID, "another", false), ErrInvalid)

	srv.Fault(ldap.OpBind, ldaptest.Away)
	w.refuses("nora", "wrong", assist.ErrAway)
	w.signsIn("nora", app)
	srv.Fault(ldap.OpBind, ldaptest.None)
	_, err = w.Assistance.Set(bg, note.System, d.ID, func(f *AssistanceFields) error { f.Off = true; return nil })
	w.ok(err)
	w.refuses("nora", "secret-nora", assist.ErrAway)
	w.ok(w.Assistance.Remove(bg, note.System, d.ID))
	w.refuses("nora", "secret-nora", assist.ErrAway)
	assisted(note.UNID{})
	w.refuses("nora", "local", ErrAuthentication) // the password here ended when the other one began
	w.ok(w.Passwords.Set(bg, note.System, p.ID, "new", false))
	w.signsIn("nora", "new")
	_, err = w.People.Set(bg, note.System, p.ID, func(f *PersonFields) error { f.Assistance = d.ID; return nil })
	w.want(err, ErrNotFound)
}

// TestEnroll checks people whom the first sign-in adds, and names that are those of somebody else.
func TestEnroll(t *testing.T) {
	t.Parallel()
	w := open(t)
	mallory := w.add("Mallory", "mallory", func(s *PersonSpec) { s.Password = "local" })
	w.add("Ann Smith", "ann")
	srv, d := w.other(func(f *AssistanceFields) { f.Enroll, f.Domains = true, []string{"example.com"} },
		otherPerson("nora", "Nora New", "nora@example.com"), otherPerson("Zed", "Zed", "zed@elsewhere.example"),
		otherPerson("mallory", "M", "m2@example.com"), otherPerson("postmaster", "P", "p@example.com"),
		otherPerson("role1", "P1", "Postmaster@example.com"), otherPerson("role2", "Abuse", "role2@example.com"),
		otherPerson("asmith", "Ann Smith", "asmith@example.com"))
	w.refuses("nora", "wrong", ErrAuthentication)
	w.refuses("nora", "", ErrAuthentication)
	w.resolves("nora@example.com", note.UNID{})
	var all sync.WaitGroup
	var ids [4]note.UNID
	for i := range ids {
		all.Go(func() { ids[i] = w.signsIn("nora@example.com", "secret-nora").Person.ID })
	}
	all.Wait()
	for _, id := range ids {
		w.resolves("nora@example.com", id)
	}
	p := w.signsIn("zed", "secret-Zed").Person
	if p.ShortName != "zed" || p.InternetAddress != "zed@example.com" || p.Assistance != d.ID || p.MailDatabase == 0 {
		t.Errorf("%+v", p.PersonFields)
	}
	w.refuses("zed@elsewhere.example", "secret-Zed", ErrAuthentication) // no domain of the directory
	if p := w.signsIn("asmith", "secret-asmith").Person; p.Name() != "Ann Smith (asmith)" {
		t.Errorf("name %q", p.Name())
	}
	// The entry of a name that somebody has here is no way to that person's mail.
	w.refuses("m2@example.com", "secret-mallory", ErrAuthentication)
	for _, user := range []string{"postmaster", "role1", "role2"} {
		w.refuses(user, "secret-"+user, ErrAuthentication)
	}
	if got := w.signsIn("mallory", "local").Person.ID; got != mallory.ID {
		t.Error("another mallory")
	}
	srv.Stop()
	w.refuses("stranger", "x", assist.ErrAway)
	w.refuses("mallory", "x", ErrAuthentication)
	w.ok(w.Assistance.Remove(bg, note.System, d.ID))
	w.refuses("stranger", "x", ErrAuthentication)
}

// TestOtherDirectories checks the documents: order, names, rights, passwords that administrators do not see.
func TestOtherDirectories(t *testing.T) {
	t.Parallel()
	w := open(t)
	f := AssistanceFields{Name: "b", Order: 1, Settings: assist.Settings{URLs: []string{"ldaps://h"}, BindDN: "cn=x",
		Password: "secret", Kind: assist.KindActiveDirectory, Uses: assist.Uses, Domains: []string{"example.com"},
		Member: "m", Timeout: 7e9, Cache: -1e9}}
	d, err := w.Assistance.Add(bg, note.System, f)
	w.ok(err)
	first := f
	first.Name, first.Order = "z", 0
	_, err = w.Assistance.Add(bg, note.System, first)
	w.ok(err)
	_, err = w.Assistance.Add(bg, note.System, AssistanceFields{Name: "B", Settings: f.Settings})
	w.want(err, ErrNameTaken)
	list, err := w.Assistance.List(bg, note.System)
	w.ok(err)
	if len(list) != 2 || list[0].Name != "z" || list[1].Password != "secret" || list[1].Timeout != f.Timeout ||
		list[1].Cache != f.Cache || list[1].Member != "m" {
		t.Errorf("%+v", list)
	}
	admin := note.Who{Person: w.add("Admin", "admin").ID, Roles: []string{RoleAdmin}}
	shown, err := w.Assistance.Named(bg, admin, "B")
	w.ok(err)
	if shown.ID != d.ID || strings.Contains(shown.Password, "secret") {
		t.Errorf("%+v", shown)
	}
	_, err = w.Assistance.List(bg, note.Who{Person: admin.Person})
	w.want(err, ErrDenied)
	_, err = w.Assistance.Set(bg, admin, d.ID, func(f *AssistanceFields) error { f.URLs = nil; return nil })
	w.want(err, ErrInvalid)
	_, err = w.Assistance.Set(bg, admin, d.ID, func(f *AssistanceFields) error { f.Name = "c"; return nil })
	w.ok(err)
	if list, err := w.Assistance.List(bg, note.System); err != nil || list[1].Password != "secret" {
		t.Errorf("the password is lost: %+v %v", list, err)
	}
}

// TestBindPassword checks that an administrator cannot have the stored password sent to another place.
func TestBindPassword(t *testing.T) {
	t.Parallel()
	w := open(t)
	d, err := w.Assistance.Add(bg, note.System, AssistanceFields{Name: "corp", Settings: assist.Settings{
		URLs: []string{"ldaps://h"}, BindDN: "cn=x", Password: "secret"}})
	w.ok(err)
	admin := note.Who{Person: note.UNID{9}, Roles: []string{RoleAdmin}}
	set := func(fn func(f *AssistanceFields)) error {
		_, err := w.Assistance.Set(bg, admin, d.ID, func(f *AssistanceFields) error {
			if f.Password != hidden {
				t.Errorf("password %q", f.Password)
			}
			fn(f)
			return nil
		})
		return err
	}
	for _, fn := range []func(f *AssistanceFields){
		func(f *AssistanceFields) { f.URLs[0] = "ldaps://mine" },
		func(f *AssistanceFields) { f.TLS = assist.TLSNone },
		func(f *AssistanceFields) { f.CA = "mine" },
		func(f *AssistanceFields) { f.BindDN = "cn=y" },
	} {
		w.want(set(fn), ErrInvalid)
	}
	w.ok(set(func(f *AssistanceFields) { f.Base = "dc=y" }))
	w.ok(set(func(f *AssistanceFields) { f.URLs, f.Password = []string{"ldaps://i"}, "secret" }))
	list, err := w.Assistance.List(bg, note.System)
	w.ok(err)
	if list[0].Password != "secret" || list[0].URLs[0] != "ldaps://i" || list[0].Base != "dc=y" {
		t.Errorf("%+v", list)
	}
}

// TestFindMore checks that names are completed with people of other directories, and that nobody is offered twice, or
// with an address here that nobody has.
func TestFindMore(t *testing.T) {
	t.Parallel()
	w := open(t)
	w.add("Nora New", "nora")
	srv, d := w.other(func(f *AssistanceFields) {
		f.Uses, f.Domains = []string{assist.UseLookup}, []string{"far.example", "example.com"}
	}, otherPerson("nora", "Nora New", "nora@example.com"), otherPerson("ghost", "Norbert", "norbert@example.com"),
		otherPerson("nor2", "Norman (x)", "norman@far.example"), otherPerson("nor3", "Nort", "nort@evil.example"))
	find := func(text string) (names []string) {
		t.Helper()
		s := Search{Text: text}
		list, err := w.Names.Find(bg, s)
		w.ok(err)
		list, err = w.Names.FindMore(bg, s, list)
		w.ok(err)
		for _, e := range list {
			names = append(names, e.Name)
		}
		return names
	}
	if got := strings.Join(find("Nor"), ","); got != "Nora New,Norman (x)" {
		t.Error(got)
	}
	asked := srv.Count(ldap.OpSearch)
	for _, text := range []string{"nor", "n", "", "x@evil.example", strings.Repeat("n", 1000)} {
		find(text)
	}
	if n := srv.Count(ldap.OpSearch) - asked; n != 0 {
		t.Errorf("%d searches", n)
	}
	if got := find("norman (x"); len(got) != 1 {
		t.Error(got)
	}
	if got := find("**"); len(got) != 0 {
		t.Error(got)
	}
	s := Search{Text: "norm"}
	list, err := w.Names.FindMore(bg, s, nil)
	w.ok(err)
	if known := w.Names.Known([]note.UNID{list[0].ID, d.ID}); len(known) != 1 || known[0] != list[0] {
		t.Errorf("%+v", known)
	}
	srv.Stop()
	if got := find("nora"); len(got) != 1 {
		t.Error(got)
	}
	_, err = w.Assistance.Set(bg, note.System, d.ID, func(f *AssistanceFields) error { f.Off = true; return nil })
	w.ok(err)
	if got := find("norm"); len(got) != 0 {
		t.Error(got)
	}
}

// TestOtherGroup checks that mail to a group of another directory goes to its members, those of groups within, and
// those at other domains.
func TestOtherGroup(t *testing.T) {
	t.Parallel()
	w := open(t)
	nora, ann := w.add("Nora New", "nora"), w.add("Ann", "ann")
	w.group("Local", "local@example.com", ann.ID.String())
	group := func(cn, mail string, members ...string) ldaptest.Entry {
		return ldaptest.Entry{DN: "cn=" + cn + ",dc=x", Attributes: map[string][]string{
			"objectclass": {"groupOfNames"}, "cn": {cn}, "mail": {mail}, "member": members}}
	}
	many := group("many", "many@example.com")
	for i := range 600 {
		many.Attributes["member"] = append(many.Attributes["member"], fmt.Sprintf("uid=absent%d,dc=x", i))
	}
	srv, d := w.other(func(f *AssistanceFields) {
		f.Uses, f.Domains = []string{assist.UseGroups}, []string{"example.com"}
	},
		otherPerson("nora", "Nora New", "Nora@example.com"), otherPerson("far", "F", "far@far.example"),
		otherPerson("ghost", "G", "ghost@example.com"), otherPerson("list", "L", "local@example.com"),
		ldaptest.Entry{DN: "uid=mute,dc=x", Attributes: map[string][]string{"uid": {"mute"}}},
		group("crew", "crew@example.com", "uid=nora,dc=x", "cn=inner,dc=x", "uid=mute,dc=x", "uid=absent,dc=x"),
		group("inner", "inner@example.com", "uid=far,dc=x", "cn=crew,dc=x", "uid=ghost,dc=x", "uid=list,dc=x",
			"UID=NORA,dc=x"),
		group("local", "local@example.com", "uid=far,dc=x"), many)
	target, err := w.Names.Recipient(bg, "crew@example.com")
	w.ok(err)
	srv.Fault(ldap.OpSearch, ldaptest.Away)
	x, err := w.Names.Expand(bg, []Target{target, target, {Kind: TargetPerson, ID: nora.ID}})
	w.ok(err)
	if len(x.Recipients) != 2 || x.Recipients[0].ID != nora.ID || x.Recipients[1].ID != ann.ID ||
		strings.Join(x.Outside, " ") != "far@far.example ghost@example.com" {
		t.Errorf("%+v", x)
	}
	// The answer is kept; another group cannot be asked for now, which is not that it does not exist.
	_, err = w.Names.Recipient(bg, "CREW@example.com")
	w.ok(err)
	_, err = w.Names.Recipient(bg, "inner@example.com")
	w.want(err, assist.ErrAway)
	srv.Fault(ldap.OpSearch, ldaptest.None)
	if t2, err := w.Names.Recipient(bg, "local@example.com"); err != nil || t2.other != nil {
		t.Errorf("the group here is not the first: %+v, %v", t2, err)
	}
	for _, a := range []string{"nobody@example.com", "*@example.com", "nora)(cn=*@example.com"} {
		if _, err = w.Names.Recipient(bg, a); !errors.Is(err, ErrNoSuchRecipient) && !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", a, err)
		}
	}
	_, err = w.Names.Recipient(bg, "x@far.example")
	w.want(err, ErrNotLocal)
	_, err = w.Names.Recipient(bg, "many@example.com")
	w.want(err, ErrTooMany)
	w.ok(w.Assistance.Remove(bg, note.System, d.ID))
	_, err = w.Names.Recipient(bg, "crew@example.com")
	w.want(err, ErrNoSuchRecipient)
}
