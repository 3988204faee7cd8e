package jmap

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"doublet/env"
	wire "doublet/wire/jmap"
	"doublet/wire/websocket"
)

var bg = context.Background()

// session is a session object whose URLs are relative. $CAP stands for more capabilities.
const session = `{"capabilities":{"urn:ietf:params:jmap:core":{"maxSizeUpload":1000,"maxCallsInRequest":7}$CAP},
 "accounts":{"a1":{"name":"Alice","isPersonal":true,"isReadOnly":false,"accountCapabilities":{
 "urn:ietf:params:jmap:mail":{}}}},
 "primaryAccounts":{"urn:ietf:params:jmap:mail":"a1"},"username":"alice@example.com","apiUrl":"/api","state":"s1",
 "uploadUrl":"/up/{accountId}/","downloadUrl":"/down/{accountId}/{blobId}/{name}?t={type}",
 "eventSourceUrl":"/ev?types={types}&c={closeafter}&ping={ping}"}`

// peer is a server whose paths have prepared answers. said holds the last request.
type peer struct {
	*httptest.Server
	t    *testing.T
	mux  *http.ServeMux
	said chan string
}

func serve(t *testing.T, more string) *peer {
	t.Helper()
	p := &peer{t: t, mux: http.NewServeMux(), said: make(chan string, 100)}
	p.mux.HandleFunc("/.well-known/jmap", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/session", http.StatusTemporaryRedirect)
	})
	p.mux.HandleFunc("/session", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "" {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(401)
			fmt.Fprint(w, `{"type":"about:blank","status":401,"detail":"Nobody is signed in."}`)
			return
		}
		fmt.Fprint(w, strings.ReplaceAll(strings.ReplaceAll(session, "$CAP", more), "$HOST", r.Host))
	})
	p.Server = httptest.NewServer(p.mux)
	t.Cleanup(p.Server.Close)
	return p
}

// answers makes a path answer with a text.
func (p *peer) answers(path string, status int, text string) {
	p.mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		p.said <- r.Method + " " + r.URL.String() + " " + string(b)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	})
}

func (p *peer) client(o Options) *Client {
	p.t.Helper()
	if o.URL == "" {
		o.URL = p.URL
	}
	if o.User == "" && o.Bearer == "" {
		o.User, o.Password = "alice", "secret"
	}
	c, err := New(env.TestRealTime(p.t).Env, o)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(c.Close)
	return c
}

func text(s string) func(*wire.Writer) {
	return func(w *wire.Writer) { w.Text("x", s) }
}

// TestSession checks that discovery follows the redirect with the credentials, and reads the announced values.
func TestSession(t *testing.T) {
	t.Parallel()
	p := serve(t, "")
	for _, o := range []Options{{}, {Bearer: "t"}, {URL: p.URL + "/session"}} {
		s, err := p.client(o).Session(bg)
		if err != nil {
			t.Fatal(err)
		}
		if id, err := s.MailAccount(); err != nil || id != "a1" || s.Username != "alice@example.com" ||
			s.State != "s1" || !s.Accounts["a1"].Personal {
			t.Errorf("%+v %v", s, err)
		}
		if s.Limits.Calls != 7 || s.Limits.Upload != 1000 || s.Limits.ObjectsInGet != 500 || s.api != p.URL+"/api" {
			t.Errorf("%+v", s)
		}
	}
	c, _ := New(env.TestRealTime(t).Env, Options{URL: p.URL})
	var problem *wire.Problem
	if _, err := c.Session(bg); !errors.As(err, &problem) || problem.Status != 401 ||
		problem.Detail != "Nobody is signed in." {
		t.Error(err)
	}
}

// TestRequest checks calls, references and outcomes.
//
// Implements: RFC 8620 §3.7 References to previous method results, as a client
func TestRequest(t *testing.T) {
	t.Parallel()
	p := serve(t, "")
	p.answers("/api",
		200, `{"methodResponses":[["Email/query",{"ids":["e1"]},"c0"],["error",{"type":"invalidArguments",
		"description":"no"},"c1"],
	 ["Email/set",{"created":{"n":{"id":"e9"}},"updated":{"e1":null},"destroyed":["e2"],
	 "notUpdated":{"e3":{"type":"notFound"}}},"c2"]],"createdIds":{"n":"e9"},"sessionState":"s2"}`)
	c := p.client(Options{})
	r := NewRequest(wire.Mail)
	q := r.Query("Email", "a1", &Query{Sort: "receivedAt", Position: 3, Limit: 20, Total: true, CollapseThreads: true,
		Filter: func(w *wire.Writer) { w.Text("inMailbox", `m"1`) }})
	g := r.GetReferred("Email", "a1", q.At("/ids"), "id", "subject")
	h := r.Set("Email", "a1", &Set{Create: map[string]func(*wire.Writer){"n": text("y")},
		Update: map[string]func(*wire.Writer){`"e1`: text("1"), "e3": text("3")}, Destroy: []string{"e2"}})
	out, err := c.Do(bg, r)
	if err != nil {
		t.Fatal(err)
	}
	want := `POST /api {"using":["urn:ietf:params:jmap:core","urn:ietf:params:jmap:mail"],"methodCalls":[` +
		`["Email/query",{"accountId":"a1","filter":{"inMailbox":"m\"1"},"sort":[{"property":"receivedAt",` +
		`"isAscending":false}],"position":3,"limit":20,"calculateTotal":true,"collapseThreads":true},"c0"],` +
		`["Email/get",{"accountId":"a1","#ids":{"resultOf":"c0","name":"Email/query","path":"/ids"},` +
		`"properties":["id","subject"]},"c1"],` +
		`["Email/set",{"accountId":"a1","create":{"n":{"x":"y"}},"update":{"\"e1":{"x":"1"},"e3":{"x":"3"}},` +
		`"destroy":["e2"]},"c2"]]}`
	if got := <-p.said; got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if v, err := out.Get(q); err != nil || v.Get("ids").Len() != 1 || out.SessionState != "s2" ||
		out.CreatedIDs["n"] != "e9" {
		t.Error(v, err)
	}
	var refused *wire.Error
	if _, err := out.Get(g); !errors.As(err, &refused) || refused.Type != "invalidArguments" || out.Err() == nil {
		t.Error(err)
	}
	o, err := out.OutcomeOf(h)
	if err != nil {
		t.Fatal(err)
	}
	if id, err := o.Created("n"); id != "e9" || err != nil || o.Updated("e1") != nil || o.Destroyed("e2") != nil {
		t.Error(id, err)
	}
	if err := o.Updated("e3"); !errors.As(err, &refused) || refused.Type != "notFound" ||
		!errors.As(o.Err(), &refused) {
		t.Error(err)
	}
	if _, err := o.Created("x"); !errors.Is(err, ErrProtocol) || !errors.Is(o.Destroyed("e7"), ErrProtocol) {
		t.Error(err)
	}
}

// TestProblems checks the error for a request that the server rejects as a whole.
func TestProblems(t *testing.T) {
	t.Parallel()
	p := serve(t, "")
	p.answers("/api", 400, `{"type":"urn:ietf:params:jmap:error:limit","status":400,"limit":"maxCallsInRequest"}`)
	var problem *wire.Problem
	if _, err := p.client(Options{}).Do(bg, NewRequest()); !errors.As(err, &problem) ||
		problem.Type != wire.ProblemLimit || problem.Limit != "maxCallsInRequest" {
		t.Error(err)
	}
}

// TestHostile checks that malformed, huge or slow responses quickly cause an error and take little memory.
func TestHostile(t *testing.T) {
	t.Parallel()
	slow := func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil { // a little data, continuously
			_, _ = w.Write([]byte(" "))
			_ = http.NewResponseController(w).Flush()
			select {
			case <-r.Context().Done():
			case <-time.After(5 * time.Millisecond):
			}
		}
	}
	text := func(s string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, s) }
	}
	huge := func(w http.ResponseWriter, _ *http.Request) {
		piece := bytes.Repeat([]byte("[1],"), 16<<10)
		for range 1000 {
			if _, err := w.Write(piece); err != nil {
				return
			}
		}
	}
	for name, x := range map[string]struct {
		do   http.HandlerFunc
		want error
	}{
		"no JSON":       {text("<html>"), ErrProtocol},
		"nothing":       {text(""), ErrProtocol},
		"no response":   {text(`{"methodResponses":{}}`), ErrProtocol},
		"no invocation": {text(`{"methodResponses":[["x",{}]]}`), ErrProtocol},
		"twice":         {text(`{"a":1,"a":2}`), ErrProtocol},
		"createdIds":    {text(`{"methodResponses":[],"createdIds":{"a":1}}`), ErrProtocol},
		"nested":        {text(strings.Repeat("[", 100_000)), ErrTooLarge},
		"many":          {text("[" + strings.Repeat("1,", 5000) + "1]"), ErrTooLarge},
		"huge":          {huge, ErrTooLarge},
		"slow":          {slow, ErrTimeout},
		"silent": {func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		}, ErrTimeout},
		"another": {text(`{"methodResponses":[["Core/echo",{},"other"]]}`), ErrProtocol},
		"away": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "ftp://x/", http.StatusTemporaryRedirect)
		}, ErrProtocol},
		"round in circle": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/api", http.StatusTemporaryRedirect)
		}, ErrProtocol},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := serve(t, "")
			p.mux.HandleFunc("/api", x.do)
			c := p.client(Options{Timeout: 300 * time.Millisecond, Response: 1 << 20, Values: 1000})
			if name != "slow" && name != "silent" {
				c.opt.Timeout = 20 * time.Second
			}
			_, err := c.One(bg, wire.Core, "Core/echo", nil)
			if !errors.Is(err, x.want) {
				t.Errorf("%v, want %v", err, x.want)
			}
		})
	}
	for name, s := range map[string]string{
		"no core":       strings.Replace(session, "jmap:core", "jmap:other", 1),
		"no api":        strings.Replace(session, `"apiUrl":"/api"`, `"apiUrl":7`, 1),
		"api elsewhere": strings.Replace(session, `"/api"`, `"//evil/api"`, 1),
		"template":      strings.Replace(session, "{blobId}", "", 1), "list": "[]", "null": "null",
	} {
		p := httptest.NewServer(text(strings.ReplaceAll(s, "$CAP", "")))
		c, _ := New(env.TestRealTime(t).Env, Options{URL: p.URL})
		if _, err := c.Session(bg); !errors.Is(err, ErrProtocol) {
			t.Errorf("%s: %v", name, err)
		}
		c.Close()
		p.Close()
	}
	for _, bad := range []string{"", "mail.example.com", "ftp://x", "http://", ":"} {
		if _, err := New(nil, Options{URL: bad}); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	// If the caller cancels, the error is the caller's.
	p := serve(t, "")
	p.mux.HandleFunc("/api", slow)
	ctx, cancel := context.WithTimeout(bg, 50*time.Millisecond)
	defer cancel()
	if _, err := p.client(Options{}).Do(ctx, NewRequest()); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

// TestStaysUnderTLS checks that credentials for an https server are never sent without TLS.
func TestStaysUnderTLS(t *testing.T) {
	t.Parallel()
	plain := serve(t, "")
	p := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, plain.URL+"/session", http.StatusTemporaryRedirect)
	}))
	defer p.Close()
	c, err := New(env.TestRealTime(t).Env, Options{URL: p.URL, User: "a", Password: "b",
		TLS: p.Client().Transport.(*http.Transport).TLSClientConfig})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Session(bg); !errors.Is(err, ErrProtocol) || !strings.Contains(err.Error(), "TLS") {
		t.Error(err)
	}
}

// TestTransfers checks that uploads and downloads are streamed, and that an interrupted download can be resumed.
func TestTransfers(t *testing.T) {
	t.Parallel()
	p := serve(t, "")
	content := strings.Repeat("0123456789", 50)
	p.mux.HandleFunc("/up/a1/", func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		if string(b) == "lie" {
			b = nil
		}
		fmt.Fprintf(w, `{"accountId":"a1","blobId":"b1","type":%q,"size":%d}`, r.Header.Get("Content-Type"), len(b))
	})
	p.mux.HandleFunc("/down/a1/b1/a%20b%2Fc", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("t") != "text/plain" {
			w.WriteHeader(404)
			return
		}
		http.ServeContent(w, r, "", time.Time{}, strings.NewReader(content))
	})
	c := p.client(Options{})
	b, err := c.Upload(bg, "a1", "text/plain", strings.NewReader(content), int64(len(content)))
	if err != nil || b != (Blob{ID: "b1", Type: "text/plain", Size: 500}) {
		t.Error(b, err)
	}
	if b, err = c.Upload(bg, "a1", "text/plain", strings.NewReader(content), -1); err != nil || b.Size != 500 {
		t.Error(b, err)
	}
	if _, err = c.Upload(bg, "a1", "text/plain", strings.NewReader("lie"), 3); !errors.Is(err, ErrProtocol) {
		t.Error(err)
	}
	var problem *wire.Problem
	if _, err = c.Upload(bg, "a1", "x/y", nil, 1001); !errors.As(err, &problem) || problem.Limit != "maxSizeUpload" {
		t.Error(err)
	}
	var got bytes.Buffer
	for _, from := range []int64{0, 480} {
		got.Reset()
		if n, err := c.Download(bg, "a1", "b1", "a b/c", "text/plain", from, &got); err != nil || n != 500-from ||
			got.String() != content[from:] {
			t.Error(n, err, got.String())
		}
	}
	if _, err = c.Download(bg, "a1", "b1", "a b/c", "x", 0, &got); !errors.As(err, &problem) || problem.Status != 404 {
		t.Error(err)
	}
}

// TestEvents checks that an event stream returns changes, and skips all other lines, until it ends.
func TestEvents(t *testing.T) {
	t.Parallel()
	p := serve(t, "")
	next := make(chan string)
	p.mux.HandleFunc("/ev", func(w http.ResponseWriter, r *http.Request) {
		p.said <- r.URL.RawQuery + " " + r.Header.Get("Last-Event-Id")
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		w.WriteHeader(200)
		for s := range next {
			_ = http.NewResponseController(w).Flush()
			if s == "" {
				return
			}
			_, _ = io.WriteString(w, s)
			_ = http.NewResponseController(w).Flush()
		}
	})
	c := p.client(Options{})
	open := func() *Events {
		t.Helper()
		opened := make(chan *Events)
		go func() {
			e, err := c.Events(bg, EventOptions{Types: []string{"Email", "Mailbox"}, Ping: time.Minute, Once: true,
				After: "t0"})
			if err != nil {
				t.Error(err)
			}
			opened <- e
		}()
		if got := <-p.said; got != "types=Email%2CMailbox&c=state&ping=60 t0" {
			t.Error(got)
		}
		next <- ": hello\n"
		return <-opened
	}
	e := open()
	go func() {
		next <- "event: ping\ndata: {\"interval\":60}\n\n"
		next <- "event: state\r\nid: t1\r\ndata: {\"@type\":\"StateChange\",\r\n" +
			"data: \"changed\":{\"a1\":{\"Email\":\"9\"}}}\r\n\r\n"
		next <- ""
	}()
	if got, err := e.Next(); err != nil || got["a1"]["Email"] != "9" || e.ID() != "t1" {
		t.Error(got, err, e.ID())
	}
	if _, err := e.Next(); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	_ = e.Close()
	for _, bad := range []string{"event: state\ndata: {}\n\n", "event: state\ndata: x\n\n",
		"data: " + strings.Repeat("x", 2<<20) + "\n"} {
		e := open()
		ended := make(chan struct{})
		go func() { next <- bad; next <- ""; close(ended) }()
		if _, err := e.Next(); !errors.Is(err, ErrProtocol) && !errors.Is(err, ErrTooLarge) {
			t.Error(err)
		}
		_ = e.Close()
		<-ended // otherwise the next stream may get the end of this one
	}
	e = open()
	_ = e.Close()
	if _, err := e.Next(); err == nil {
		t.Error("a closed stream tells something")
	}
	next <- ""
}

// TestNoEvents checks the error for a server that has no event stream.
func TestNoEvents(t *testing.T) {
	t.Parallel()
	p := serve(t, "")
	p.answers("/ev", 204, "")
	if _, err := p.client(Options{}).Events(bg, EventOptions{}); !errors.Is(err, ErrAbsent) {
		t.Error(err)
	}
}

// TestSocket checks requests and push over a WebSocket, and servers that violate the protocol.
func TestSocket(t *testing.T) {
	t.Parallel()
	p := serve(t, `,"urn:ietf:params:jmap:websocket":{"url":"ws://$HOST/ws","supportsPush":true}`)
	scripts := make(chan []string, 1)
	p.mux.HandleFunc("/ws", func(w http.ResponseWriter, r *http.Request) {
		if err := websocket.CheckUpgrade(r, "jmap"); err != nil {
			t.Error(err)
			return
		}
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		fmt.Fprintf(conn, "HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"+
			"Sec-WebSocket-Protocol: jmap\r\nSec-WebSocket-Accept: %s\r\n\r\n",
			websocket.Accept(r.Header.Get("Sec-Websocket-Key")))
		in := websocket.Reader{Masked: true, Max: 1 << 20}
		for _, line := range <-scripts {
			if line == "C" {
				for {
					op, text, err := in.Next(rw, nil)
					if err != nil {
						t.Error(err)
						return
					}
					if op == websocket.Text {
						p.said <- string(text)
						break
					}
				}
				continue
			}
			op := websocket.Text
			if line == "ping" {
				op = websocket.Ping
			}
			_, _ = conn.Write(websocket.Append(nil, op, []byte(line)))
		}
		_, _, _ = in.Next(rw, nil)
	})
	c := p.client(Options{Values: 1000})
	open := func(lines ...string) *Socket {
		t.Helper()
		scripts <- lines
		s, err := c.Socket(bg)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := open("C", "ping", "C", `{"@type":"StateChange","changed":{"a1":{"Email":"1"}},"pushState":"p1"}`,
		`{"@type":"StateChange","changed":{"a1":{"Email":"2","Thread":"2"}},"pushState":"p2"}`,
		`{"@type":"Response","requestId":"r1","methodResponses":[["Core/echo",{"x":"y"},"c0"]]}`, "C",
		`{"@type":"RequestError","requestId":"r2","type":"urn:ietf:params:jmap:error:limit","limit":"x","status":400}`)
	if err := s.Push(nil, "p0"); err != nil {
		t.Fatal(err)
	}
	r := NewRequest()
	h := r.Call("Core/echo", text("y"))
	out, err := s.Do(bg, r)
	if err != nil {
		t.Fatal(err)
	}
	if v, err := out.Get(h); err != nil || v.Get("x") == nil {
		t.Error(v, err)
	}
	if got := <-p.said; got != `{"@type":"WebSocketPushEnable","dataTypes":null,"pushState":"p0"}` {
		t.Error(got)
	}
	if got := <-p.said; got != `{"@type":"Request","id":"r1","using":["urn:ietf:params:jmap:core"],`+
		`"methodCalls":[["Core/echo",{"x":"y"},"c0"]]}` {
		t.Error(got)
	}
	if got, err := s.Next(bg); err != nil || got["a1"]["Email"] != "2" || got["a1"]["Thread"] != "2" ||
		s.PushState != "p2" {
		t.Error(got, err)
	}
	var problem *wire.Problem
	if _, err := s.Do(bg, r); !errors.As(err, &problem) || problem.Limit != "x" {
		t.Error(err)
	}
	_ = s.Close()
	for _, bad := range []string{"x", `{"@type":"Response","requestId":"r9","methodResponses":[]}`,
		`{"@type":"Response","requestId":"r1"}`, `{"@type":"StateChange"}`, "[" + strings.Repeat("1,", 2000) + "1]"} {
		s := open(bad)
		if _, err := s.Do(bg, r); !errors.Is(err, ErrProtocol) && !errors.Is(err, ErrTooLarge) {
			t.Errorf("%.40s: %v", bad, err)
		}
		_ = s.Close()
	}
	c.opt.Timeout = 100 * time.Millisecond
	scripts <- []string{"C"}                                                       // sends nothing
	for s, err = c.Socket(bg); errors.Is(err, ErrTimeout); s, err = c.Socket(bg) { // the opening may time out too
		c.opt.Timeout *= 2
		select {
		case scripts <- []string{"C"}:
		default:
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Do(bg, r); !errors.Is(err, ErrTimeout) {
		t.Error(err)
	}
	_ = s.Close()
	c.opt.Timeout = time.Minute
	s = open()
	ctx, cancel := context.WithTimeout(bg, 50*time.Millisecond)
	defer cancel()
	if _, err := s.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	_ = s.Close()
	if _, err := serve(t, "").client(Options{}).Socket(bg); !errors.Is(err, ErrAbsent) {
		t.Error(err)
	}
	lie := serve(t, `,"urn:ietf:params:jmap:websocket":{"url":"ws://$HOST/ws"}`)
	lie.answers("/ws", 200, "hello")
	if _, err := lie.client(Options{}).Socket(bg); !errors.As(err, &problem) {
		t.Error(err)
	}
}
