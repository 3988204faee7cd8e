package websession

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"

	"doublet/directory"
	"doublet/directory/passkey"
	"doublet/directory/password"
	"doublet/directory/session"
	"doublet/env"
	"doublet/env/logtail"
	"doublet/note"
	"doublet/serve/signin"
	"doublet/serve/speech"
	"doublet/stat"
	"doublet/store"
	"doublet/web"
)

var bg = context.Background()

// world is a server with alice and bob, and a handler that returns the identity of each request.
type world struct {
	*Service
	t     testing.TB
	fix   *env.Fixture
	opt   signin.Options
	store *store.Store
	pool  *password.Pool
	dir   *directory.Directory
	web   *signin.Web
	keep  *session.Service
	stats *stat.Tree
	http  http.Handler
	alice directory.Person
	bob   directory.Person
}

func open(t testing.TB, o signin.Options) *world {
	t.Helper()
	w := &world{t: t, fix: env.Test(t), opt: o}
	w.fix.Log = slog.New(logtail.New(w.fix.Log.Handler()))
	w.start()
	add := func(name string) directory.Person {
		p, err := w.dir.People.Add(bg, note.System,
			directory.PersonSpec{PersonFields: directory.PersonFields{FullName: []string{name}, ShortName: name},
				Password: "secret-" + name, Scram: true})
		w.ok(err)
		return p
	}
	w.alice, w.bob = add("alice"), add("bob")
	t.Cleanup(func() { w.stop() })
	return w
}

func (w *world) start() {
	w.t.Helper()
	var err error
	w.stats = stat.New(w.fix.Clock)
	w.store, err = store.Open(w.fix.Env, "data", store.Options{FloorBytes: -1, Ballast: -1, MemTableSize: 1 << 20,
		Indexes: append(directory.Indexes(), session.Indexes()...)})
	w.ok(err)
	w.pool = password.New(w.fix.Env, 2, 100)
	w.dir, err = directory.Open(w.store, w.fix.Env, w.pool, directory.Options{Domain: "example.com"})
	w.ok(err)
	w.keep, err = session.Open(w.store, w.fix.Env, w.dir.Secret.Key("sessions"), session.Options{Stats: w.stats})
	w.ok(err)
	w.opt.Stats = w.stats
	w.web = signin.New(signin.PeopleOf(w.dir), w.fix.Env, w.opt).Web(signin.PeopleOf(w.dir), w.keep)
	party, err := passkey.New("https://mail.example.com", "Mail")
	w.ok(err)
	w.Service = New(w.fix.Env, w.web, w.dir.SecondFactors, w.keep,
		Options{Server: "mail.example.com", Key: w.dir.Secret.Key("web"), Stats: w.stats,
			Passkeys: w.web.Passkeys(w.dir.Passkeys, party, w.dir.Secret.Key("passkeys"))})
	mux := http.NewServeMux()
	mux.Handle("/auth/", w.Handler())
	mux.HandleFunc("/api", func(out http.ResponseWriter, r *http.Request) {
		id, err := w.Identify(r)
		if err != nil {
			w.Refuse(out, r, err)
			return
		}
		fmt.Fprintf(out, "%s %s", id.Name, id.Credential)
	})
	w.http = mux
}

func (w *world) stop() {
	w.keep.Close()
	w.dir.Close()
	if err := w.store.Close(); err != nil {
		w.t.Error(err)
	}
}

func (w *world) ok(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// browser is a browser with its cookies.
type browser struct {
	w       *world
	remote  string
	clear   bool
	csrf    string
	cookies []*http.Cookie
}

const here, elsewhere = "127.0.0.1:4711", "192.0.2.7:4711"

// send sends a request. pairs are header fields.
func (b *browser) send(method, path, kind, body string, header ...string) *httptest.ResponseRecorder {
	b.w.t.Helper()
	scheme := "https://"
	if b.clear {
		scheme = "http://"
	}
	r := httptest.NewRequest(method, scheme+"mail.example.com"+path, strings.NewReader(body))
	r.RemoteAddr = b.remote
	if !b.clear && r.TLS == nil {
		r.TLS = &tls.ConnectionState{}
	}
	if b.clear {
		r.TLS = nil
	}
	if kind != "" {
		r.Header.Set("Content-Type", kind)
	}
	for _, c := range b.cookies {
		r.AddCookie(c)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	out := httptest.NewRecorder()
	b.w.http.ServeHTTP(out, r)
	for _, c := range out.Result().Cookies() {
		at := slices.IndexFunc(b.cookies, func(have *http.Cookie) bool { return have.Name == c.Name })
		switch {
		case c.MaxAge < 0 && at >= 0:
			b.cookies = slices.Concat(b.cookies[:at], b.cookies[at+1:])
		case at >= 0:
			b.cookies = slices.Concat(b.cookies[:at], []*http.Cookie{c}, b.cookies[at+1:])
		case c.MaxAge >= 0:
			b.cookies = append(b.cookies, c)
		}
	}
	return out
}

// json sends JSON with the session's token, as the pages of this server do.
func (b *browser) json(path string, v any, header ...string) *httptest.ResponseRecorder {
	b.w.t.Helper()
	body, err := json.Marshal(v)
	b.w.ok(err)
	return b.send("POST", path, "application/json", string(body),
		append([]string{CSRFField, b.csrf, "Sec-Fetch-Site", "same-origin"}, header...)...)
}

func (b *browser) form(path string, v url.Values, header ...string) *httptest.ResponseRecorder {
	b.w.t.Helper()
	return b.send("POST", path, "application/x-www-form-urlencoded", v.Encode(), header...)
}

type m = map[string]any

func (w *world) browser() *browser { return &browser{w: w, remote: here} }

// signedIn returns a browser that has signed in.
func (w *world) signedIn(name string) *browser {
	w.t.Helper()
	b := w.browser()
	b.signIn(m{"user": name, "password": "secret-" + name})
	return b
}

func (b *browser) signIn(v m) {
	b.w.t.Helper()
	out := b.json(PathSignIn, v)
	var got signedIn
	if out.Code != 200 || json.Unmarshal(out.Body.Bytes(), &got) != nil {
		b.w.t.Fatalf("sign-in: %d %s", out.Code, out.Body)
	}
	b.csrf = got.CSRF
}

// is checks a status, and a part of the body.
func (w *world) is(what string, out *httptest.ResponseRecorder, code int, part string) {
	w.t.Helper()
	if out.Code != code || !strings.Contains(out.Body.String(), part) {
		w.t.Errorf("%s: %d %s, want %d %s", what, out.Code, out.Body, code, part)
	}
}

func basic(user, secret string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+secret))
}

func TestPrograms(t *testing.T) {
	t.Parallel()
	w := open(t, signin.Options{})
	app, secret, err := w.dir.Passwords.AddApp(bg, note.System, w.bob.ID, "phone")
	w.ok(err)
	get := func(authorization string, header ...string) *httptest.ResponseRecorder {
		return w.browser().send("GET", "/api", "", "", append([]string{"Authorization", authorization}, header...)...)
	}
	p, err := w.dir.Names.Person(bg, w.alice.ID)
	w.ok(err)
	w.is("password", get(basic("alice", "secret-alice")), 200, "alice password:"+p.PasswordID)
	w.is("address", get(basic("alice@example.com", "secret-alice")), 200, "alice ")
	w.is("app password", get(basic("bob", secret)), 200, "bob app:"+app.ID)
	w.is("bearer", get("Bearer "+secret), 200, "bob app:"+app.ID)
	w.is("small letters", get("bearer  "+secret), 200, "bob ")
	for what, a := range map[string]string{
		"wrong password": basic("alice", "wrong"), "nobody": basic("nobody", "secret-alice"),
		"another's app password":    basic("alice", secret),
		"bearer of nobody":          "Bearer abcd-efgh-ijkl-mnop-qrst-uvwx-yz23-4567",
		"bearer that is a password": "Bearer secret-alice",
		"no colon":                  "Basic YWxpY2U=", "no base64": "Basic !", "scheme": "Digest x", "empty": "Basic",
		"newline": basic("alice", "secret\n"), "not UTF-8": "Basic " +
			base64.StdEncoding.EncodeToString([]byte("\xff:x")),
	} {
		out := get(a)
		w.is(what, out, 401, `"status":401`)
		if h := out.Header().Values("WWW-Authenticate"); len(h) != 2 || !strings.HasPrefix(h[0], "Basic realm=") ||
			!strings.HasPrefix(h[1], "Bearer realm=") {
			t.Errorf("%s: %v", what, h)
		}
	}
	// A page's request gets no Basic challenge, which would make the browser ask for a password.
	if h := get(basic("alice", "wrong"), "Sec-Fetch-Mode", "cors").Header().Values("WWW-Authenticate"); len(h) != 1 ||
		!strings.HasPrefix(h[0], "Bearer") {
		t.Errorf("%v", h)
	}
	// A browser sends a stored Basic password with any request, so one caused by another site is rejected.
	w.is("Basic from another site", w.browser().send("POST", "/api", "", "", "Authorization",
		basic("alice", "secret-alice"), "Sec-Fetch-Site", "cross-site"), 403, "foreign")
	w.is("Bearer from another site", w.browser().send("POST", "/api", "", "", "Authorization", "Bearer "+secret,
		"Sec-Fetch-Site", "cross-site"), 200, "bob")
	// Credentials without TLS are only accepted from this machine. Otherwise they are not even checked.
	far := &browser{w: w, remote: elsewhere, clear: true}
	w.is("clear", far.send("GET", "/api", "", "", "Authorization", basic("alice", "secret-alice")), 403, "clear")
	w.is("loopback", (&browser{w: w, remote: here, clear: true}).send("GET", "/api", "", "", "Authorization",
		basic("alice", "secret-alice")), 200, "alice")
	if _, err := w.dir.People.Set(bg, note.System, w.alice.ID,
		func(f *directory.PersonFields) error { f.Disabled = true; return nil }); err != nil {
		t.Fatal(err)
	}
	w.is("disabled", get(basic("alice", "secret-alice")), 403, "disabled")
	// Credentials of programs open no account page.
	w.is("account by app password", w.browser().send("GET", PathSession, "", "", "Authorization", basic("bob", secret)),
		401, "nobody")
	w.is("account by password", w.browser().send("GET", PathSession, "", "", "Authorization",
		basic("bob", "secret-bob")), 401, "nobody")
	w.is("sign-in by app password", w.browser().json(PathSignIn, m{"user": "bob", "password": secret}), 403,
		"app password")
	w.ok(w.dir.Passwords.RemoveApp(bg, note.System, w.bob.ID, app.ID))
	w.is("ended", get("Bearer "+secret), 401, "credentials")
	// Attacks are logged and mailed; the token may be valid at another server.
	_, err = w.web.Bearer(bg, signin.Attempt{Remote: netip.MustParseAddr("192.0.2.7"), Door: "HTTP"}, secret)
	list := w.web.Attacks(1, 10)
	if err == nil || !slices.ContainsFunc(list, func(a signin.Attack) bool {
		return strings.HasPrefix(a.Account, "token ") && len(a.Account) == len("token 01234567")
	}) || strings.Contains(fmt.Sprint(list), secret[:9]) {
		t.Errorf("%v: attacks %+v", err, list)
	}
	w.is("ended", get(basic("bob", secret)), 401, "credentials")
}

// TestHashesOnce checks that a program that sends its password with every request costs one hash.
func TestHashesOnce(t *testing.T) {
	t.Parallel()
	w := open(t, signin.Options{})
	before := w.pool.Stats().Hashes
	for range 100 {
		w.is("password", w.browser().send("GET", "/api", "", "", "Authorization", basic("alice", "secret-alice")),
			200, "alice")
	}
	if n := w.pool.Stats().Hashes - before; n != 1 {
		t.Errorf("%d hashes", n)
	}
	w.ok(w.dir.Passwords.Set(bg, note.System, w.alice.ID, "another", false))
	w.is("old password", w.browser().send("GET", "/api", "", "", "Authorization", basic("alice", "secret-alice")), 401,
		"credentials")
}

func TestCookie(t *testing.T) {
	t.Parallel()
	w := open(t, signin.Options{})
	b := w.browser()
	out := b.json(PathSignIn, m{"user": "alice", "password": "secret-alice"})
	w.is("sign-in", out, 200, `"name":"alice"`)
	set := out.Header().Get("Set-Cookie")
	if !strings.HasPrefix(set, "__Host-doublet=") || strings.Contains(set, "Domain") ||
		strings.Contains(set, "Max-Age") {
		t.Error(set)
	}
	for _, want := range []string{"; Path=/", "; HttpOnly", "; Secure", "; SameSite=Strict"} {
		if !strings.Contains(set, want) {
			t.Errorf("%s lacks %s", set, want)
		}
	}
	w.is("who", b.send("GET", "/api", "", ""), 200, "alice session:")
	kept := w.browser()
	out = kept.json(PathSignIn, m{"user": "alice", "password": "secret-alice", "keep": true})
	if set := out.Header().Get("Set-Cookie"); !strings.Contains(set, "; Max-Age=7776000") {
		t.Error(set)
	}
	// On this machine without TLS.
	local := &browser{w: w, remote: here, clear: true}
	out = local.json(PathSignIn, m{"user": "alice", "password": "secret-alice"})
	if set := out.Header().Get("Set-Cookie"); !strings.HasPrefix(set, "doublet=") || strings.Contains(set, "Secure") ||
		!strings.Contains(set, "; HttpOnly") || !strings.Contains(set, "; SameSite=Strict") {
		t.Error(set)
	}
	w.is("local", local.send("GET", "/api", "", ""), 200, "alice")
	// From elsewhere without TLS, the same cookie and passwords are rejected.
	local.remote = elsewhere
	w.is("clear cookie", local.send("GET", "/api", "", ""), 403, "clear")
	w.is("clear sign-in", (&browser{w: w, remote: elsewhere, clear: true}).json(PathSignIn,
		m{"user": "alice", "password": "secret-alice"}), 403, "clear")
	for _, v := range []string{"", "x", strings.Repeat("x", 43), strings.Repeat("x", 5000)} {
		w.is("no session",
			(&browser{w: w, remote: here, cookies: []*http.Cookie{{Name: cookieName, Value: v}}}).send("GET", "/api",
				"", ""), 401, "nobody")
	}
}

// TestForeign checks that requests caused by another site, by a sibling subdomain, or by a page without the session's
// token have no effect.
func TestForeign(t *testing.T) {
	t.Parallel()
	w := open(t, signin.Options{})
	b, other := w.signedIn("alice"), w.signedIn("bob")
	for _, c := range []struct {
		what, method string
		code         int
		header       []string
	}{
		{"with the token", "POST", 200, []string{CSRFField, b.csrf}},
		{"and our origin", "POST", 200, []string{CSRFField, b.csrf, "Origin", "https://mail.example.com"}},
		{"and from our page", "POST", 200, []string{CSRFField, b.csrf, "Origin", "https://mail.example.com",
			"Sec-Fetch-Site", "same-origin"}},
		{"without the token", "POST", 403, nil},
		{"without the token, from our page", "POST", 403, []string{"Sec-Fetch-Site", "same-origin"}},
		{"PUT without the token", "PUT", 403, nil}, {"DELETE", "DELETE", 403, nil},
		{"another session's token", "POST", 403, []string{CSRFField, other.csrf}},
		{"the cookie as token", "POST", 403, []string{CSRFField, b.cookies[0].Value}},
		{"another origin", "POST", 403, []string{CSRFField, b.csrf, "Origin", "https://evil.example"}},
		{"a sibling", "POST", 403, []string{CSRFField, b.csrf, "Origin", "https://www.example.com", "Sec-Fetch-Site",
			"same-site"}},
		{"in the clear", "POST", 403, []string{CSRFField, b.csrf, "Origin", "http://mail.example.com"}},
		{"another port", "POST", 403, []string{CSRFField, b.csrf, "Origin", "https://mail.example.com:444"}},
		{"no origin to be told", "POST", 403, []string{CSRFField, b.csrf, "Origin", "null"}},
		{"another site", "POST", 403, []string{CSRFField, b.csrf, "Sec-Fetch-Site", "cross-site"}},
		{"a link", "GET", 200, []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate"}},
		{"a picture", "GET", 403, []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors"}},
		{"a picture of a sibling", "GET", 403, []string{"Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "no-cors"}},
		{"a form elsewhere", "POST", 403, []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate"}},
		{"typed", "GET", 200, []string{"Sec-Fetch-Site", "none", "Sec-Fetch-Mode", "navigate"}},
		// A WebSocket opened by another site would have the cookie, and that site could read it.
		{"a WebSocket", "GET", 200, []string{"Upgrade", "websocket", "Origin", "https://mail.example.com"}},
		{"a WebSocket of our page", "GET", 200, []string{"Upgrade", "websocket", "Origin", "https://mail.example.com",
			"Sec-Fetch-Site", "same-origin"}},
		{"a WebSocket of another site", "GET", 403, []string{"Upgrade", "websocket", "Origin", "https://evil.example"}},
		{"and one that says navigate", "GET", 403, []string{"Upgrade", "websocket", "Origin", "https://evil.example",
			"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate"}},
		{"a WebSocket of nowhere", "GET", 403, []string{"Upgrade", "websocket"}},
	} {
		w.is(c.what, b.send(c.method, "/api", "", "", c.header...), c.code, "")
	}
	if len(b.cookies) != 1 {
		t.Fatal("a forged request took the cookie away")
	}
	// A program's WebSocket has no Origin.
	w.is("a program's WebSocket", w.browser().send("GET", "/api", "", "", "Upgrade", "websocket", "Authorization",
		basic("alice", "secret-alice")), 200, "alice")
	// Another site can neither sign a user in to another account nor sign them out.
	for _, kind := range []string{"application/x-www-form-urlencoded", "application/json", "text/plain"} {
		body := "user=bob&password=secret-bob"
		if kind != "application/x-www-form-urlencoded" {
			body = `{"user":"bob","password":"secret-bob"}`
		}
		out := b.send("POST", PathSignIn, kind, body, "Sec-Fetch-Site", "cross-site")
		if out.Code < 400 || out.Header().Get("Set-Cookie") != "" {
			t.Errorf("%s: %d", kind, out.Code)
		}
	}
	w.is("sign-out without the token", b.send("POST", PathSignOut, "application/json", "{}"), 403, "foreign")
	w.is("still there", b.send("GET", "/api", "", ""), 200, "alice")
}

// TestFixation checks that a sign-in always starts a new session, whatever cookie the browser had before.
func TestFixation(t *testing.T) {
	t.Parallel()
	w := open(t, signin.Options{})
	evil := w.signedIn("bob")
	planted := evil.cookies[0]
	b := w.browser()
	b.cookies = []*http.Cookie{planted}
	b.signIn(m{"user": "alice", "password": "secret-alice"})
	if b.cookies[0].Value == planted.Value {
		t.Error("the planted cookie goes on")
	}
	w.is("the browser", b.send("GET", "/api", "", ""), 200, "alice")
	w.is("who planted it", evil.send("GET", "/api", "", ""), 401, "nobody")
	made := w.browser()
	made.cookies = []*http.Cookie{{Name: cookieName, Value: strings.Repeat("A", 43)}}
	made.signIn(m{"user": "alice", "password": "secret-alice"})
	if made.cookies[0].Value == strings.Repeat("A", 43) {
		t.Error("a token made up by somebody is a session")
	}
}

func TestSignOut(t *testing.T) {
	t.Parallel()
	w := open(t, signin.Options{})
	b := w.signedIn("alice")
	thief := &browser{w: w, remote: elsewhere, cookies: b.cookies}
	w.is("stolen", thief.send("GET", "/api", "", ""), 200, "alice")
	out := b.json(PathSignOut, m{})
	w.is("sign-out", out, 200, "signed out")
	if !strings.Contains(out.Header().Get("Set-Cookie"), "Max-Age=0") || len(b.cookies) != 0 {
		t.Error(out.Header())
	}
	w.is("stolen, after", thief.send("GET", "/api", "", ""), 401, "nobody")
	w.is("again", b.json(PathSignOut, m{}), 200, "signed out")
}

func TestSessions(t *testing.T) {
	t.Parallel()
	w := open(t, signin.Options{})
	one, two, three, bob := w.signedIn("alice"), w.signedIn("alice"), w.signedIn("alice"), w.signedIn("bob")
	list := func(b *browser) (all []sessionInfo) {
		t.Helper()
		out := b.send("GET", PathSessions, "", "")
		if err := json.Unmarshal(out.Body.Bytes(), &all); err != nil {
			t.Fatal(err, out.Body)
		}
		return all
	}
	all := list(one)
	if len(all) != 3 {
		t.Fatalf("%+v", all)
	}
	var second string
	for _, s := range list(two) {
		if s.Current {
			second = s.ID
		}
	}
	w.is("another's", bob.json(pathEnd, m{"id": second}), 404, "no such session")
	w.is("nonsense", one.json(pathEnd, m{"id": "x"}), 404, "")
	w.is("neither", one.json(pathEnd, m{}), 400, "")
	w.is("both", one.json(pathEnd, m{"id": second, "others": true}), 400, "")
	w.is("end", one.json(pathEnd, m{"id": second}), 200, "ended")
	w.is("ended", two.send("GET", "/api", "", ""), 401, "")
	w.is("others", one.json(pathEnd, m{"others": true}), 200, "ended")
	w.is("three", three.send("GET", "/api", "", ""), 401, "")
	w.is("one", one.send("GET", "/api", "", ""), 200, "")
	w.is("bob", bob.send("GET", "/api", "", ""), 200, "")
	// A new password ends the sessions of the old one. Disabling a person ends their sessions at once.
	w.ok(w.dir.Passwords.Set(bg, note.System, w.alice.ID, "new secret", false))
	w.is("after a new password", one.send("GET", "/api", "", ""), 401, "nobody")
	if _, err := w.dir.People.Set(bg, note.System, w.bob.ID,
		func(f *directory.PersonFields) error { f.Disabled = true; return nil }); err != nil {
		t.Fatal(err)
	}
	w.is("disabled", bob.send("GET", "/api", "", ""), 403, "disabled")
	w.ok(w.dir.People.Remove(bg, note.System, w.bob.ID))
	w.is("removed", bob.send("GET", "/api", "", ""), 403, "disabled")
}

// TestGood checks that a credential is valid for as long as it can be used to sign in.
func TestGood(t *testing.T) {
	t.Parallel()
	w := open(t, signin.Options{})
	app, secret, err := w.dir.Passwords.AddApp(bg, note.System, w.alice.ID, "phone")
	w.ok(err)
	identity := func(b *browser, header ...string) string {
		_, credential, _ := strings.Cut(b.send("GET", "/api", "", "", header...).Body.String(), " ")
		return credential
	}
	b := w.signedIn("alice")
	byCookie, byApp, byPassword := identity(b), identity(w.browser(), "Authorization",
		"Bearer "+secret), identity(w.browser(), "Authorization", basic("alice", "secret-alice"))
	for _, c := range []string{byCookie, byApp, byPassword} {
		w.ok(w.Good(bg, w.alice.ID, c))
		if err := w.Good(bg, w.bob.ID, c); err == nil {
			t.Errorf("%s is good for bob", c)
		}
	}
	for _, c := range []string{"", "session:", "session:x", "app:", "app:x", "password:x", "oauth", "x"} {
		if err := w.Good(bg, w.alice.ID, c); err == nil {
			t.Errorf("%q is good", c)
		}
	}
	w.is("sign-out", b.json(PathSignOut, m{}), 200, "")
	if err := w.Good(bg, w.alice.ID, byCookie); !errors.Is(err, ErrNobody) {
		t.Error(err)
	}
	w.ok(w.dir.Passwords.RemoveApp(bg, note.System, w.alice.ID, app.ID))
	if err := w.Good(bg, w.alice.ID, byApp); !errors.Is(err, signin.ErrCredentials) {
		t.Error(err)
	}
	w.ok(w.dir.Passwords.Set(bg, note.System, w.alice.ID, "new secret", false))
	if err := w.Good(bg, w.alice.ID, byPassword); !errors.Is(err, signin.ErrCredentials) {
		t.Error(err)
	}
}

// TestRestart checks that sessions survive a restart, with their cookies and tokens.
func TestRestart(t *testing.T) {
	t.Parallel()
	w := open(t, signin.Options{})
	b, gone := w.signedIn("alice"), w.signedIn("alice")
	w.is("sign-out", gone.json(PathSignOut, m{}), 200, "")
	after := w.fix.Crash(0, 3)
	w.stop()
	w.fix = after
	w.start()
	w.is("after", b.send("POST", "/api", "", "", CSRFField, b.csrf), 200, "alice")
	w.is("ended", gone.send("GET", "/api", "", ""), 401, "")
}

func TestForms(t *testing.T) {
	t.Parallel()
	w := open(t, signin.Options{})
	b := w.browser()
	out := b.send("GET", PathSignIn+"?to=/mail/%22%3E%3Cscript%3E", "", "")
	w.is("page", out, 200, `action="/auth/sign-in"`)
	if strings.Contains(out.Body.String(), "<script") ||
		out.Header().Get("Content-Security-Policy") != web.PagePolicy(out.Body.String(), "'self'") {
		t.Error(out.Body, out.Header())
	}
	w.is("wrong", b.form(PathSignIn, url.Values{"user": {"<b>"}, "password": {"x"}}), 401, "&lt;b&gt;")
	for to, want := range map[string]string{"": PathAccount, "/mail": "/mail", "//evil.example": PathAccount,
		"https://evil.example": PathAccount, `/\evil.example`: PathAccount, "/a\r\nX: y": PathAccount} {
		out := b.form(PathSignIn, url.Values{"user": {"alice"}, "password": {"secret-alice"}, "to": {to}})
		if out.Code != 303 || out.Header().Get("Location") != want {
			t.Errorf("%q: %d %q", to, out.Code, out.Header().Get("Location"))
		}
	}
	out = b.send("GET", PathAccount, "", "")
	w.is("account", out, 200, "This browser")
	csrf := between(out.Body.String(), `name="csrf" value="`, `"`)
	w.is("without the token", b.form(pathEnd, url.Values{"others": {"yes"}}), 403, "does not come from a page")
	w.is("with it", b.form(pathEnd, url.Values{"others": {"yes"}, "csrf": {csrf}}), 200, "are ended")
	if out := w.browser().send("GET", PathAccount, "", ""); out.Code != 303 ||
		out.Header().Get("Location") != PathSignIn {
		t.Error(out.Code)
	}
	if out := b.form(PathSignOut, url.Values{"csrf": {csrf}}); out.Code != 303 || len(b.cookies) != 0 {
		t.Error(out.Code)
	}
}

// TestLanguage checks that pages have the language that the user chose or the browser requests. Programs get English.
func TestLanguage(t *testing.T) {
	t.Parallel()
	w := open(t, signin.Options{})
	b := w.browser()
	w.is("asked for", b.send("GET", PathSignIn, "", "", "Accept-Language", "de-AT,en;q=0.5"), 200,
		"Auf diesem Gerät angemeldet bleiben")
	w.is("a refusal", b.form(PathSignIn, url.Values{"user": {"alice"}, "password": {"x"}}, "Accept-Language", "de"),
		401, "Name oder Passwort falsch.")
	w.is("of a program", b.json(PathSignIn, m{"user": "alice", "password": "x"}, "Accept-Language", "de"), 401,
		"Wrong name or password.")
	a := w.signedIn("alice")
	out := a.send("GET", PathAccount, "", "", "Accept-Language", "zh-CN")
	w.is("account", out, 200, `<html lang="zh">`)
	for _, part := range []string{"此浏览器", "双重验证", "结束所有其他设备"} {
		w.is("account", out, 200, part)
	}
	out = a.form(pathTOTPBegin, url.Values{"csrf": {a.csrf}}, "Accept-Language", "de")
	w.is("an action", out, 400, "Das Passwort wird gebraucht.")
	a.cookies = append(a.cookies, &http.Cookie{Name: speech.Cookie, Value: "de|Asia/Shanghai"})
	w.is("chosen", a.send("GET", PathAccount, "", "", "Accept-Language", "zh"), 200, "CST, zuletzt")
}

func between(s, from, to string) string {
	_, s, _ = strings.Cut(s, from)
	s, _, _ = strings.Cut(s, to)
	return s
}

func TestBadInput(t *testing.T) {
	t.Parallel()
	w := open(t, signin.Options{})
	b := w.signedIn("alice")
	send := func(kind, body string) *httptest.ResponseRecorder {
		return b.send("POST", pathEnd, kind, body, CSRFField, b.csrf)
	}
	w.is("media type", send("text/plain", "{}"), 415, "")
	w.is("no type", send("", "{}"), 415, "")
	w.is("no JSON", send("application/json", "{"), 400, "")
	w.is("another field", send("application/json", `{"x":1}`), 400, "")
	w.is("another type", send("application/json", `{"id":1}`), 400, "")
	w.is("two", send("application/json", `{"others":true}{}`), 400, "")
	w.is("NUL", send("application/json", `{"id":"\u0000"}`), 400, "")
	w.is("large", send("application/json", `{"id":"`+strings.Repeat("x", 20_000)+`"}`), 413, "")
	w.is("large form", send("application/x-www-form-urlencoded", "id="+strings.Repeat("x", 20_000)), 413, "")
	w.is("bad form", send("application/x-www-form-urlencoded", "id=%zz"), 400, "")
	w.is("no path", b.send("GET", "/auth/nothing", "", ""), 404, "")
	w.is("method", b.send("DELETE", PathSession, "", ""), 405, "")
	w.is("session", b.send("GET", PathSession, "", ""), 200, `"csrf":"`+b.csrf+`"`)
}

// serve starts an HTTP server for the world, for clients of net/http.
func (w *world) serve() *httptest.Server {
	s := httptest.NewTLSServer(w.http)
	w.t.Cleanup(s.Close)
	return s
}

// TestOverTheWire repeats the main steps with a client that stores cookies as browsers do.
func TestOverTheWire(t *testing.T) {
	t.Parallel()
	w := open(t, signin.Options{})
	s := w.serve()
	client := s.Client()
	client.Jar = &jar{}
	out, err := client.Post(s.URL+PathSignIn, "application/json",
		strings.NewReader(`{"user":"alice","password":"secret-alice"}`))
	w.ok(err)
	var got signedIn
	w.ok(json.NewDecoder(out.Body).Decode(&got))
	_ = out.Body.Close()
	r, err := http.NewRequest("POST", s.URL+"/api", bytes.NewReader(nil))
	w.ok(err)
	r.Header.Set(CSRFField, got.CSRF)
	r.Header.Set("Origin", s.URL)
	out, err = client.Do(r)
	w.ok(err)
	body, err := io.ReadAll(out.Body)
	w.ok(err)
	_ = out.Body.Close()
	if out.StatusCode != 200 || !strings.HasPrefix(string(body), "alice session:") {
		t.Errorf("%d %s", out.StatusCode, body)
	}
}

// jar stores every cookie.
type jar struct{ all []*http.Cookie }

func (j *jar) SetCookies(_ *url.URL, c []*http.Cookie) { j.all = append(j.all, c...) }
func (j *jar) Cookies(*url.URL) []*http.Cookie         { return j.all }

// TestProved checks that a request authenticated by another cluster member needs only the token of a form.
func TestProved(t *testing.T) {
	t.Parallel()
	w := open(t, signin.Options{})
	account := signin.Account{Name: "Alice", Who: note.Who{Person: note.UNID{1}}}
	for _, c := range []struct {
		method, known, shown string
		err                  error
	}{
		{"GET", "token", "", nil}, {"POST", "token", "token", nil}, {"POST", "token", "", ErrForeign},
		{"POST", "token", "other", ErrForeign},
		{"POST", "", "", ErrForeign},
	} {
		r := Proved(httptest.NewRequest(c.method, "/lite/", nil), &account,
			credentialSession+note.UNID{7}.String(), c.known)
		id, err := w.IdentifyForm(r, c.shown)
		if !errors.Is(err, c.err) || err == nil && (id.Name != "Alice" || id.Session.ID != note.UNID{7} ||
			w.CSRF(id) != c.known) {
			t.Errorf("%+v: %+v, %v", c, id, err)
		}
	}
	if _, err := w.IdentifyForm(Proved(httptest.NewRequest("GET", "/", nil), &account, "app:1", "t"),
		"t"); !errors.Is(err, ErrNobody) {
		t.Errorf("a program: %v", err)
	}
}
