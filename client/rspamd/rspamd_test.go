package rspamd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"doublet/env"
)

func ask(t *testing.T, o Options, h http.HandlerFunc) (Answer, error) {
	t.Helper()
	srv := httptest.NewServer(h)
	defer srv.Close()
	o.URL = srv.URL + "/"
	c := New(env.Real(slog.New(slog.DiscardHandler)), o)
	defer c.Close()
	return c.Check(context.Background(), &Mail{
		IP: netip.MustParseAddr("::ffff:192.0.2.7"), Helo: "far.example\r\nUser: root", From: "a@far.example",
		Rcpt:    []string{"b@example.com", "c@example.com"},
		QueueID: "4711", MTA: "mx.example.com", TLS: true,
	}, []byte("Subject: x\r\n\r\nbody\r\n"))
}

// TestRedirect checks that the message and the password are sent only to the configured server.
func TestRedirect(t *testing.T) {
	t.Parallel()
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t.Errorf("%s %s, password %q", r.Method, r.URL, r.Header.Get("Password"))
	}))
	defer other.Close()
	_, err := ask(t, Options{Password: "secret"}, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
	})
	if !errors.Is(err, ErrRspamd) {
		t.Error(err)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	a, err := ask(t, Options{Password: "secret"}, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		h := r.Header
		if r.Method != "POST" || r.URL.Path != "/checkv2" || string(body) != "Subject: x\r\n\r\nbody\r\n" ||
			h.Get("IP") != "192.0.2.7" ||
			h.Get("Helo") != "far.example User: root" || h.Get("User") != "" ||
			strings.Join(h["Rcpt"], " ") != "b@example.com c@example.com" ||
			h.Get("Password") != "secret" || h.Get("Queue-Id") != "4711" || h.Get("From") != "a@far.example" {
			t.Errorf("%s %s %q %v", r.Method, r.URL, body, h)
		}
		fmt.Fprint(w, `{"action":"add header","score":9.5,"required_score":15,"symbols":{"X":{"name":"X"}},
			"milter":{"add_headers":{"X-Spam":{"value":"Yes","order":0},"X-Two":[{"value":"a"},{"value":"b"}],
			"X-T":"t\r\nBcc: x","B d":"n"},"remove_headers":{"X-Old":0}}}`)
	})
	want := Answer{Action: AddHeader, Score: 9.5, Required: 15, Add: []Header{{"X-Spam", "Yes"}, {"X-T", "t Bcc: x"},
		{"X-Two", "a"}, {"X-Two", "b"}}, Remove: []string{"X-Old"}}
	if err != nil || !reflect.DeepEqual(a, want) {
		t.Errorf("%+v, %v", a, err)
	}
}

func TestTrouble(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]http.HandlerFunc{
		"status": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusForbidden) },
		"json":   func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "{") },
		"action": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"action":"dance"}`) },
		"long": func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, strings.Repeat(" ", maxAnswer+1)+`{"action":"reject"}`)
		},
		"slow": func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // the server notices a disconnected client only after this
			<-r.Context().Done()
		},
	} {
		if a, err := ask(t, Options{Timeout: 500 * time.Millisecond}, h); !errors.Is(err, ErrRspamd) {
			t.Errorf("%s: %+v, %v", name, a, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"action":"reject","milter":{"add_headers":{"A":["x",{"value":"y"}]}}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := Parse(b)
		if err != nil {
			return
		}
		for _, h := range a.Add {
			if strings.ContainsAny(h.Name+h.Value, "\r\n\x00") {
				t.Fatalf("%q", h)
			}
		}
	})
}
