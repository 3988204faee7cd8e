package webd

import (
	"context"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"doublet/directory"
	"doublet/note"
	"doublet/serve/signin"
)

// post sends a form as a browser on this machine does. pairs are header fields.
func post(w *Server, path, remote string, form url.Values, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("POST", path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.RemoteAddr = remote
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	out := httptest.NewRecorder()
	w.ServeHTTP(out, r)
	return out
}

const here, elsewhere = "127.0.0.1:4711", "192.0.2.7:4711"

func TestAccount(t *testing.T) {
	t.Parallel()
	w, s := newServer(t)
	t.Cleanup(func() { s.Directory.Close(); _ = s.Store.Close() })
	ctx := context.Background()
	p, err := s.Directory.People.Add(ctx, note.System,
		directory.PersonSpec{PersonFields: directory.PersonFields{FullName: []string{"Ada <b>"}, ShortName: "ada",
			MailDatabase: 7}, Password: "old secret", Scram: true})
	if err != nil {
		t.Fatal(err)
	}
	in := people{s.Directory}
	w.Account(in)
	signsIn := func(pw string) bool {
		_, _, err := s.Directory.SignIns.Authenticate(ctx, "ada", pw, "test")
		return err == nil
	}
	change := func(old, pw, again string) url.Values {
		return url.Values{"user": {"ada"}, "password": {old}, "new": {pw}, "again": {again}}
	}
	r := httptest.NewRequest("GET", "/account/password", nil)
	r.RemoteAddr = here
	page := httptest.NewRecorder()
	w.ServeHTTP(page, r)
	ownStyle(t, page)
	if page.Code != 200 || strings.Contains(page.Body.String(), "<script") ||
		!strings.Contains(page.Header().Get("Content-Security-Policy"), "form-action 'self'") {
		t.Errorf("%d %v %s", page.Code, page.Header(), page.Body)
	}
	german := post(w, "/account/password", here, change("wrong", "new secret", "new secret"), "Accept-Language", "de")
	if text := german.Body.String(); german.Code != 403 || !strings.Contains(text, "Name oder Passwort falsch.") ||
		!strings.Contains(text, "Neues Passwort, mindestens 8 Zeichen") {
		t.Errorf("in German: %d %s", german.Code, text)
	}
	for _, c := range []struct {
		name string
		out  *httptest.ResponseRecorder
		code int
	}{
		{"in the clear from elsewhere", post(w, "/account/password", elsewhere,
			change("old secret", "new secret", "new secret")), 403},
		{"from another site", post(w, "/account/password", here, change("old secret", "new secret", "new secret"),
			"Sec-Fetch-Site", "cross-site"), 403},
		{"a wrong password", post(w, "/account/password", here, change("wrong", "new secret", "new secret")), 403},
		{"a wrong code", post(w, "/account/password", here, url.Values{"user": {"ada"}, "password": {"old secret"},
			"new": {"new secret"}, "again": {"new secret"}, "code": {"wrong"}}), 403},
		{"not the same twice", post(w, "/account/password", here, change("old secret", "new secret", "new secre")),
			400},
		{"too short", post(w, "/account/password", here, change("old secret", "short", "short")), 400},
		{"the old one", post(w, "/account/password", here, change("old secret", "old secret", "old secret")), 400},
		{"no name", post(w, "/account/password", here, url.Values{}), 400},
		{"a form without end", post(w, "/account/password", here,
			change("old secret", strings.Repeat("x", 20_000), "x")), 400},
	} {
		if c.out.Code != c.code {
			t.Errorf("%s: %d", c.name, c.out.Code)
		}
		if !signsIn("old secret") {
			t.Fatalf("%s changed the password", c.name)
		}
	}
	if out := post(w, "/account/password", here, change("old secret", "new secret", "new secret"), "Sec-Fetch-Site",
		"same-origin"); out.Code != 200 || !strings.Contains(out.Body.String(), "is changed") {
		t.Errorf("%d %s", out.Code, out.Body)
	}
	if signsIn("old secret") || !signsIn("new secret") {
		t.Error("the password is not changed")
	}
	if now, err := s.Directory.Names.Person(ctx, p.ID); err != nil || !now.HasScram {
		t.Error("credentials for SCRAM are gone", err)
	}
}

func TestAccountAppPasswords(t *testing.T) {
	t.Parallel()
	w, s := newServer(t)
	t.Cleanup(func() { s.Directory.Close(); _ = s.Store.Close() })
	ctx := context.Background()
	p, err := s.Directory.People.Add(ctx, note.System,
		directory.PersonSpec{PersonFields: directory.PersonFields{FullName: []string{"Ada"}, ShortName: "ada",
			MailDatabase: 7}, Password: "the secret"})
	if err != nil {
		t.Fatal(err)
	}
	w.Account(people{s.Directory})
	form := func(more ...string) url.Values {
		v := url.Values{"user": {"ada"}, "password": {"the secret"}}
		for i := 0; i < len(more); i += 2 {
			v.Set(more[i], more[i+1])
		}
		return v
	}
	out := post(w, "/account/app-passwords", here, form("label", "phone <i>"))
	secret := regexp.MustCompile(`<code>([a-z2-7-]{39})</code>`).FindStringSubmatch(out.Body.String())
	if out.Code != 200 || secret == nil || !strings.Contains(out.Body.String(), "phone &lt;i&gt;") {
		t.Fatalf("%d %s", out.Code, out.Body)
	}
	if _, _, err := s.Directory.SignIns.Authenticate(ctx, "ada", secret[1], "test"); err != nil {
		t.Error(err)
	}
	// An app password gives no access to this page.
	if out := post(w, "/account/app-passwords", here, url.Values{"user": {"ada"},
		"password": {secret[1]}}); out.Code != 403 {
		t.Errorf("an app password opens the page: %d", out.Code)
	}
	now, err := s.Directory.Names.Person(ctx, p.ID)
	if err != nil || len(now.AppPasswords) != 1 {
		t.Fatal(now.AppPasswords, err)
	}
	if out := post(w, "/account/app-passwords", here, form("remove", "nonsense")); out.Code != 400 {
		t.Errorf("%d %s", out.Code, out.Body)
	}
	if out := post(w, "/account/app-passwords", here, form("remove", now.AppPasswords[0].ID)); out.Code != 200 {
		t.Errorf("%d %s", out.Code, out.Body)
	}
	if _, _, err := s.Directory.SignIns.Authenticate(ctx, "ada", secret[1], "test"); err == nil {
		t.Error("the app password still works")
	}
}

// people signs in with the directory alone.
type people struct{ d *directory.Directory }

func (p people) Person(ctx context.Context, a signin.Attempt, user, secret, code string) (signin.Proved, error) {
	who, person, err := p.d.SignIns.Authenticate(ctx, user, secret, a.Door)
	switch {
	case err != nil:
		return signin.Proved{}, signin.ErrCredentials
	case code == "wrong":
		return signin.Proved{}, signin.ErrWrongCode
	}
	return signin.Proved{Account: signin.Account{Who: who, Name: person.Name()}}, nil
}
