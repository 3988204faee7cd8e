package e2e

import (
	"io"
	web "net/http"
	"strings"
	"testing"

	"doublet/admin"
	"doublet/test/program"
)

// TestAdminDoor checks that administrators can run verbs from a browser, and that all others are refused in every way.
func TestAdminDoor(t *testing.T) {
	t.Parallel()
	s := demo(t)
	const door = "/admin/verbs/"
	alice, bob := s.browser(), s.browser()
	alice.signIn()
	var in struct {
		CSRF  string `json:"csrf"`
		Admin bool   `json:"admin"`
	}
	if code := bob.get("POST", "/auth/sign-in", `{"user":"bob","password":"demo"}`, &in); code != 200 || in.Admin {
		t.Fatal(code, in)
	}
	bob.csrf = in.CSRF
	if alice.get("GET", "/auth/session", "", &in); !in.Admin {
		t.Error("alice is not told that she is an administrator")
	}

	// Without the role, every verb is refused. Verbs for the machine itself are refused too.
	for _, v := range admin.Verbs() {
		path := door + strings.ReplaceAll(v.Name, " ", "/")
		if code := bob.get("POST", path, `{}`, nil); code != web.StatusForbidden {
			t.Errorf("%s for bob: %d", v.Name, code)
		}
		if v.Machine {
			if code := alice.get("POST", path, `{}`, nil); code != web.StatusForbidden {
				t.Errorf("%s for alice: %d", v.Name, code)
			}
		}
	}
	var may []string
	if code := bob.get("GET", door, "", &may); code != 200 || len(may) != 0 {
		t.Error(code, may)
	}
	if code := alice.get("GET", door, "", &may); code != 200 || len(may) < 50 {
		t.Error(code, may)
	}

	// Programs are refused, and so are requests without the session's token and requests from another site.
	for name, w := range map[string]*visitor{"program": s.program("demo"), "nobody": s.browser()} {
		if code := w.do("POST", door+"user/list", `{}`).StatusCode; code != web.StatusUnauthorized {
			t.Errorf("%s: %d", name, code)
		}
	}
	token := alice.csrf
	alice.csrf = ""
	if code := alice.do("POST", door+"user/list", `{}`).StatusCode; code != web.StatusForbidden {
		t.Error("without the token:", code)
	}
	alice.csrf = token
	r, err := web.NewRequest("POST", alice.base+door+"user/list", strings.NewReader(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-CSRF-Token", token)
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	if out, err := alice.client.Do(r); err != nil || out.StatusCode != web.StatusForbidden {
		t.Error("of another site:", out, err)
	}

	// The verb is the one of the command line, with the same errors, and writes its line to the audit log.
	said := func(w *visitor, verb, args string) string {
		b, err := io.ReadAll(w.do("POST", door+verb, args).Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	program.Want(t, said(alice, "user/add", `{"name":"Dora Diaz","short":"dora","password":"hush-hush"}`),
		`"address":"dora@example.com"`)
	program.Want(t, s.Doublet("user", "show", "dora"), "Dora Diaz")
	program.Want(t, said(alice, "user/add", `{"name":"Dora Diaz"}`), `"kind":"exists"`)
	program.Want(t, said(alice, "no/such", `{}`), `"kind":"usage"`)
	log := s.Doublet("show", "log", "--audit", "--limit", "1000")
	program.Want(t, log, `verb="user add" by="Alice`)
	program.Want(t, log, "by=\"Bob")
	if strings.Contains(log, "hush") {
		t.Error("a password stands in the log")
	}
	// A person who loses the role loses access at once.
	s.Doublet("user", "set", "alice", "--role", "")
	if code := alice.do("POST", door+"user/list", `{}`).StatusCode; code != web.StatusForbidden {
		t.Error("without the role:", code)
	}
}
