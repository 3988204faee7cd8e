package admind

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"doublet/admin"
	"doublet/directory"
	"doublet/directory/session"
	"doublet/env"
	"doublet/note"
	"doublet/serve/signin"
	"doublet/serve/websession"
	"doublet/stat"
)

// people says that everybody is the same.
type people struct{ id *websession.Identity }

func (p people) Identify(*http.Request) (*websession.Identity, error) { return p.id, nil }

func (p people) Refuse(w http.ResponseWriter, _ *http.Request, _ error) {
	w.WriteHeader(http.StatusUnauthorized)
}

// TestDoor: who signed in too long ago changes nothing, reads on, and is told; who is too far away, or a program, is
// refused. That the role counts, and the session's word, is shown with a whole server (test/e2e TestAdminDoor).
func TestDoor(t *testing.T) {
	t.Parallel()
	fix := env.Test(t)
	stats := stat.New(fix.Clock)
	stats.Counter("Some.Thing", "x").Inc()
	s := &admin.Running{System: &admin.System{Env: fix.Env, Stats: stats}}
	id := &websession.Identity{
		Account: signin.Account{Who: note.Who{Person: note.UNID{1}, Roles: []string{"Admin"}}},
		Session: session.Session{ID: note.UNID{2}, Created: fix.Clock.Now()},
	}
	d := New(fix.Env, s, people{id}, Options{From: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")},
		Fresh: time.Hour, Stats: stats})
	call := func(remote, verb string) (int, string) {
		t.Helper()
		r := httptest.NewRequest("POST", Path+verb, strings.NewReader("{}"))
		r.RemoteAddr = remote
		w := httptest.NewRecorder()
		d.ServeHTTP(w, r)
		return w.Code, w.Body.String()
	}
	const near = "192.0.2.7:1234"
	if code, text := call(near, "show/stat"); code != http.StatusOK || !strings.Contains(text, "Some.Thing") {
		t.Error(code, text)
	}
	for _, far := range []string{"198.51.100.1:1234", "@", ""} {
		if code, _ := call(far, "show/stat"); code != http.StatusNotFound {
			t.Errorf("from %q: %d", far, code)
		}
	}
	fix.Time.Advance(time.Hour + time.Second)
	if code, text := call(near, "user/add"); code != http.StatusForbidden ||
		!strings.Contains(text, `"kind":"sign in","password":false,"passkey":false`) {
		t.Error(code, text)
	}
	if code, text := call(near, "show/stat"); code != http.StatusOK {
		t.Error(code, text)
	}
	// A new session of an issuer is as old as the person's proof.
	id.Person.HasPassword, id.Person.Passkeys = true, make([]directory.Passkey, 1)
	id.Session = session.Session{ID: note.UNID{3}, Created: fix.Clock.Now(), Issuer: "https://issuer"}
	for n, proved := range []time.Time{{}, fix.Clock.Now().Add(-time.Hour - time.Second)} {
		id.Session.AuthTime = proved
		if code, text := call(near, "user/add"); code != http.StatusForbidden ||
			!strings.Contains(text, `"kind":"sign in","password":true,"passkey":true`) {
			t.Error(n, code, text)
		}
	}
	id.Session.ID = note.UNID{}
	if code, _ := call(near, "show/stat"); code != http.StatusUnauthorized {
		t.Error("a program:", code)
	}
	if calls, old := d.calls.Value(), d.old.Value(); calls != 6 || old != 3 {
		t.Error(calls, old)
	}
}
