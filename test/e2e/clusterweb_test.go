package e2e

import (
	"io"
	web "net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"doublet/test/program"
)

// pair returns a cluster of two, whose first server leads Anna's mail file.
func pair(t *testing.T, settings ...string) (path string, one, two *member) {
	t.Helper()
	path, err := program.Path()
	if err != nil {
		t.Fatal(err)
	}
	one, two = newMember(t), newMember(t)
	one.env, two.env = settings, settings
	program.Run(t, "secret\n", nil, path, "init", "--data", one.Data, "--domain", "cluster.example")
	program.Run(t, "secret\n", nil, path, "user", "add", "Anna", "--short", "anna", "--address", "anna@cluster.example",
		"--data", one.Data)
	program.Run(t, "", nil, path, "config", "set", "cluster.direct", "127.0.0.1:"+one.Port["direct"],
		"cluster.routes", "127.0.0.1:"+one.Port["routes"], "cluster.advertise", "127.0.0.1", "--data", one.Data)
	one.serve()
	one.Doublet("cluster", "init", "test")
	token := strings.Fields(one.Doublet("cluster", "token"))[1]
	program.Run(t, "", nil, path, append([]string{"cluster", "join", token, "--name", "two", "--data", two.Data},
		two.addresses...)...)
	two.serve()
	return path, one, two
}

// surfer is a person with a browser. Cookies of 127.0.0.1 are sent to every server there, as if one name stood for
// several servers.
type surfer struct {
	t *testing.T
	web.Client
}

func newSurfer(t *testing.T) *surfer {
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &surfer{t, web.Client{Jar: jar, Timeout: 20 * time.Second}}
}

// page loads a page, or submits a form, and returns the status, the final address and the text.
func (s *surfer) page(m *member, path string, form url.Values) (status int, at, text string) {
	s.t.Helper()
	var a *web.Response
	var err error
	if where := "http://127.0.0.1:" + m.Port["http"] + path; form == nil {
		a, err = s.Get(where)
	} else {
		a, err = s.PostForm(where, form)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	defer a.Body.Close()
	b, err := io.ReadAll(a.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return a.StatusCode, a.Request.URL.Path, string(b)
}

// until loads a page repeatedly until it contains a text.
func (s *surfer) until(m *member, path, text string) string {
	s.t.Helper()
	var got string
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if _, _, got = s.page(m, path, nil); strings.Contains(got, text) {
			return got
		}
	}
	s.t.Fatalf("%s does not come to hold %q: %s\n%s", path, text, got, m.Out)
	return ""
}

var csrfField = regexp.MustCompile(`name="csrf" value="([^"]*)"`)

// csrf returns the token in the forms of a page.
func csrf(t *testing.T, page string) string {
	t.Helper()
	found := csrfField.FindStringSubmatch(page)
	if found == nil {
		t.Fatal("the page has no token:", page)
	}
	return found[1]
}

// TestClusterWeb checks that the lite mode works at a server that does not lead the mail file, forms included.
func TestClusterWeb(t *testing.T) {
	t.Parallel()
	_, one, two := pair(t)
	two.deliver("by-two")
	anna := newSurfer(t)
	signIn := url.Values{"user": {"anna"}, "password": {"secret"}, "to": {"/lite/"}}
	if status, at, text := anna.page(two, "/lite/sign-in", signIn); status != web.StatusOK || at != "/lite/" {
		t.Fatalf("%d at %s: %s", status, at, text)
	}
	anna.until(two, "/lite/", "by-two")
	folder := url.Values{"do": {"new"}, "name": {"Made at two"}}
	if status, _, text := anna.page(two, "/lite/folders", folder); status != web.StatusForbidden {
		t.Errorf("a form without the session's token: %d: %s", status, text)
	}
	folder.Set("csrf", csrf(t, anna.until(two, "/lite/folders", "Archive")))
	if status, _, text := anna.page(two, "/lite/folders", folder); status != web.StatusOK ||
		!strings.Contains(text, "Made at two") {
		t.Errorf("%d: %s", status, text)
	}
	if forwarded := two.Doublet("show", "stat",
		"Server.Cluster.Sessions.Forwarded"); strings.HasSuffix(strings.TrimSpace(forwarded), " 0") {
		t.Errorf("nothing was forwarded: %s", forwarded)
	}
	other := newSurfer(t)
	if status, at, text := other.page(one, "/lite/sign-in", signIn); status != web.StatusOK || at != "/lite/" {
		t.Fatalf("%d at %s: %s", status, at, text)
	}
	other.until(one, "/lite/folders", "Made at two")
}

// TestClusterSignedIn checks that a browser that is signed in at one server is signed in at the other at once, also
// after the first is killed. A browser that signs out meanwhile is signed out at the first too when it is back.
func TestClusterSignedIn(t *testing.T) {
	t.Parallel()
	_, one, two := pair(t)
	two.deliver("first")
	anna, spy := newSurfer(t), newSurfer(t)
	anna.page(one, "/lite/sign-in", url.Values{"user": {"anna"}, "password": {"secret"}, "to": {"/lite/"}})
	if status, at, text := anna.page(two, "/lite/folders", nil); status != web.StatusOK || at != "/lite/folders" {
		t.Fatalf("the session of one is not known at two: %d at %s: %s", status, at, text)
	}
	home, _ := url.Parse("http://127.0.0.1/")
	spy.Jar.SetCookies(home, anna.Jar.Cookies(home))
	page := anna.until(two, "/lite/", "first")
	if form := csrf(t, anna.until(one, "/lite/folders", "Archive")); form != csrf(t,
		anna.until(two, "/lite/folders", "Archive")) {
		t.Error("the token of forms differs")
	}
	token := csrf(t, page)
	one.Stop(syscall.SIGKILL)
	// The browser continues with the forms of the dead server, as soon as the mail file has its home here.
	status, text := web.StatusServiceUnavailable, ""
	for deadline := time.Now().Add(time.Minute); status == web.StatusServiceUnavailable &&
		time.Now().Before(deadline); {
		status, _, text = anna.page(two, "/lite/folders", url.Values{"do": {"new"}, "name": {"After its death"},
			"csrf": {token}})
	}
	if status != web.StatusOK || !strings.Contains(text, "After its death") {
		t.Fatalf("%d: %s\n%s", status, text, two.Out)
	}
	if _, at, _ := spy.page(two, "/lite/", nil); at != "/lite/" {
		t.Errorf("the cookie alone leads to %s", at)
	}
	if status, _, text := anna.page(two, "/auth/sign-out", url.Values{"csrf": {token}}); status != web.StatusOK {
		t.Fatalf("sign-out: %d: %s", status, text)
	}
	gone := func(m *member) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
			status, at, text := spy.page(m, "/lite/", nil)
			if at == "/lite/sign-in" {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("a session that is over: %d at %s: %s", status, at, text)
			}
		}
	}
	gone(two)
	one.serve()
	gone(one)
	if list := one.Doublet("session", "list"); strings.Contains(list, "Anna") {
		t.Errorf("sessions at the server that came back: %s", list)
	}
}
