package websession

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"doublet/serve/signin"
)

// sessionCookie returns the cookie of the browser's session.
func (b *browser) sessionCookie() *http.Cookie {
	b.w.t.Helper()
	at := slices.IndexFunc(b.cookies, func(c *http.Cookie) bool { return c.Name == cookieName })
	if at < 0 {
		b.w.t.Fatal("the browser has no session")
	}
	return b.cookies[at]
}

// TestAgain lets the person of a session prove themselves again, with the password and with a passkey. The new session
// replaces the old one and lasts as long: the browser keeps its cookie, or not, as before. A session of another person,
// and a page without its token, get none.
func TestAgain(t *testing.T) {
	t.Parallel()
	w := open(t, signin.Options{})
	device := w.phone()
	device.register(w.signedIn("alice"), "alice")
	for way, prove := range map[string]func(b *browser) *httptest.ResponseRecorder{
		"password": func(b *browser) *httptest.ResponseRecorder {
			return b.json(PathSignIn, m{"user": "alice", "password": "secret-alice", "again": true})
		},
		"passkey": func(b *browser) *httptest.ResponseRecorder {
			return b.json(pathPasskey, m{"credential": device.shown(w.request()), "again": true})
		},
	} {
		for _, keep := range []bool{true, false} {
			b := w.browser()
			b.signIn(m{"user": "alice", "password": "secret-alice", "keep": keep})
			old, stolen := b.session(), &browser{w: w, remote: here, cookies: slices.Clone(b.cookies)}
			w.fix.Time.Advance(time.Hour)
			out := prove(b)
			w.is(way, out, 200, `"name":"alice"`)
			var got signedIn
			w.ok(json.Unmarshal(out.Body.Bytes(), &got))
			b.csrf = got.CSRF
			now, c := b.session(), b.sessionCookie()
			if now.ID == old.ID || now.Keep != keep || c.MaxAge > 0 != keep || now.Proved() != w.now().UTC() {
				t.Errorf("%s: the session was %+v, is %+v, its cookie %v", way, old, now, c)
			}
			w.is(way+": a copy of the old cookie", stolen.send("GET", PathSession, "", ""), 401, `"error":"nobody"`)
			w.is(way+": sign out", b.json(PathSignOut, m{}), 200, "")
			w.is(way+": no session", prove(b), 401, `"error":"nobody"`)
		}
		bob := w.signedIn("bob")
		before := bob.session()
		w.is(way+": another person's session", prove(bob), 403, `"error":"other"`)
		bob.csrf = ""
		w.is(way+": no token", prove(bob), 403, `"error":"foreign"`)
		if now := bob.session(); now != before {
			t.Errorf("%s: the session was %+v, is %+v", way, before, now)
		}
	}
}
