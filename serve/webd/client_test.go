package webd

import (
	"bytes"
	"io"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"doublet/web"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// TestClient checks that the browser client is complete and that its policy allows only its own scripts. Files with a
// hash in their name must be cached permanently.
func TestClient(t *testing.T) {
	t.Parallel()
	old, s := newServer(t)
	w := New(s, old.env, Options{Client: web.Client()})
	index := get(w, "/")
	policy := index.Header().Get("Content-Security-Policy")
	if index.Code != 200 || strings.Contains(policy, "unsafe") || !strings.Contains(policy, "script-src 'self';") ||
		index.Header().Get("Cache-Control") != "no-cache" {
		t.Errorf("%d %v", index.Code, index.Header())
	}
	for _, at := range []string{"/mail/", "/mail/inbox", "/mail/Projects/2026", "/mail/Gr%C3%B6%C3%9Fe%2F1?search=x",
		"/calendar/", "/calendar/week/2026-11-26?event=x", "/contacts/all"} {
		if page := get(w, at); page.Code != 200 || page.Body.String() != index.Body.String() {
			t.Errorf("%s: %d %s", at, page.Code, page.Body)
		}
	}
	if regexp.MustCompile(`<script(?:\s[^>]*)?>[^<]|style="|https?://`).MatchString(index.Body.String()) {
		t.Errorf("the page holds what its policy forbids:\n%s", index.Body)
	}
	names := regexp.MustCompile(`(?:src|link [^>]*href)="(/[^"]+)"`).FindAllStringSubmatch(index.Body.String(), -1)
	if len(names) < 4 {
		t.Fatalf("what it loads: %v", names)
	}
	for _, m := range append(names, []string{"", "/sw.js"}) {
		plain := get(w, m[1])
		if plain.Code != 200 || plain.Body.Len() == 0 ||
			plain.Header().Get("Content-Type") == "application/octet-stream" {
			t.Fatalf("%s: %d %v", m[1], plain.Code, plain.Header())
		}
		if kept := strings.Contains(plain.Header().Get("Cache-Control"), "immutable"); kept != strings.HasPrefix(m[1],
			"/assets/") {
			t.Errorf("%s: %s", m[1], plain.Header().Get("Cache-Control"))
		}
		for _, coding := range []string{"gzip", "zstd"} {
			q := httptest.NewRequest("GET", m[1], nil)
			q.Header.Set("Accept-Encoding", coding)
			r := httptest.NewRecorder()
			w.ServeHTTP(r, q)
			if got := unpack(t, r.Header().Get("Content-Encoding"), r.Body.Bytes()); !bytes.Equal(got,
				plain.Body.Bytes()) {
				t.Errorf("%s in %s is something else", m[1], coding)
			}
		}
		q := httptest.NewRequest("GET", m[1], nil)
		q.Header.Set("If-None-Match", plain.Header().Get("ETag"))
		r := httptest.NewRecorder()
		if w.ServeHTTP(r, q); r.Code != 304 || r.Body.Len() != 0 {
			t.Errorf("%s asked for again: %d", m[1], r.Code)
		}
	}
	if r := get(w, "/status"); r.Code != 200 || !strings.Contains(r.Body.String(), "Router") {
		t.Errorf("the page of what runs: %d", r.Code)
	}
	if r := get(w, "/assets/../../go.mod"); r.Code == 200 {
		t.Error("a file that is none of the client's")
	}
	if err := s.Store.Close(); err != nil {
		t.Fatal(err)
	}
}

func unpack(t *testing.T, coding string, b []byte) []byte {
	t.Helper()
	var out []byte
	var err error
	switch coding {
	case "gzip":
		var z *gzip.Reader
		if z, err = gzip.NewReader(bytes.NewReader(b)); err == nil {
			out, err = io.ReadAll(z)
		}
	case "zstd":
		var z *zstd.Decoder
		if z, err = zstd.NewReader(bytes.NewReader(b)); err == nil {
			out, err = io.ReadAll(z)
			z.Close()
		}
	default:
		out = b
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestMailFrame checks that the frame for HTML messages runs no scripts, and loads remote images only on request.
func TestMailFrame(t *testing.T) {
	t.Parallel()
	old, s := newServer(t)
	w := New(s, old.env, Options{Client: web.Client()})
	for path, remote := range map[string]bool{framePath: false, framePath + "?pictures=1": true,
		framePath + "?pictures=x": false} {
		r := get(w, path)
		p := r.Header().Get("Content-Security-Policy")
		if r.Code != 200 || !strings.Contains(p, "default-src 'none'") || !strings.Contains(p, "sandbox ") ||
			strings.Contains(p, "allow-scripts") || strings.Contains(p, "script-src") {
			t.Errorf("%s: %d %s", path, r.Code, p)
		}
		if strings.Contains(p, "https:") != remote {
			t.Errorf("%s: %s", path, p)
		}
	}
	if err := s.Store.Close(); err != nil {
		t.Fatal(err)
	}
}
