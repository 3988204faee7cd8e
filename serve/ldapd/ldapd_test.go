package ldapd

import (
	"bufio"
	"context"
	"crypto/md5"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"

	client "github.com/go-ldap/ldap/v3"

	"doublet/directory"
	"doublet/directory/password"
	"doublet/env"
	"doublet/note"
	"doublet/serve/listen"
	"doublet/serve/signin"
	"doublet/stat"
	"doublet/store"
	"doublet/test/door"
	"doublet/test/scenario"
)

var bg = context.Background()

// world is a directory with an LDAP door.
type world struct {
	t     testing.TB
	env   *env.Env
	dir   *directory.Directory
	stats *stat.Tree
	srv   *Server
	*door.Open
}

type settings struct {
	Config
	door.Options
	private bool
}

// open opens a world with the people and groups of fill.
func open(t testing.TB, o settings) *world {
	t.Helper()
	fix := env.TestRealTime(t)
	w := &world{t: t, env: fix.Env}
	s, err := store.Open(w.env, "store", store.Options{CacheSize: 4 << 20, MemTableSize: 1 << 20, FloorBytes: -1,
		Ballast: -1, Indexes: directory.Indexes()})
	w.ok(err)
	t.Cleanup(func() { w.ok(s.Close()) })
	w.stats = stat.New(w.env.Clock)
	w.dir, err = directory.Open(s, w.env, password.New(w.env, 2, 100), directory.Options{Domain: "example.org",
		Stats: w.stats, Private: o.private})
	w.ok(err)
	t.Cleanup(w.dir.Close)
	w.fill()
	in := signin.New(signin.PeopleOf(w.dir), w.env, signin.Options{Stats: w.stats, SCRAM: true})
	w.srv, err = New(w.env, o.Config, in, w.dir, w.stats)
	w.ok(err)
	o.Options.Left = func() {
		if n := w.srv.cfg.Memory.Used(); n != 0 {
			t.Errorf("%d bytes of memory leaked", n)
		}
	}
	w.Open = door.At(t, w.env, listen.Door{Name: "ldap", Serve: w.srv.Serve, Busy: w.srv.Busy()}, o.Options)
	return w
}

func (w *world) ok(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) person(full, short string, change ...func(*directory.PersonSpec)) directory.Person {
	w.t.Helper()
	sum := md5.Sum([]byte("secret-" + short)) // a hash that is quick to make; the first sign-in replaces it
	s := directory.PersonSpec{PersonFields: directory.PersonFields{FullName: []string{full}, ShortName: short},
		Hash: "{MD5}" + base64.StdEncoding.EncodeToString(sum[:])}
	for _, c := range change {
		c(&s)
	}
	p, err := w.dir.People.Add(bg, note.System, s)
	w.ok(err)
	return p
}

// fill adds the people of the scenarios: chief is an administrator, postfix is in the group of readers, carol is
// disabled, Dora Plain has no short name, erin has no address.
func (w *world) fill() {
	w.t.Helper()
	w.person("Chief Admin", "chief", func(s *directory.PersonSpec) { s.Roles = []string{directory.RoleAdmin} })
	w.person("Alice Adams", "alice", func(s *directory.PersonSpec) {
		s.FullName = append(s.FullName, "Alice Bell")
		s.MailAddress = []string{"a.adams@example.org"}
		s.Forward = []string{"alice@elsewhere.example"}
	})
	w.person("Bob Brown", "bob")
	w.person("Carol Clark", "carol", func(s *directory.PersonSpec) { s.Disabled = true })
	w.person("Dora Plain", "", func(s *directory.PersonSpec) { s.InternetAddress = "dora@example.org" })
	w.person("Jürgen Groß", "jürgen", func(s *directory.PersonSpec) { s.InternetAddress = "juergen@example.org" })
	w.person("Postfix", "postfix")
	for _, g := range []directory.GroupFields{
		{Name: "Staff", InternetAddress: "staff@example.org", Description: "everybody",
			Members: []string{"Alice Adams", "bob", "guest@elsewhere.example"}},
		{Name: "Secret Circle", Members: []string{"alice", "Staff"}, Kind: directory.GroupAccess},
		{Name: "Readers", Members: []string{"postfix"}, Kind: directory.GroupAccess},
	} {
		_, err := w.dir.Groups.Add(bg, note.System, g)
		w.ok(err)
	}
	_, err := w.dir.MailIns.Add(bg, note.System, directory.MailInFields{Name: "Orders",
		InternetAddress: "orders@example.org", Database: 77})
	w.ok(err)
}

// TestScenarios plays the conversations of testdata. They are lines of the commands of terminal.
func TestScenarios(t *testing.T) {
	t.Parallel()
	for kind, o := range map[string]settings{
		"ldap":      {Config: Config{Readers: "Readers"}, Options: door.Options{TLS: true}},
		"anonymous": {Config: Config{Anonymous: true}},
		"far":       {Config: Config{Anonymous: true}, Options: door.Options{TLS: true, Far: true}},
		"private":   {private: true},
		"bounds": {Config: Config{Entries: 3, ReaderEntries: 4, Base: "o=Example", People: "ou=Staff",
			Groups: "ou=Teams"}},
	} {
		t.Run(kind, func(t *testing.T) {
			scenario.Run(t, "testdata/"+kind+"-*.txt", scenario.Options{}, func(t *testing.T) scenario.Dial {
				w := open(t, o)
				return func(string) (net.Conn, error) {
					c, err := client.DialURL("ldap://" + w.Addr.String())
					if err != nil {
						return nil, err
					}
					near, far := net.Pipe()
					go (&terminal{c, far}).serve()
					return near, nil
				}
			})
		})
	}
}

// terminal is a client that is operated by lines of text.
type terminal struct {
	*client.Conn
	text net.Conn
}

func (x *terminal) serve() {
	defer x.text.Close()
	defer x.Conn.Close()
	for lines := bufio.NewScanner(x.text); lines.Scan(); {
		a := words(lines.Text())
		if len(a) == 0 {
			continue
		}
		if _, err := fmt.Fprint(x.text, strings.ReplaceAll(x.command(a), "\n", "\r\n")); err != nil {
			return
		}
	}
}

// words splits a line at spaces outside quotes.
func words(line string) (out []string) {
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimSpace(line) {
		if line[0] == '"' {
			text, rest, _ := strings.Cut(line[1:], `"`)
			out, line = append(out, text), rest
			continue
		}
		text, rest, _ := strings.Cut(line, " ")
		out, line = append(out, text), rest
	}
	return out
}

// result returns the line of a result: code, matched name, text.
func result(err error) string {
	var e *client.Error
	switch {
	case err == nil:
		return "= 0\n"
	case client.IsErrorWithCode(err, client.ErrorNetwork), !errors.As(err, &e):
		return "= closed\n"
	default:
		return strings.TrimSpace(fmt.Sprintf("= %d %s %s", e.ResultCode, e.MatchedDN, e.Err)) + "\n"
	}
}

func (x *terminal) command(a []string) string {
	arg := func(i int) string {
		if i < len(a) {
			return a[i]
		}
		return ""
	}
	switch a[0] {
	case "bind":
		if arg(1) == "" && arg(2) == "" {
			return result(x.UnauthenticatedBind(""))
		}
		if arg(2) == "" {
			return result(x.UnauthenticatedBind(arg(1)))
		}
		return result(x.Bind(arg(1), arg(2)))
	case "search":
		return x.find(a)
	case "compare":
		ok, err := x.Compare(arg(1), arg(2), arg(3))
		if err != nil {
			return result(err)
		}
		return fmt.Sprintf("= %t\n", ok)
	case "whoami":
		r, err := x.WhoAmI(nil)
		if err != nil {
			return result(err)
		}
		return "= " + r.AuthzID + "\n"
	case "passwd":
		r, err := x.PasswordModify(client.NewPasswordModifyRequest(arg(1), arg(2), arg(3)))
		if err == nil && r.GeneratedPassword != "" {
			return "= generated " + r.GeneratedPassword + "\n"
		}
		return result(err)
	case "starttls":
		return result(x.StartTLS(door.ClientTLS.Clone()))
	case "add":
		return result(x.Add(client.NewAddRequest(arg(1), nil)))
	case "delete":
		return result(x.Del(client.NewDelRequest(arg(1), nil)))
	case "modify":
		m := client.NewModifyRequest(arg(1), nil)
		m.Replace("cn", []string{"x"})
		return result(x.Modify(m))
	case "rename":
		return result(x.ModifyDN(client.NewModifyDNRequest(arg(1), "cn=x", true, "")))
	case "extended":
		_, err := x.Extended(client.NewExtendedRequest(arg(1), nil))
		return result(err)
	}
	return "= unknown command " + a[0] + "\n"
}

// find searches: search BASE SCOPE FILTER [ATTRIBUTE | size=N | page=N | sort=[-]TYPE | types | critical=OID]…
func (x *terminal) find(a []string) string {
	scope := map[string]int{"base": 0, "one": 1, "sub": 2}[a[2]]
	r := client.NewSearchRequest(a[1], scope, 0, 0, 0, false, a[3], nil, nil)
	page := 0
	for _, o := range a[4:] {
		name, value, is := strings.Cut(o, "=")
		n, _ := strconv.Atoi(value)
		switch {
		case !is && o == "types":
			r.TypesOnly = true
		case !is:
			r.Attributes = append(r.Attributes, o)
		case name == "size":
			r.SizeLimit = n
		case name == "page":
			page = n
		case name == "sort":
			t, reverse := strings.CutPrefix(value, "-")
			r.Controls = append(r.Controls, client.NewControlServerSideSortingWithSortKeys([]*client.SortKey{
				{AttributeType: t, Reverse: reverse}}))
		case name == "critical":
			r.Controls = append(r.Controls, client.NewControlString(value, true, ""))
		}
	}
	var b strings.Builder
	if page == 0 {
		res, err := x.Search(r)
		printEntries(&b, res)
		return b.String() + result(err)
	}
	paging := client.NewControlPaging(uint32(page))
	r.Controls = append(r.Controls, paging)
	for {
		res, err := x.Search(r)
		printEntries(&b, res)
		if err != nil {
			return b.String() + result(err)
		}
		c, ok := client.FindControl(res.Controls, client.ControlTypePaging).(*client.ControlPaging)
		if !ok || len(c.Cookie) == 0 {
			return b.String() + result(nil)
		}
		b.WriteString("-- page\n")
		paging.SetCookie(c.Cookie)
	}
}

func printEntries(b *strings.Builder, r *client.SearchResult) {
	if r == nil {
		return
	}
	for _, e := range r.Entries {
		fmt.Fprintf(b, "dn: %s\n", e.DN)
		for _, a := range e.Attributes {
			fmt.Fprintf(b, "%s: %s\n", a.Name, strings.Join(a.Values, " | "))
		}
	}
}
