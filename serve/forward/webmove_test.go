package forward

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// TestPushReconnects checks that a client that waits for pushes (EventSource) does not
// delay a hand-over, that it stays at the old home until its connection ends, and that it reconnects to the new home.
func TestPushReconnects(t *testing.T) {
	t.Parallel()
	front, home := servers(t)
	end := make(chan struct{})
	handler := func(name string, wait bool) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "data: %s\n\n", name)
			_ = http.NewResponseController(w).Flush()
			if wait {
				select {
				case <-end:
				case <-r.Context().Done():
				}
				fmt.Fprintf(w, "data: %s ends\n\n", name)
			}
		})
	}
	who := func(http.ResponseWriter, *http.Request) (Caller, bool) { return Caller{Account: anna}, true }
	for _, s := range []*server{front, home} {
		t.Cleanup(func() { _ = s.Close() })
	}
	web := httptest.NewServer(front.Web(DoorWeb, who, handler("front", true)))
	defer web.Close()
	home.Web(DoorWeb, who, handler("home", false))
	front.place.self.Store(true)
	home.place.self.Store(false)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	open := func() io.ReadCloser {
		t.Helper()
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, web.URL+"/jmap/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept", "text/event-stream")
		a, err := web.Client().Do(r)
		if err != nil || a.StatusCode != http.StatusOK {
			t.Fatal(a, err)
		}
		return a.Body
	}
	hears := func(body io.Reader, want string) {
		t.Helper()
		got := make([]byte, len(want))
		if _, err := io.ReadFull(body, got); err != nil || string(got) != want {
			t.Fatalf("%q, %v; want %q", got, err, want)
		}
	}
	first := open()
	hears(first, "data: front\n\n")
	resume, err := front.Vacate(ctx, anna.Database)
	if err != nil {
		t.Fatalf("a hand-over waits for a client that waits: %v", err)
	}
	front.place.self.Store(false)
	home.place.self.Store(true)
	resume()
	close(end)
	hears(first, "data: front ends\n\n")
	if _, err := first.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("after the end: %v", err)
	}
	_ = first.Close()
	again := open()
	hears(again, "data: home\n\n")
	_ = again.Close()
}
