package forward

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestWeb sends requests to one server that another server must answer: large bodies in both directions, streamed
// responses, upgrades.
func TestWeb(t *testing.T) {
	t.Parallel()
	front, home := servers(t)
	handler := func(name string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			c, ok := CallerOf(r)
			if !ok || c.Account.Who.Person != anna.Who.Person {
				t.Errorf("%s: from %+v", name, c)
			}
			switch r.URL.Path {
			case "/jmap/who":
				fmt.Fprint(w, name, " ", c.Credential, " ", c.CSRF, " ", r.Host, " ", r.TLS != nil, " ",
					r.Header.Get("Cookie"), r.Header.Get("Authorization"), " ",
					strings.HasPrefix(r.RemoteAddr, "127.0.0.1:"))
			case "/jmap/echo":
				b, err := io.ReadAll(r.Body)
				if err != nil {
					t.Error(err)
				}
				_, _ = w.Write(b)
			case "/jmap/events":
				w.Header().Set("Content-Type", "text/event-stream")
				for i := range 3 {
					fmt.Fprintf(w, "data: %d\n\n", i)
					_ = http.NewResponseController(w).Flush()
					if i == 0 {
						select {
						case <-r.Context().Done():
						case <-time.After(50 * time.Millisecond):
						}
					}
				}
			case "/jmap/ws":
				nc, rw, err := http.NewResponseController(w).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				defer nc.Close()
				fmt.Fprint(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
				_ = rw.Flush()
				line, _ := rw.ReadString('\n')
				fmt.Fprint(rw, strings.ToUpper(line))
				_ = rw.Flush()
			}
		})
	}
	who := func(w http.ResponseWriter, r *http.Request) (Caller, bool) {
		if r.Header.Get("Cookie") == "" {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return Caller{}, false
		}
		return Caller{anna, "session:1", "token"}, true
	}
	for _, s := range []*server{front, home} {
		t.Cleanup(func() { _ = s.Close() })
	}
	web := httptest.NewTLSServer(front.Web(DoorWeb, who, handler("front")))
	defer web.Close()
	home.Web(DoorWeb, who, handler("home"))
	ask := func(path string, body io.Reader, cookie string) *http.Response {
		t.Helper()
		method := http.MethodGet
		if body != nil {
			method = http.MethodPost
		}
		r, err := http.NewRequest(method, web.URL+path, body)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = "mail.example.com"
		if cookie != "" {
			r.Header.Set("Cookie", cookie)
			r.Header.Set("Authorization", "Basic x")
		}
		a, err := web.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	text := func(a *http.Response) string {
		b, err := io.ReadAll(a.Body)
		if err != nil {
			t.Error(err)
		}
		_ = a.Body.Close()
		return string(b)
	}
	if got := text(ask("/jmap/who", nil, "a=b")); got != "home mate:session:1 token mail.example.com true  true" {
		t.Errorf("the home was asked: %q", got)
	}
	if a := ask("/jmap/who", nil, ""); a.StatusCode != http.StatusUnauthorized {
		t.Errorf("nobody got %s", a.Status)
	}
	large := bytes.Repeat([]byte("0123456789abcdef"), 100_000)
	if got := text(ask("/jmap/echo", bytes.NewReader(large), "a=b")); got != string(large) {
		t.Errorf("%d bytes came back", len(got))
	}
	events := ask("/jmap/events", nil, "a=b")
	first := make([]byte, 9)
	if _, err := io.ReadFull(events.Body, first); err != nil || string(first) != "data: 0\n\n" {
		t.Errorf("%q, %v", first, err)
	}
	if rest := text(events); rest != "data: 1\n\ndata: 2\n\n" {
		t.Errorf("%q", rest)
	}
	// An upgrade of the connection.
	r, _ := http.NewRequest(http.MethodGet, web.URL+"/jmap/ws", nil)
	r.Header.Set("Cookie", "a=b")
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", "websocket")
	a, err := web.Client().Do(r)
	if err != nil || a.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%+v, %v", a, err)
	}
	both := a.Body.(io.ReadWriteCloser)
	fmt.Fprint(both, "hello\n")
	if line, err := bufio.NewReader(both).ReadString('\n'); err != nil || line != "HELLO\n" {
		t.Errorf("%q, %v", line, err)
	}
	_ = both.Close()
	front.place.none.Store(true)
	if a := ask("/jmap/who", nil, "a=b"); a.StatusCode != http.StatusServiceUnavailable ||
		a.Header.Get("Retry-After") == "" {
		t.Errorf("without a home: %s", a.Status)
	}
	front.place.none.Store(false)
	home.place.self.Store(false)
	if a := ask("/jmap/who", nil, "a=b"); a.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("a home that is none: %s", a.Status)
	}
	front.place.self.Store(true)
	if got := text(ask("/jmap/who", nil, "a=b")); !strings.HasPrefix(got, "front session:1 token ") {
		t.Errorf("here: %q", got)
	}
	for deadline := time.Now().Add(5 * time.Second); front.place.uses.Load()+
		home.place.uses.Load() != 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d and %d still hold the mail file", front.place.uses.Load(), home.place.uses.Load())
		}
	}
}

// TestWebBodyEnd sends a request whose body ends, for the proxy, only after its response has begun. The response must
// arrive whole.
func TestWebBodyEnd(t *testing.T) {
	t.Parallel()
	front, home := servers(t)
	for _, s := range []*server{front, home} {
		t.Cleanup(func() { _ = s.Close() })
	}
	who := func(http.ResponseWriter, *http.Request) (Caller, bool) { return Caller{Account: anna}, true }
	large := strings.Repeat("0123456789abcdef", 100_000)
	toHome := front.Web(DoorWeb, who, http.NotFoundHandler())
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begun := make(chan struct{})
		r.Body = &lateEnd{r.Body, r.ContentLength, begun}
		toHome.ServeHTTP(&firstWrite{ResponseWriter: w, begun: begun}, r)
	}))
	defer web.Close()
	ended := make(chan struct{})
	home.Web(DoorWeb, who, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(io.LimitReader(r.Body, r.ContentLength))
		if err != nil || string(body) != large {
			t.Errorf("%d bytes, %v", len(body), err)
		}
		_, _ = w.Write(body[:len(body)/2])
		_ = http.NewResponseController(w).Flush()
		<-ended
		_, _ = w.Write(body[len(body)/2:])
	}))
	a, err := http.Post(web.URL+"/jmap/echo", "", strings.NewReader(large))
	if err != nil {
		t.Fatal(err)
	}
	first := make([]byte, len(large)/2)
	_, err = io.ReadFull(a.Body, first)
	time.Sleep(20 * time.Millisecond) // the proxy reads the end of the body now
	close(ended)
	rest, err2 := io.ReadAll(a.Body)
	_ = a.Body.Close()
	if string(first)+string(rest) != large {
		t.Errorf("%d bytes came back: %v, %v", len(first)+len(rest), err, err2)
	}
}

// lateEnd is a body of left bytes whose end is read after begun is closed.
type lateEnd struct {
	io.ReadCloser
	left  int64
	begun chan struct{}
}

func (b *lateEnd) Read(p []byte) (int, error) {
	if b.left == 0 {
		<-b.begun
		return b.ReadCloser.Read(p)
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	if b.left -= int64(n); b.left == 0 {
		err = nil // the end is told by the next Read
	}
	return n, err
}

// firstWrite closes begun after the first bytes of a response were written.
type firstWrite struct {
	http.ResponseWriter
	once  sync.Once
	begun chan struct{}
}

func (w *firstWrite) Write(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p)
	w.once.Do(func() { close(w.begun) })
	return n, err
}

func (w *firstWrite) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// TestDAVMethods checks that requests of CalDAV reach the home with their methods, conditions, depth, destination and
// host, and come back with their answers.
func TestDAVMethods(t *testing.T) {
	t.Parallel()
	front, home := servers(t)
	for _, s := range []*server{front, home} {
		t.Cleanup(func() { _ = s.Close() })
	}
	who := func(http.ResponseWriter, *http.Request) (Caller, bool) { return Caller{Account: anna}, true }
	here := func(w http.ResponseWriter, r *http.Request) {
		c, _ := CallerOf(r)
		body, err := io.ReadAll(r.Body)
		if err != nil || c.Account.Who.Person != anna.Who.Person || r.Header.Get("Authorization") != "" {
			t.Errorf("%+v %v", c, err)
		}
		w.Header().Set("ETag", `"new"`)
		w.WriteHeader(http.StatusMultiStatus)
		fmt.Fprintln(w, r.Method, r.URL.Path, r.Host, r.Header.Get("Depth"), r.Header.Get("If-Match"),
			r.Header.Get("Destination"), string(body))
	}
	web := httptest.NewServer(front.Web(DoorDAV, who, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("served at the front")
	})))
	defer web.Close()
	home.Web(DoorDAV, who, http.HandlerFunc(here))
	for _, method := range strings.Fields("PROPFIND PROPPATCH REPORT MKCALENDAR MKCOL MOVE COPY PUT DELETE") {
		r, err := http.NewRequest(method, web.URL+"/dav/a%20b", strings.NewReader("<x/>"))
		if err != nil {
			t.Fatal(err)
		}
		r.Host = "mail.example.com"
		r.Header.Set("Authorization", "Basic x")
		r.Header.Set("Depth", "1")
		r.Header.Set("If-Match", `"old"`)
		r.Header.Set("Destination", "http://mail.example.com/dav/c")
		a, err := web.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(a.Body)
		_ = a.Body.Close()
		want := method + ` /dav/a b mail.example.com 1 "old" http://mail.example.com/dav/c <x/>` + "\n"
		if err != nil || a.StatusCode != http.StatusMultiStatus || a.Header.Get("ETag") != `"new"` ||
			string(body) != want {
			t.Errorf("%s: %s, %q, want %q, %v", method, a.Status, body, want, err)
		}
	}
}
