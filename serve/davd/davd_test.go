package davd

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"doublet/directory"
	"doublet/directory/password"
	"doublet/env"
	"doublet/groupware"
	"doublet/mail"
	"doublet/mail/trace"
	"doublet/mailbox"
	"doublet/note"
	"doublet/scheduling"
	"doublet/serve/condition"
	"doublet/serve/signin"
	"doublet/stat"
	"doublet/store"
	"doublet/store/layout"
)

var bg = context.Background()

// world is a server under test, with people alice and bob at example.com.
type world struct {
	t      testing.TB
	store  *store.Store
	people *directory.Directory
	files  *mailbox.Service
	group  *groupware.Service
	server *Server
	who    map[string]signin.Account
	others silence
}

// silence stands for the other servers: none answers, and that of all primaries has not since at, if at is set.
type silence struct{ at *time.Time }

func (s *silence) Busy(_ context.Context, _ note.UNID, list []scheduling.Calendars, _, _ time.Time) []scheduling.Busy {
	out := make([]scheduling.Busy, len(list))
	for i := range out {
		out[i].Err = scheduling.ErrAway
	}
	return out
}

func (s *silence) Silent(note.DatabaseID) (since time.Time, silent bool) {
	if s.at == nil {
		return since, false
	}
	return *s.at, true
}

func openWorld(t testing.TB, quota uint64) *world {
	t.Helper()
	fix := env.Test(t)
	w := &world{t: t, who: map[string]signin.Account{}}
	var err error
	w.store, err = store.Open(fix.Env, "data", store.Options{CacheSize: 4 << 20, MemTableSize: 1 << 20, FloorBytes: -1,
		Ballast: -1, LogSyncInterval: 20 * time.Microsecond,
		Indexes: slices.Concat(directory.Indexes(), groupware.Indexes(), trace.Indexes())})
	w.ok(err)
	w.people, err = directory.Open(w.store, fix.Env, password.New(fix.Env, 1, 10),
		directory.Options{Domain: "example.com"})
	w.ok(err)
	w.files = mailbox.New(w.store, fix.Env, mailbox.Options{MessageSize: 1 << 20})
	w.group = groupware.New(w.store, fix.Env, groupware.Options{Origin: "https://cal.example.com"})
	tree := stat.New(fix.Clock)
	m, err := mail.Open(w.store, fix.Env, w.people, w.files, mail.Options{Stats: tree,
		Calendars: scheduling.NewInbox(w.people, w.group, tree)})
	w.ok(err)
	w.server = New(fix.Env, Options{Authenticate: w.authenticate, Stats: tree}, w.people, w.files, w.group,
		scheduling.New(fix.Env, w.people, w.group, m, scheduling.Options{Hostname: "mx.example.com", Stats: tree,
			Elsewhere: &w.others}))
	for _, name := range []string{"alice", "bob"} {
		spec := directory.PersonSpec{PersonFields: directory.PersonFields{FullName: []string{name + " Example"},
			ShortName: name}}
		spec.MailDatabase, err = w.files.Make(bg, note.UNID{}, name, quota, 0)
		w.ok(err)
		p, err := w.people.People.Add(bg, note.System, spec)
		w.ok(err)
		w.ok(w.store.SetInfo(note.System, p.MailDatabase, func(i *layout.Info) {
			i.Owner = p.ID
			i.ACL = i.ACL.With(note.Entry{ID: p.ID, Level: note.Manager})
		}))
		who, err := w.people.Names.WhoOf(bg, p.ID)
		w.ok(err)
		w.who[name] = signin.Account{Who: who, Name: p.Name(), Address: p.InternetAddress, Database: p.MailDatabase}
	}
	t.Cleanup(func() {
		if n := w.server.opt.Memory.Used(); n != 0 {
			t.Errorf("%d bytes of memory are still taken", n)
		}
		w.people.Close()
		w.ok(w.store.Close())
	})
	return w
}

func (w *world) ok(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) authenticate(out http.ResponseWriter, r *http.Request) (signin.Account, bool) {
	name, _, _ := r.BasicAuth()
	a, ok := w.who[name]
	if !ok {
		out.WriteHeader(http.StatusUnauthorized)
	}
	return a, ok
}

func (w *world) do(who, method, path, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.SetBasicAuth(who, "x")
	for _, h := range header {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	out := httptest.NewRecorder()
	w.server.ServeHTTP(out, r)
	return out
}

// TestTrouble checks that a server in trouble says so, and when to try again.
func TestTrouble(t *testing.T) {
	t.Parallel()
	w := openWorld(t, 0)
	w.do("alice", "PUT", home+"calendar/a.ics", event("a", ""))
	serve := func(state layout.DatabaseState) {
		w.ok(w.store.SetInfo(note.System, w.who["alice"].Database, func(i *layout.Info) { i.State = state }))
	}
	serve(layout.OutOfService)
	got := w.do("alice", "GET", home+"calendar/a.ics", "")
	if got.Code != condition.OutOfService.HTTP || got.Header().Get("Retry-After") == "" ||
		!strings.Contains(got.Body.String(), condition.OutOfService.IMAPText) {
		t.Errorf("%d %v %s", got.Code, got.Header(), got.Body)
	}
	serve(layout.InService)
	if got := w.do("alice", "GET", home+"calendar/a.ics", ""); got.Code != http.StatusOK {
		t.Errorf("%d %s", got.Code, got.Body)
	}
}

// TestScenarios plays testdata/*.txt, each in a new world. The lines are:
//
//	# RFC 4791 §7.8             a comment
//	@bob                        the user of the next requests (alice at first)
//	share calendar bob lr       sets the rights of a user in a calendar
//	> PUT /dav/a.ics Name: v    a request, with fields; "| " lines are its body (LF becomes CRLF in a PUT)
//	< 201                       the status
//	~ text                      the answer, fields and body, has this text
//	! text                      the answer has not this text
//	= name regexp               sets ${name} to the group of a regular expression
func TestScenarios(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no scenarios", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			quota := uint64(0)
			if strings.HasPrefix(filepath.Base(file), "quota") {
				quota = 1000
			}
			(&player{w: openWorld(t, quota), who: "alice", vars: map[string]string{}}).play(t, string(text))
		})
	}
}

type player struct {
	w      *world
	who    string
	vars   map[string]string
	status int
	answer string
}

func (p *player) play(t *testing.T, text string) {
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		line, at := p.expand(lines[i]), i+1
		verb, rest, _ := strings.Cut(line, " ")
		switch {
		case line == "" || line[0] == '#':
		case line[0] == '@':
			p.who = line[1:]
		case verb == "share":
			p.share(rest)
		case verb == ">":
			body := ""
			for ; i+1 < len(lines) && strings.HasPrefix(lines[i+1], "| "); i++ {
				body += p.expand(lines[i+1][2:]) + "\n"
			}
			f := strings.SplitN(rest, " ", 3)
			if f[0] == "PUT" {
				body = strings.ReplaceAll(body, "\n", "\r\n")
			}
			var header []string
			if len(f) > 2 {
				header = strings.Split(f[2], "; ")
			}
			out := p.w.do(p.who, f[0], f[1], body, header...)
			var b strings.Builder
			_ = out.Header().Write(&b)
			p.status, p.answer = out.Code, b.String()+"\n"+out.Body.String()
		case verb == "<":
			if strconv.Itoa(p.status) != rest {
				t.Fatalf("line %d: status %d, want %s\n%s", at, p.status, rest, p.answer)
			}
		case verb == "~" || verb == "!":
			if strings.Contains(p.answer, rest) != (verb == "~") {
				t.Fatalf("line %d: %s in\n%s", at, line, p.answer)
			}
		case verb == "=":
			name, re, _ := strings.Cut(rest, " ")
			m := regexp.MustCompile(re).FindStringSubmatch(p.answer)
			if m == nil {
				t.Fatalf("line %d: no %s in\n%s", at, re, p.answer)
			}
			p.vars[name] = m[1]
		default:
			t.Fatalf("line %d: what is %q", at, line)
		}
	}
}

func (p *player) expand(s string) string {
	for name, v := range p.vars {
		s = strings.ReplaceAll(s, "${"+name+"}", v)
	}
	return s
}

func (p *player) share(s string) {
	f := strings.Fields(s)
	a := p.w.who[p.who]
	acl := note.ACL{}.With(note.Entry{ID: a.Who.Person, Level: note.Manager}).
		With(note.Entry{ID: p.w.who[f[1]].Who.Person, Level: note.Reader})
	p.w.ok(p.w.group.File(a.Who, a.Database).Change(bg, func(c *groupware.Changing) error {
		return c.SetACL(groupware.Calendar, f[0], &acl)
	}))
}

const home = "/dav/calendars/alice@example.com/"

// TestHostile: entities, depth, many elements, large bodies and broken filters get a clear answer, and nothing changes.
func TestHostile(t *testing.T) {
	t.Parallel()
	w := openWorld(t, 0)
	propfind := func(inner string) string { return `<propfind xmlns="DAV:"><prop>` + inner + `</prop></propfind>` }
	for name, c := range map[string]struct {
		method, path, body string
		status             int
	}{
		"entity": {"PROPFIND", home, `<!DOCTYPE x [<!ENTITY a "aaaa">]>` + propfind("&a;"), 400},
		"depth":  {"PROPFIND", home, propfind(strings.Repeat("<a>", 1000) + strings.Repeat("</a>", 1000)), 400},
		"wide":   {"PROPFIND", home, propfind(strings.Repeat("<a/>", 100_000)), 400},
		"large":  {"PROPFIND", home, propfind(strings.Repeat(" ", 50<<20)), 413},
		"pieces": {"PROPFIND", home, propfind(strings.Repeat("a<!---->", 200_000)), 207},
		"broken": {"REPORT", home + "calendar/", `<a`, 400},
		"two":    {"PROPFIND", home, propfind("") + propfind(""), 400},
		"object": {"PUT", home + "calendar/a.ics", strings.Repeat("X", 50<<20), 403},
		"other":  {"PUT", home + "calendar/a.ics", "BEGIN:VCARD\r\nEND:VCARD\r\n", 403},
		"filter": {"REPORT", home + "calendar/", `<C:calendar-query xmlns:C="` + nsCalDAV + `" xmlns="DAV:">` +
			`<allprop/><C:filter><C:comp-filter name="VCALENDAR">` +
			strings.Repeat(`<C:comp-filter name="VEVENT"/>`, 1000) +
			`</C:comp-filter></C:filter></C:calendar-query>`, 403},
		"no filter": {"REPORT", home + "calendar/", `<C:calendar-query xmlns:C="` + nsCalDAV + `" xmlns="DAV:">` +
			`<allprop/></C:calendar-query>`, 403},
		"dots": {"PUT", "/dav/calendars/alice@example.com/calendar/..", "x", 403},
	} {
		t.Run(name, func(t *testing.T) {
			if got := w.do("alice", c.method, c.path, c.body, "Depth: 0"); got.Code != c.status {
				t.Errorf("status %d, want %d: %.300s", got.Code, c.status, got.Body)
			}
		})
	}
	if got := w.do("alice", "PROPFIND", home+"calendar/", "", "Depth: 1"); strings.Count(got.Body.String(),
		"<D:response>") != 1 {
		t.Errorf("calendar is not empty: %s", got.Body)
	}
}

// FuzzXML parses requests, and filters in them. What is parsed prints as XML that parses again.
func FuzzXML(f *testing.F) {
	f.Add([]byte(`<C:comp-filter xmlns:C="urn:ietf:params:xml:ns:caldav" name="VEVENT"><C:prop-filter name="SUMMARY">` +
		`<C:text-match collation="i;octet">a</C:text-match></C:prop-filter></C:comp-filter>`))
	f.Add([]byte(`<a xmlns="x"><b>&lt;</b></a>`))
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := parseXML(b)
		if err != nil || e == nil {
			return
		}
		_, _ = readWanted(e)
		for _, ns := range []string{nsCalDAV, nsCardDAV} {
			r := &filterReader{ns, maxFilter}
			_, _ = r.comp(e)
			if p, err := (&filterReader{ns, maxFilter}).prop(e); err == nil {
				matchCard([]byte("BEGIN:VCARD\r\nVERSION:3.0\r\nFN;X=a:b\r\nEND:VCARD\r\n"), []propFilter{p}, true)
			}
		}
		if _, err := parseXML([]byte(head("x") + e.inner() + "</D:x>")); err != nil {
			t.Fatalf("%q does not parse: %v", e.inner(), err)
		}
	})
}
