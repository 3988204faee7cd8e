package webd

import (
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	"doublet/admin"
	"doublet/directory"
	"doublet/directory/password"
	"doublet/env"
	"doublet/stat"
	"doublet/store"
	"doublet/web"
)

// fakeTasks are the tasks of a server that has one.
type fakeTasks struct{ admin.Tasks }

func (fakeTasks) Status() []admin.Task { return []admin.Task{{Name: "Router", State: "running"}} }

func newServer(t *testing.T) (*Server, *admin.Running) {
	t.Helper()
	f := env.TestRealTime(t)
	s := &admin.Running{
		System: &admin.System{Env: f.Env, Stats: stat.New(f.Clock), Name: "mx.<b>example</b>.com", Data: "data",
			Version: "9.9", Started: f.Clock.Now()},
		Stop:  func() {},
		Doors: func() []admin.Door { return []admin.Door{{Name: "imap", Address: "127.0.0.1:2143", TLS: "STARTTLS"}} },
		Tasks: fakeTasks{},
	}
	var err error
	s.Store, err = store.Open(f.Env, "data", store.Options{FloorBytes: -1, Ballast: -1, MemTableSize: 1 << 20,
		Indexes: directory.Indexes(), Stats: s.Stats})
	if err != nil {
		t.Fatal(err)
	}
	if s.Directory, err = directory.Open(s.Store, f.Env, password.New(f.Env, 1, 1),
		directory.Options{Domain: "example.com"}); err != nil {
		t.Fatal(err)
	}
	s.Stats.Counter("Mail.Delivered", "messages").Add(42)
	return New(s, f.Env, Options{}), s
}

func get(w *Server, path string) *httptest.ResponseRecorder {
	r := httptest.NewRecorder()
	w.ServeHTTP(r, httptest.NewRequest("GET", path, nil))
	return r
}

func TestPage(t *testing.T) {
	t.Parallel()
	w, s := newServer(t)
	r := get(w, "/")
	page := r.Body.String()
	for _, want := range []string{"127.0.0.1:2143", "Router", ">42<", "Doublet 9.9", "mx.&lt;b&gt;example",
		`class="state"`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(page, "<script") || strings.Contains(page, "src=") || strings.Contains(page, "http://") {
		t.Error("the page takes something from elsewhere")
	}
	ownStyle(t, r)
	if r.Code != 200 || !strings.Contains(r.Header().Get("Content-Security-Policy"), "default-src 'none'") ||
		r.Header().Get("Set-Cookie") != "" {
		t.Errorf("%d %v", r.Code, r.Header())
	}
	if m := get(w, "/metrics").Body.String(); !strings.Contains(m, "doublet_mail_delivered_total 42") {
		t.Errorf("metrics: %s", m)
	}
	if code := get(w, "/admin/user/list").Code; code != 404 {
		t.Errorf("verbs at the open door: %d", code)
	}
	if err := s.Store.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestHealth(t *testing.T) {
	t.Parallel()
	w, s := newServer(t)
	if r := get(w, "/healthz"); r.Code != 200 || r.Body.String() != "ok\n" {
		t.Errorf("alive: %d %s", r.Code, r.Body)
	}
	if r := get(w, "/readyz"); r.Code != 200 || r.Body.String() != "ok\n" {
		t.Errorf("ready: %d %s", r.Code, r.Body)
	}
	var bad error
	w.opts.Valid = func() error { return bad }
	if r := get(w, "/readyz"); r.Code != 200 {
		t.Errorf("with a good certificate: %d %s", r.Code, r.Body)
	}
	bad = errors.New("the certificate of mx ended")
	if r := get(w, "/readyz"); r.Code != 503 || r.Body.String() != "the certificate of mx ended\n" {
		t.Errorf("with a bad certificate: %d %s", r.Code, r.Body)
	}
	w.Stopping()
	// A process that stops must not be restarted, but must get no new clients.
	if r := get(w, "/healthz"); r.Code != 200 {
		t.Errorf("stopping, alive: %d %s", r.Code, r.Body)
	}
	if r := get(w, "/readyz"); r.Code != 503 || r.Body.String() != "stopping\n" {
		t.Errorf("stopping, ready: %d %s", r.Code, r.Body)
	}
	s.Directory.Close()
	if err := s.Store.Close(); err != nil {
		t.Fatal(err)
	}
	if r := get(w, "/healthz"); r.Code != 503 {
		t.Errorf("with the store closed: %d %s", r.Code, r.Body)
	}
}

// ownStyle checks that a page's policy allows exactly its own style element.
func ownStyle(t *testing.T, r *httptest.ResponseRecorder) {
	t.Helper()
	got, want := r.Header().Get("Content-Security-Policy"), web.PagePolicy(r.Body.String(), "")
	style := func(s string) string {
		_, s, _ = strings.Cut(s, "style-src ")
		s, _, _ = strings.Cut(s, ";")
		return s
	}
	if style(got) != style(want) || !strings.HasPrefix(style(got), "'sha256-") {
		t.Errorf("the page is sent with %s, its style is %s", got, style(want))
	}
}
