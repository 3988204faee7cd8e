package websession

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"doublet/directory"
	"doublet/directory/oauth"
	"doublet/directory/session"
	"doublet/env/logtail"
	"doublet/note"
	"doublet/serve/signin"
	"doublet/test/issuer"
)

const openIDBack = "https://mail.example.com" + PathOpenIDBack

// withIssuer turns on the sign-in with an issuer.
func (w *world) withIssuer() *issuer.Issuer {
	w.t.Helper()
	i := issuer.New(w.t)
	v, err := oauth.New(w.fix.Env, oauth.Options{Issuer: i.URL, Audience: issuer.Audience, Stats: w.stats})
	w.ok(err)
	in := w.web.OpenID(v.Client(issuer.Secret, openIDBack), w.dir.Secret.Key("openid"))
	w.Service.opt.OpenID = &OpenID{in, "House"}
	return i
}

// refusedAgain returns the attributes of the log's lines about people who did not prove themselves again.
func (w *world) refusedAgain() (list []string) {
	lines, _ := logtail.Of(w.fix.Log).Since(0, logtail.Lines, func(l *logtail.Line) bool {
		return l.Level >= slog.LevelInfo && l.Text == "sign-in again with the issuer refused"
	})
	for _, l := range lines {
		list = append(list, l.Attrs)
	}
	return list
}

// begun returns the address of the issuer to which a browser is sent.
func (b *browser) begun(query string) string {
	b.w.t.Helper()
	out := b.send("GET", PathOpenID+query, "", "", "Sec-Fetch-Site", "same-origin")
	if out.Code != http.StatusSeeOther {
		b.w.t.Fatalf("begin: %d %s", out.Code, out.Body)
	}
	return out.Header().Get("Location")
}

// returns sends the browser back to the server, as the issuer does: without the cookie of a session.
func (b *browser) returns(u *url.URL) (code int, body string) {
	b.w.t.Helper()
	if got := u.Scheme + "://" + u.Host + u.Path; got != openIDBack {
		b.w.t.Fatal("the issuer sends the browser to", got)
	}
	strict := func(c *http.Cookie) bool { return c.SameSite == http.SameSiteStrictMode }
	kept := slices.Clone(b.cookies)
	b.cookies = slices.DeleteFunc(b.cookies, strict)
	out := b.send("GET", u.RequestURI(), "", "", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate")
	for _, c := range kept {
		if strict(c) && !slices.ContainsFunc(b.cookies, func(x *http.Cookie) bool { return x.Name == c.Name }) {
			b.cookies = append(b.cookies, c)
		}
	}
	return out.Code, out.Body.String()
}

func (w *world) now() time.Time { return w.fix.Clock.Now() }

// TestOpenID signs people in with an issuer. The session lasts as long as the account, its password and the setting.
func TestOpenID(t *testing.T) {
	t.Parallel()
	w := open(t, signin.Options{})
	i := w.withIssuer()
	out := w.browser().send("GET", pathWays, "", "", "Sec-Fetch-Site", "same-origin")
	w.is("ways", out, 200, `"openid":{"name":"House","path":"/auth/openid"}`)
	w.is("page", w.browser().send("GET", PathSignIn+"?to=/lite/", "", ""), 200, `href="/auth/openid?to=%2flite%2f"`)

	b := w.browser()
	code, body := b.returns(i.Code(t, w.now(), b.begun("?keep=1&to=/lite/"), nil))
	if code != 200 || !strings.Contains(body, `content="0; url=/lite/"`) {
		t.Fatal(code, body)
	}
	for _, c := range b.cookies {
		if c.Name == openIDCookie {
			t.Error("the ticket stays:", c)
		}
		if c.Name == cookieName && (c.MaxAge == 0 || c.SameSite != http.SameSiteStrictMode) {
			t.Error("the session is not kept:", c)
		}
	}
	out = b.send("GET", PathSession, "", "", "Sec-Fetch-Site", "same-origin")
	w.is("session", out, 200, `"name":"alice"`)
	var who signedIn
	w.ok(json.Unmarshal(out.Body.Bytes(), &who))
	b.csrf = who.CSRF
	w.is("sessions", b.send("GET", PathSessions, "", ""), 200, `"current":true`)

	b2 := w.browser()
	if code, body = b2.returns(i.Code(t, w.now(), b2.begun("?to=https://evil.example/"), nil)); code != 200 ||
		!strings.Contains(body, `url=/"`) {
		t.Error(code, body)
	}
	w.withIssuer() // another one
	w.is("another issuer", b.send("GET", PathSession, "", ""), 401, "nobody")
}

// TestOpenIDEnds ends sessions that began at the issuer.
func TestOpenIDEnds(t *testing.T) {
	t.Parallel()
	for what, end := range map[string]func(w *world){
		"password": func(w *world) {
			w.ok(w.dir.Passwords.Set(bg, note.System, w.alice.ID, "another-secret", false))
		},
		"off": func(w *world) { w.Service.opt.OpenID = nil },
	} {
		w := open(t, signin.Options{})
		i := w.withIssuer()
		b := w.browser()
		b.returns(i.Code(t, w.now(), b.begun(""), nil))
		w.is(what, b.send("GET", PathSession, "", ""), 200, `"name":"alice"`)
		end(w)
		w.is(what, b.send("GET", PathSession, "", ""), 401, `"error":"nobody"`)
	}
}

// TestOpenIDRefused signs nobody in by a response that is forged, late, of another browser, or for a stranger.
func TestOpenIDRefused(t *testing.T) {
	t.Parallel()
	w := open(t, signin.Options{Failures: -1})
	i := w.withIssuer()
	nobody := func(what string, b *browser, u *url.URL, status int, text string) {
		t.Helper()
		code, body := b.returns(u)
		if code != status || !strings.Contains(body, text) {
			t.Errorf("%s: %d %s", what, code, body)
		}
		w.is(what, b.send("GET", PathSession, "", ""), 401, `"error":"nobody"`)
	}
	const wrong = "The provider did not sign you in."
	one, two := w.browser(), w.browser()
	good := i.Code(t, w.now(), one.begun(""), nil)
	nobody("no ticket", w.browser(), good, 401, wrong)
	two.begun("")
	nobody("the ticket of another browser", two, good, 401, wrong)
	forged := w.browser()
	forged.begun("")
	forged.cookies[0].Value = "e30." + strings.Split(forged.cookies[0].Value, ".")[1]
	nobody("a forged ticket", forged, good, 401, wrong)
	cancels := w.browser()
	denied := *i.Code(t, w.now(), cancels.begun(""), nil)
	denied.RawQuery = "error=access_denied&state=" + denied.Query().Get("state")
	nobody("refused by the issuer", cancels, &denied, 401, wrong)

	b := w.browser()
	nobody("a stranger", b, i.Code(t, w.now(), b.begun(""), issuer.Claims{"email": "mallory@example.com"}), 403,
		"nobody here has your address")
	b = w.browser()
	late := i.Code(t, w.now(), b.begun(""), nil)
	if age := time.Duration(b.cookies[0].MaxAge) * time.Second; age <= signin.OpenIDLife {
		t.Errorf("the browser drops the cookie after %s, before the ticket expires", age)
	}
	w.fix.Time.Advance(signin.OpenIDLife)
	nobody("late", b, late, 401, "took too long")
	_, err := w.dir.People.Set(bg, note.System, w.alice.ID, func(f *directory.PersonFields) error {
		f.Disabled = true
		return nil
	})
	w.ok(err)
	b = w.browser()
	nobody("disabled", b, i.Code(t, w.now(), b.begun(""), nil), 403, "")

	back := i.Code(t, w.now(), w.browser().begun(""), nil)
	far := &browser{w: w, remote: elsewhere, clear: true}
	if code, _ := far.returns(back); code != 403 || len(far.cookies) > 0 {
		t.Errorf("without TLS: %d, cookies %v", code, far.cookies)
	}

	i.Down.Store(true)
	b = w.browser()
	w.fix.Time.Advance(2 * time.Hour)
	w.Service.opt.OpenID = nil
	w.withIssuer().Down.Store(true)
	w.is("down", b.send("GET", PathOpenID, "", ""), 503, "")
	w.is("clear", far.send("GET", PathOpenID, "", ""), 403, "")
	w.Service.opt.OpenID = nil
	w.is("off", b.send("GET", PathOpenID, "", ""), 404, "")
	w.is("off", b.send("GET", PathOpenIDBack+"?code=1", "", ""), 404, "")
	w.is("off", b.send("GET", pathWays, "", ""), 200, `{"passkey"`)
}

// TestOpenIDCounts checks which responses count as failed sign-ins: those that the issuer refuses. A page of anybody
// can send browsers here without a ticket, and a person may cancel.
func TestOpenIDCounts(t *testing.T) {
	t.Parallel()
	w := open(t, signin.Options{Failures: 2})
	i := w.withIssuer()
	far := func() *browser { return &browser{w: w, remote: elsewhere} }
	back := func(b *browser, query string, status int) {
		t.Helper()
		w.is(query, b.send("GET", PathOpenIDBack+"?"+query, "", "", "Sec-Fetch-Site", "cross-site"), status, "")
	}
	b := far()
	for n := range 3 {
		back(b, fmt.Sprintf("code=%d&state=x", n), 401)
		cancels := far()
		state := i.Code(t, w.now(), cancels.begun(""), nil).Query().Get("state")
		back(cancels, "error=access_denied&state="+state, 401)
	}
	if list := w.web.Bans(); len(list) > 0 {
		t.Fatalf("banned without a guess: %+v", list)
	}
	for n := range 2 {
		b = far()
		state := i.Code(t, w.now(), b.begun(""), nil).Query().Get("state")
		back(b, fmt.Sprintf("code=wrong%d&state=%s", n, state), 401)
	}
	if list := w.web.Bans(); len(list) != 1 {
		t.Errorf("refused by the issuer: bans %+v", list)
	}
}

// session returns the session of the browser's cookie.
func (b *browser) session() session.Session {
	b.w.t.Helper()
	s, err := b.w.keep.Find(bg, b.sessionCookie().Value, "")
	b.w.ok(err)
	return s
}

// TestOpenIDAgain lets the person of a session sign in again at the issuer. The new session replaces the old one, and
// is as fresh as the issuer says.
func TestOpenIDAgain(t *testing.T) {
	t.Parallel()
	w := open(t, signin.Options{})
	i := w.withIssuer()
	b := w.browser()
	morning := w.now().UTC()
	b.returns(i.Code(t, w.now(), b.begun("?keep=1"), issuer.Claims{"auth_time": morning.Unix()}))
	w.fix.Time.Advance(8 * time.Hour)
	b.returns(i.Code(t, w.now(), b.begun("?keep=1"), issuer.Claims{"auth_time": morning.Unix()}))
	old := b.session()
	if old.Proved() != morning || old.Created == morning {
		t.Errorf("signed in at %s, authenticated at %s: proved at %s", old.Created, morning, old.Proved())
	}
	stolen := &browser{w: w, remote: here, cookies: slices.Clone(b.cookies)}

	address := b.begun("?again=1&to=/admin/%23/people")
	w.fix.Time.Advance(time.Minute)
	back := i.Code(t, w.now(), address, nil)
	ticket := slices.Clone(b.cookies)
	code, body := b.returns(back)
	if code != 200 || !strings.Contains(body, `content="0; url=/admin/#/people"`) {
		t.Fatal(code, body)
	}
	fresh := b.session()
	if fresh.ID == old.ID || fresh.Proved() != w.now().UTC() || !fresh.Keep || fresh.Person != w.alice.ID {
		t.Errorf("the session is %+v", fresh)
	}
	w.is("the new session", b.send("GET", PathSession, "", ""), 200, `"name":"alice"`)
	w.is("a copy of the old cookie", stolen.send("GET", PathSession, "", ""), 401, `"error":"nobody"`)

	replay := &browser{w: w, remote: here, cookies: ticket}
	if code, body := replay.returns(back); code != 401 {
		t.Errorf("the response again: %d %s", code, body)
	}
	if code, body := b.returns(i.Code(t, w.now(), b.begun("?again=1&to=//evil.example/"), nil)); code != 200 ||
		!strings.Contains(body, `content="0; url=/"`) {
		t.Error("to another server:", code, body)
	}
}

// TestOpenIDAgainRefused checks that a person who does not prove themselves again keeps the session as it is, that the
// log says why, with the time that the issuer said, and that this bans nobody. Nobody begins without a session, and a
// session that ended meanwhile stays ended.
func TestOpenIDAgainRefused(t *testing.T) {
	t.Parallel()
	w := open(t, signin.Options{Failures: 1})
	i := w.withIssuer()
	far := func(user string) *browser {
		t.Helper()
		b := &browser{w: w, remote: elsewhere}
		b.signIn(m{"user": user, "password": "secret-" + user})
		return b
	}
	const query = "?again=1&to=/admin/"
	alice, bob := far("alice"), far("bob")
	minutes := func(n time.Duration) time.Time { return time.Unix(w.now().Add(n*time.Minute).Unix(), 0) }
	for what, c := range map[string]struct {
		browser *browser
		said    time.Time // zero: the issuer says none
		text    string
		cause   error
	}{
		"no time":  {alice, time.Time{}, "did not confirm", signin.ErrNotAgain},
		"old":      {alice, minutes(-2), "did not confirm", signin.ErrNotAgain},
		"future":   {alice, minutes(2), "did not confirm", signin.ErrNotAgain},
		"somebody": {bob, minutes(0), "as another person", signin.ErrOther},
	} {
		change := issuer.Claims{"auth_time": nil}
		if !c.said.IsZero() {
			change["auth_time"] = c.said.Unix()
		}
		before, logged := c.browser.session(), len(w.refusedAgain())
		code, body := c.browser.returns(i.Code(t, w.now(), c.browser.begun(query), change))
		if code != 403 || !strings.Contains(body, c.text) || !strings.Contains(body, `<a href="/admin/">`) ||
			strings.Contains(body, "http-equiv") || strings.Contains(body, "<form") {
			t.Errorf("%s: %d %s", what, code, body)
		}
		if now := c.browser.session(); now != before {
			t.Errorf("%s: the session was %+v, is %+v", what, before, now)
		}
		want := fmt.Sprintf(`person=alice place="HTTP 192.0.2.7" auth_time="%s" error="%s"`, c.said, c.cause)
		if list := w.refusedAgain(); len(list) != logged+1 || list[logged] != want {
			t.Errorf("%s: the log has %q\nwant %d lines before, and %s", what, list, logged, want)
		}
	}
	logged := w.refusedAgain()
	cancelled := *i.Code(t, w.now(), alice.begun(query), nil)
	cancelled.RawQuery = "error=access_denied&state=" + cancelled.Query().Get("state")
	if code, body := alice.returns(&cancelled); code != 401 || !strings.Contains(body, `<a href="/admin/">`) {
		t.Errorf("cancelled: %d %s", code, body)
	}

	to := i.Code(t, w.now(), alice.begun(query), nil)
	w.ok(w.keep.End(bg, w.alice.ID, alice.session().ID))
	alice.cookies = slices.DeleteFunc(alice.cookies, func(c *http.Cookie) bool { return c.Name == cookieName })
	if code, _ := alice.returns(to); code != http.StatusSeeOther {
		t.Error("the session has ended:", code)
	}
	w.is("the session has ended", alice.send("GET", PathSession, "", ""), 401, `"error":"nobody"`)

	out := alice.send("GET", PathOpenID+query, "", "")
	if w.is("no session", out, http.StatusSeeOther, ""); out.Header().Get("Location") != PathSignIn {
		t.Error("no session:", out.Header())
	}
	w.is("another site", bob.send("GET", PathOpenID+query, "", "", "Sec-Fetch-Site", "cross-site"), 403, "")
	w.is("a program", alice.send("GET", PathOpenID+query, "", "", "Authorization", basic("bob", "secret-bob")), 303, "")
	if bans := w.web.Bans(); len(bans) > 0 {
		t.Errorf("bans: %+v", bans)
	}
	if list := w.refusedAgain(); !slices.Equal(list, logged) {
		t.Errorf("the log tells of more refusals: %q", list[len(logged):])
	}
}
