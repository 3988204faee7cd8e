package directory

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

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

// TestFollow checks that a group here has the members of a group of another directory, those of groups within too, and
// that access lists know them. Only people whose password that directory keeps are members. While the directory is
// away, nobody gets in and nobody is thrown out.
func TestFollow(t *testing.T) {
	t.Parallel()
	w := open(t)
	group := func(cn string, members ...string) ldaptest.Entry {
		return ldaptest.Entry{DN: "cn=" + cn + ",dc=x", Attributes: map[string][]string{
			"objectclass": {"groupOfNames"}, "cn": {cn}, "mail": {cn + "@example.com"}, "member": members}}
	}
	// As in Active Directory, where groups have short names: an empty group is not the person of that name.
	empty := group("mallory")
	empty.Attributes["uid"] = []string{"mallory"}
	people := []ldaptest.Entry{{DN: "dc=x"}, otherPerson("Nora", "Nora New", "nora@example.com"),
		otherPerson("olaf", "Olaf", "olaf@example.com"), otherPerson("pat", "Pat", "pat@example.com"),
		otherPerson("zoe", "Zoe", "zoe@example.com"), otherPerson("absent", "Absent", "absent@example.com"), empty}
	crew := group("crew", "uid=nora,dc=x", "cn=inner,dc=x", "cn=mallory,dc=x", "uid=pat,dc=x", "uid=absent,dc=x",
		"uid=left,dc=x")
	inner := group("inner", "uid=olaf,dc=x", "cn=crew,dc=x", "UID=NORA,dc=x")
	srv, d := w.other(func(f *AssistanceFields) { f.Uses = []string{assist.UseSignIn} })
	srv.Set(append(people, crew, inner)...)
	kept := func(s *PersonSpec) { s.Assistance = d.ID }
	nora, olaf, zoe := w.add("Nora New", "nora", kept), w.add("Olaf", "olaf", kept), w.add("Zoe", "zoe", kept)
	w.add("Mallory", "mallory", kept)
	w.add("Pat", "pat")
	members := func(g note.UNID, want ...Person) {
		t.Helper()
		w.ok(w.Groups.Follow(bg))
		var ids []string
		for _, p := range want {
			ids = append(ids, p.ID.String())
		}
		slices.Sort(ids)
		if got, err := w.Groups.Get(bg, g); err != nil || !slices.Equal(got.Members, ids) {
			t.Errorf("members %v, want %v: %v", got.Members, ids, err)
		}
		// Default would let in everybody who is in no group.
		acl := note.ACL{Default: note.NoAccess, Entries: []note.Entry{{ID: g, Level: note.Editor}}}
		for _, p := range []Person{nora, olaf, zoe} {
			who, err := w.Names.WhoOf(bg, p.ID)
			w.ok(err)
			in := slices.ContainsFunc(want, func(x Person) bool { return x.ID == p.ID })
			if got := acl.Rights(&who)&note.Insert != 0; got != in {
				t.Errorf("%s may insert: %v", p.Name(), got)
			}
		}
	}
	follow := func(name, entry string) Group {
		t.Helper()
		g, err := w.Groups.Add(bg, note.System, GroupFields{Name: name, Assistance: d.ID, Entry: entry})
		w.ok(err)
		return g
	}
	sales := follow("Sales", "cn=crew,dc=x")
	if sales.Kind != GroupAccess {
		t.Errorf("the group has the kind %s", sales.Kind)
	}
	members(sales.ID, nora, olaf)
	mail := follow("By address", "inner@example.com")
	members(mail.ID, nora, olaf)
	version := w.Version()
	members(sales.ID, nora, olaf)
	if w.Version() != version {
		t.Error("the directory changes although nothing has changed")
	}

	srv.Fault(ldap.OpSearch, ldaptest.Away)
	late := follow("Late", "cn=crew,dc=x")
	members(sales.ID, nora, olaf)
	members(late.ID)
	w.want(w.Groups.Unfollowed(late.ID), assist.ErrAway)
	if away, err := w.Assistance.Away(bg); err != nil || len(away) != 1 || away[0].Name != "corp" {
		t.Errorf("%+v, %v", away, err)
	}
	srv.Fault(ldap.OpSearch, ldaptest.None)
	w.fix.Time.Advance(time.Hour)
	members(late.ID, nora, olaf)
	w.ok(w.Groups.Unfollowed(late.ID))

	srv.Set(append(people, group("crew", "uid=zoe,dc=x", "cn=inner,dc=x"), group("inner", "uid=nora,dc=x"))...)
	members(sales.ID, nora, zoe)
	many := group("crew", "uid=olaf,dc=x")
	for i := range 600 {
		many.Attributes["member"] = append(many.Attributes["member"], fmt.Sprintf("uid=absent%d,dc=x", i))
	}
	deep := []ldaptest.Entry{group("crew", "cn=deep0,dc=x")}
	for i := range 10 {
		deep = append(deep, group(fmt.Sprintf("deep%d", i), fmt.Sprintf("cn=deep%d,dc=x", i+1), "uid=olaf,dc=x"))
	}
	for _, list := range [][]ldaptest.Entry{{many}, deep} {
		srv.Set(append(list, people...)...)
		members(sales.ID, nora, zoe)
		w.want(w.Groups.Unfollowed(sales.ID), assist.ErrTooMany)
	}
	if away, err := w.Assistance.Away(bg); err != nil || len(away) != 3 || away[1].Name != "corp (group Late)" {
		t.Errorf("%+v, %v", away, err)
	}
	srv.Fault(ldap.OpSearch, ldaptest.Refer)
	members(sales.ID, nora, zoe)
	if err := w.Groups.Unfollowed(sales.ID); err == nil || !strings.Contains(err.Error(), ldaptest.Elsewhere) {
		t.Error(err)
	}
	srv.Fault(ldap.OpSearch, ldaptest.None)
	srv.Set(people...)
	members(sales.ID)
	w.want(w.Groups.Unfollowed(sales.ID), assist.ErrNobody)

	srv.Set(append(people, crew, inner)...)
	members(sales.ID, nora, olaf)
	w.ok(w.Assistance.Remove(bg, note.System, d.ID))
	members(sales.ID, nora, olaf)
	w.want(w.Groups.Unfollowed(sales.ID), assist.ErrAway)
	w.ok(w.Groups.Remove(bg, note.System, late.ID))
	w.ok(w.Groups.Follow(bg))
	w.ok(w.Groups.Unfollowed(late.ID))
}

// TestFollowOthers has entries in a group with the name of a person whose password the directory keeps, which are not
// those that the person signs in with: one outside the base, and one of two. Neither makes the person a member.
func TestFollowOthers(t *testing.T) {
	t.Parallel()
	w := open(t)
	entry := func(short, parent string) ldaptest.Entry {
		e := otherPerson(short, short, short+"@example.com")
		e.DN = "uid=" + short + "," + parent
		return e
	}
	crew := ldaptest.Entry{DN: "cn=crew,dc=x", Attributes: map[string][]string{"cn": {"crew"},
		"member": {"uid=nora,dc=y", "uid=olaf,ou=a,dc=x", "UID=zoe,dc=x", "uid=zoe,dc=y", "uid=absent,dc=y"}}}
	_, d := w.other(nil, entry("nora", "dc=x"), entry("nora", "dc=y"), entry("olaf", "ou=a,dc=x"),
		entry("olaf", "ou=b,dc=x"), entry("zoe", "dc=x"), entry("zoe", "dc=y"), entry("absent", "dc=y"), crew)
	kept := func(s *PersonSpec) { s.Assistance = d.ID }
	w.add("Nora", "nora", kept)
	w.add("Olaf", "olaf", kept)
	w.add("Absent", "absent", kept)
	zoe := w.add("Zoe", "zoe", kept)
	g, err := w.Groups.Add(bg, note.System, GroupFields{Name: "Sales", Assistance: d.ID, Entry: "cn=crew,dc=x"})
	w.ok(err)
	w.ok(w.Groups.Follow(bg))
	if got, err := w.Groups.Get(bg, g.ID); err != nil || !slices.Equal(got.Members, []string{zoe.ID.String()}) {
		t.Errorf("members %v, want only %s: %v", got.Members, zoe.ID, err)
	}
}

// TestFollowedFields checks that the members of a group that follows another one are not changed here.
func TestFollowedFields(t *testing.T) {
	t.Parallel()
	w := open(t)
	_, d := w.other(nil)
	ann, bob := w.add("Ann", "ann"), w.add("Bob", "bob")
	for text, f := range map[string]GroupFields{
		"name both":       {Name: "A", Assistance: d.ID},
		"both the":        {Name: "A", Entry: "cn=a"},
		"its members":     {Name: "A", Assistance: d.ID, Entry: "cn=a", Members: []string{"ann"}},
		"for access only": {Name: "A", Assistance: d.ID, Entry: "cn=a", InternetAddress: "a@example.com"},
		"it is for acce":  {Name: "A", Assistance: d.ID, Entry: "cn=a", Kind: GroupMail},
		"one line":        {Name: "A", Assistance: d.ID, Entry: "cn=\na"},
		"a DN or an":      {Name: "A", Assistance: d.ID, Entry: "Sales"},
		"no other":        {Name: "A", Assistance: ann.ID, Entry: "cn=a"},
	} {
		if _, err := w.Groups.Add(bg, note.System, f); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v", text, err)
		}
	}
	g := w.group("Old", "", ann.ID.String()).ID
	set := func(fn func(*GroupFields)) error {
		_, err := w.Groups.Set(bg, note.System, g, func(f *GroupFields) error { fn(f); return nil })
		return err
	}
	w.ok(set(func(f *GroupFields) { f.Assistance, f.Entry = d.ID, "cn=old,dc=x" }))
	if got, err := w.Groups.Get(bg, g); err != nil || len(got.Members) != 0 {
		t.Errorf("members of before are left: %v, %v", got.Members, err)
	}
	w.want(set(func(f *GroupFields) { f.Members = []string{bob.ID.String()} }), ErrInvalid)
	w.ok(set(func(f *GroupFields) { f.Assistance, f.Entry = note.UNID{}, "" }))
	w.ok(set(func(f *GroupFields) { f.Members = []string{bob.ID.String()} }))
}
