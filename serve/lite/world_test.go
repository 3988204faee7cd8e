package lite

import (
	"bytes"
	"context"
	"fmt"
	"html"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"doublet/client/reach"
	"doublet/client/webcal"
	"doublet/directory"
	"doublet/directory/password"
	"doublet/directory/session"
	"doublet/env"
	"doublet/groupware"
	"doublet/groupware/feed"
	"doublet/mail"
	"doublet/mail/trace"
	"doublet/mailbox"
	"doublet/note"
	"doublet/scheduling"
	"doublet/serve/listen"
	"doublet/serve/signin"
	"doublet/serve/websession"
	"doublet/stat"
	"doublet/store"
	"doublet/store/layout"
)

var bg = context.Background()

// world is a server with alice, bob and carol at example.com, whose passwords are "secret-" and their names.
type world struct {
	t       testing.TB
	fix     *env.Fixture
	store   *store.Store
	dir     *directory.Directory
	keep    *session.Service
	files   *mailbox.Service
	mail    *mail.Service
	plans   *groupware.Service
	invites *scheduling.Service
	lite    *Server
	memory  *listen.Budget
	people  map[string]directory.Person
}

func open(t testing.TB, quota uint64) *world {
	t.Helper()
	w := &world{t: t, fix: env.Test(t), people: map[string]directory.Person{}, memory: listen.NewBudget(256 << 20)}
	var err error
	w.store, err = store.Open(w.fix.Env, "data", store.Options{
		CacheSize: 16 << 20, MemTableSize: 4 << 20, FloorBytes: -1, Ballast: -1, LogSyncInterval: 20 * time.Microsecond,
		Indexes: slices.Concat(directory.Indexes(), session.Indexes(), trace.Indexes(), groupware.Indexes()),
	})
	w.ok(err)
	tree := stat.New(w.fix.Clock)
	w.dir, err = directory.Open(w.store, w.fix.Env, password.New(w.fix.Env, 1, 10),
		directory.Options{Domain: "example.com"})
	w.ok(err)
	w.keep, err = session.Open(w.store, w.fix.Env, w.dir.Secret.Key("sessions"), session.Options{Stats: tree})
	w.ok(err)
	w.files = mailbox.New(w.store, w.fix.Env, mailbox.Options{MessageSize: 60 << 20, KeepDeleted: 14 * 24 * time.Hour})
	w.mail, err = mail.Open(w.store, w.fix.Env, w.dir, w.files, mail.Options{Hostname: "mx.example.com", Stats: tree})
	w.ok(err)
	in := signin.New(signin.PeopleOf(w.dir), w.fix.Env, signin.Options{Failures: -1,
		Stats: tree}).Web(signin.PeopleOf(w.dir), w.keep)
	x := websession.New(w.fix.Env, in, w.dir.SecondFactors, w.keep,
		websession.Options{Server: "mx.example.com", Key: w.dir.Secret.Key("web"), Stats: tree})
	w.plans = groupware.New(w.store, w.fix.Env, groupware.Options{})
	w.invites = scheduling.New(w.fix.Env, w.dir, w.plans, w.mail, scheduling.Options{Hostname: "mx.example.com",
		Stats: tree})
	w.lite = New(w.fix.Env, x, Services{w.dir, w.files, w.mail, w.plans, w.invites}, Options{Recipients: 20,
		Memory: w.memory, Stats: tree, Feeds: feed.NewPublisher(w.fix.Env, w.plans, w.dir, ""),
		Sources: feed.NewSubscriber(w.fix.Env, w.store, w.plans, webcal.New(
			reach.New(w.fix.Env, nil, nil), nil))})
	for _, name := range []string{"alice", "bob", "carol"} {
		spec := directory.PersonSpec{PersonFields: directory.PersonFields{FullName: []string{strings.ToUpper(name[:1]) +
			name[1:] + " Example"}, ShortName: name}, Password: "secret-" + name}
		spec.MailDatabase, err = w.files.Make(bg, note.UNID{}, name, quota, 0)
		w.ok(err)
		p, err := w.dir.People.Add(bg, note.System, spec)
		w.ok(err)
		w.ok(w.store.SetInfo(note.System, p.MailDatabase, func(i *layout.Info) {
			i.Owner = p.ID
			i.ACL = i.ACL.With(note.Entry{ID: p.ID, Level: note.Manager})
		}))
		w.people[name] = p
	}
	t.Cleanup(func() {
		if n := w.memory.Used(); n != 0 {
			t.Errorf("%d bytes of memory are still taken", n)
		}
		w.keep.Close()
		w.dir.Close()
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

func (w *world) file(name string) *mailbox.File {
	w.t.Helper()
	who, err := w.dir.Names.WhoOf(bg, w.people[name].ID)
	w.ok(err)
	return w.files.File(who, w.people[name].MailDatabase)
}

// put stores a message in a folder and returns its id.
func (w *world) put(name, folder, raw string, flags ...string) string {
	w.t.Helper()
	fl, err := mailbox.ParseFlags(flags)
	w.ok(err)
	f := w.file(name)
	w.fix.Time.Advance(time.Second)
	_, uid, err := f.Append(bg, folder, []byte(strings.ReplaceAll(raw, "\n", "\r\n")), fl, w.fix.Clock.Now())
	w.ok(err)
	v, _, err := f.Open(bg, folder, true)
	w.ok(err)
	id := ""
	w.ok(v.Fetch(bg, mailbox.Set{{Start: uid, Stop: uid}}, true, mailbox.FetchOptions{},
		func(m *mailbox.Message) (bool, error) {
			id = m.EmailID()[1:]
			return false, nil
		}, func() error { return nil }))
	return id
}

func simple(subject, body string) string {
	return fmt.Sprintf("From: Eve <eve@far.example>\nTo: alice@example.com, Dan <dan@far.example>\n"+
		"Cc: bob@example.com\nSubject: %s\nMessage-ID: <%s@far.example>\nDate: Mon, 5 Jan 2026 09:00:00 +0100\n\n%s\n",
		subject, strings.ReplaceAll(subject, " ", "."), body)
}

// browser is a browser without scripts.
type browser struct {
	w       *world
	cookies map[string]*http.Cookie
	page    string // last page
	status  int
	at      string
	header  http.Header
	foreign bool // send forms as from another site
}

func (w *world) browser() *browser { return &browser{w: w, cookies: map[string]*http.Cookie{}} }

// signed returns a browser in which somebody has signed in.
func (w *world) signed(name string) *browser {
	w.t.Helper()
	b := w.browser()
	b.get(Path)
	b.submit("user", name, "password", "secret-"+name)
	b.want(200, "Sign out")
	return b
}

func (b *browser) do(r *http.Request) {
	b.w.t.Helper()
	r.RemoteAddr, r.Host = "127.0.0.1:5", "localhost"
	for _, c := range b.cookies {
		r.AddCookie(c)
	}
	if r.Method == http.MethodPost {
		r.Header.Set("Sec-Fetch-Site", map[bool]string{true: "cross-site", false: "same-origin"}[b.foreign])
	}
	out := httptest.NewRecorder()
	b.w.lite.ServeHTTP(out, r)
	for _, c := range out.Result().Cookies() {
		b.cookies[c.Name] = c
		if c.MaxAge < 0 {
			delete(b.cookies, c.Name)
		}
	}
	b.page, b.status, b.header = out.Body.String(), out.Code, out.Header()
	b.at = r.URL.RequestURI()
	kind := b.header.Get("Content-Type")
	if strings.HasPrefix(kind, "text/html") {
		b.safe()
	}
	if to := b.header.Get("Location"); to != "" {
		b.get(to)
	}
}

// safe checks the rules that all pages must obey.
func (b *browser) safe() {
	b.w.t.Helper()
	low := strings.ToLower(b.page)
	for _, bad := range []string{`="javascript:`, `="data:`, `="//`, `="#zgotmplz`} {
		if strings.Contains(low, bad) {
			b.w.t.Fatalf("%s holds %s", b.at, bad)
		}
	}
	for _, tag := range tagPattern.FindAllString(low, -1) {
		tag = quotedPattern.ReplaceAllString(tag, "")
		for _, bad := range []string{"<script", " style", "<style", " on", "<iframe", "<object", "<embed", "<base",
			"<svg", "<math", "http-equiv"} {
			if strings.Contains(tag, bad) {
				b.w.t.Fatalf("%s holds %s", b.at, tag)
			}
		}
	}
	if p := b.header.Get("Content-Security-Policy"); !strings.HasPrefix(p, "default-src 'none'; style-src 'self';") ||
		strings.Contains(p, "unsafe") {
		b.w.t.Fatalf("%s: policy %q", b.at, p)
	}
	if n := len(areaPattern.ReplaceAllString(b.page, "")); n > 30_000 { // the text of the user may be long
		b.w.t.Fatalf("%s has %d bytes", b.at, n)
	}
}

func (b *browser) get(at string) {
	b.w.t.Helper()
	b.do(httptest.NewRequest(http.MethodGet, at, nil))
}

func (b *browser) want(status int, texts ...string) {
	b.w.t.Helper()
	if b.status != status {
		b.w.t.Fatalf("%s: %d, want %d\n%s", b.at, b.status, status, b.page)
	}
	for _, s := range texts {
		if !strings.Contains(b.page, s) {
			b.w.t.Fatalf("%s lacks %q\n%s", b.at, s, b.page)
		}
	}
}

func (b *browser) lacks(texts ...string) {
	b.w.t.Helper()
	for _, s := range texts {
		if strings.Contains(b.page, s) {
			b.w.t.Fatalf("%s has %q\n%s", b.at, s, b.page)
		}
	}
}

var (
	tagPattern    = regexp.MustCompile(`<(?:[^">]|"[^"]*")*>`)
	quotedPattern = regexp.MustCompile(`"[^"]*"`)
	formPattern   = regexp.MustCompile(`(?s)<form[^>]*method="post"[^>]*action="([^"]*)"[^>]*>(.*?)</form>`)
	inputPattern  = regexp.MustCompile(`<input[^>]*>`)
	areaPattern   = regexp.MustCompile(`(?s)<textarea[^>]* name="([^"]*)"[^>]*>\n?(.*?)</textarea>`)
	selectPattern = regexp.MustCompile(`(?s)<select[^>]* name="([^"]*)"[^>]*>(.*?)</select>`)
	optionPattern = regexp.MustCompile(`<option value="([^"]*)"( selected)?>([^<]*)`)
)

func attribute(tag, name string) (string, bool) {
	m := regexp.MustCompile(` ` + name + `="([^"]*)"`).FindStringSubmatch(tag)
	if m == nil {
		return "", strings.Contains(tag, " "+name)
	}
	return html.UnescapeString(m[1]), true
}

// form returns the first form of the page that contains a text, with its values as a browser sends them.
func (b *browser) form(has string) (action string, values url.Values) {
	b.w.t.Helper()
	for _, m := range formPattern.FindAllStringSubmatch(b.page, -1) {
		if !strings.Contains(m[0], has) || has == "" && strings.Contains(m[0], "sign-out") {
			continue
		}
		values = url.Values{}
		for _, tag := range inputPattern.FindAllString(m[2], -1) {
			name, _ := attribute(tag, "name")
			kind, _ := attribute(tag, "type")
			value, _ := attribute(tag, "value")
			_, checked := attribute(tag, "checked")
			if name == "" || kind == "file" || kind == "checkbox" && !checked {
				continue
			}
			values.Add(name, value)
		}
		for _, a := range areaPattern.FindAllStringSubmatch(m[2], -1) {
			values.Add(a[1], html.UnescapeString(a[2]))
		}
		for _, s := range selectPattern.FindAllStringSubmatch(m[2], -1) {
			chosen := ""
			for i, o := range optionPattern.FindAllStringSubmatch(s[2], -1) {
				if i == 0 || o[2] != "" {
					chosen = html.UnescapeString(o[1])
				}
			}
			values.Add(s[1], chosen)
		}
		return html.UnescapeString(m[1]), values
	}
	b.w.t.Fatalf("%s has no form with %q\n%s", b.at, has, b.page)
	return "", nil
}

// submit sends the page's form that has the first of the fields, with these values.
func (b *browser) submit(fields ...string) { b.w.t.Helper(); b.send("", nil, fields...) }

// send sends the form that contains a text, with field values ("+name" adds one), and files.
func (b *browser) send(has string, files map[string]string, fields ...string) {
	b.w.t.Helper()
	if has == "" {
		has = `name="` + fields[0] + `"`
	}
	action, values := b.form(has)
	for i := 0; i+1 < len(fields); i += 2 {
		if name, ok := strings.CutPrefix(fields[i], "+"); ok {
			values.Add(name, fields[i+1])
		} else {
			values.Set(fields[i], fields[i+1])
		}
	}
	b.post(action, values, files)
}

func (b *browser) post(action string, values url.Values, files map[string]string) {
	b.w.t.Helper()
	if files == nil {
		r := httptest.NewRequest(http.MethodPost, action, strings.NewReader(values.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		b.do(r)
		return
	}
	var body bytes.Buffer
	m := multipart.NewWriter(&body)
	for name, list := range values {
		for _, v := range list {
			b.w.ok(m.WriteField(name, strings.ReplaceAll(v, "\n", "\r\n")))
		}
	}
	for name, content := range files {
		p, err := m.CreateFormFile("upload", name)
		b.w.ok(err)
		_, err = p.Write([]byte(content))
		b.w.ok(err)
	}
	b.w.ok(m.Close())
	r := httptest.NewRequest(http.MethodPost, action, &body)
	r.Header.Set("Content-Type", m.FormDataContentType())
	b.do(r)
}

// follow requests the page of the first link whose markup contains a text.
func (b *browser) follow(text string) {
	b.w.t.Helper()
	for _, m := range regexp.MustCompile(`(?s)<a [^>]*href="([^"]*)"[^>]*>(.*?)</a>`).FindAllStringSubmatch(b.page,
		-1) {
		if strings.Contains(m[2], text) {
			b.get(html.UnescapeString(strings.TrimSuffix(m[1], "#files")))
			return
		}
	}
	b.w.t.Fatalf("%s has no link %q\n%s", b.at, text, b.page)
}

// pick returns the id of a message in the list that is shown.
func (b *browser) pick(subject string) string {
	b.w.t.Helper()
	m := regexp.MustCompile(
		`name="m" value="([0-9a-f]*)" aria-labelledby="s\d+"></label>\s*<a (?:[^<]|<[^l])*?id="s\d+"><bdi>` +
			regexp.QuoteMeta(html.EscapeString(subject)) + `<`).FindStringSubmatch(b.page)
	if m == nil {
		b.w.t.Fatalf("%s does not list %q\n%s", b.at, subject, b.page)
	}
	return m[1]
}
