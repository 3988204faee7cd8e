package e2e

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	web "net/http"
	"net/http/cookiejar"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	"doublet/test/program"
)

// visitor is a client of the web doors: a program with a password, or a browser with cookies.
type visitor struct {
	t        *testing.T
	base     string
	password string
	csrf     string
	client   *web.Client
}

func (s *server) program(password string) *visitor {
	return &visitor{t: s.T, base: "http://127.0.0.1:" + s.Port["http"], password: password, client: &web.Client{}}
}

func (s *server) browser() *visitor {
	jar, err := cookiejar.New(nil)
	if err != nil {
		s.T.Fatal(err)
	}
	return &visitor{t: s.T, base: "https://127.0.0.1:" + s.Port["https"], client: &web.Client{Jar: jar,
		Transport: &web.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}}}
}

func (w *visitor) do(method, path, body string) *web.Response {
	w.t.Helper()
	r, err := web.NewRequest(method, w.base+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if w.password != "" {
		r.SetBasicAuth("alice", w.password)
	}
	if w.csrf != "" {
		r.Header.Set("X-CSRF-Token", w.csrf)
	}
	out, err := w.client.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = out.Body.Close() })
	return out
}

// get sends a request and decodes its JSON response.
func (w *visitor) get(method, path, body string, into any) int {
	w.t.Helper()
	out := w.do(method, path, body)
	b, err := io.ReadAll(out.Body)
	if err == nil && into != nil {
		err = json.Unmarshal(b, into)
	}
	if err != nil {
		w.t.Fatalf("%s %s: %d %v\n%s", method, path, out.StatusCode, err, b)
	}
	return out.StatusCode
}

func (w *visitor) signIn() {
	w.t.Helper()
	var in struct {
		CSRF string `json:"csrf"`
	}
	if code := w.get("POST", "/auth/sign-in", `{"user":"alice","password":"demo"}`, &in); code != 200 || in.CSRF == "" {
		w.t.Fatalf("sign-in: %d", code)
	}
	w.csrf = in.CSRF
}

// events opens an event stream.
func (w *visitor) events() *bufio.Reader {
	w.t.Helper()
	out := w.do("GET", "/jmap/eventsource/?types=*&closeafter=no&ping=0", "")
	if out.StatusCode != 200 {
		b, _ := io.ReadAll(out.Body)
		w.t.Fatalf("%d %s", out.StatusCode, b)
	}
	return bufio.NewReader(out.Body)
}

// state reads the next state event; an error is the end of the stream.
func state(r *bufio.Reader) (map[string]map[string]string, error) {
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return nil, err
		}
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			var c struct {
				Changed map[string]map[string]string `json:"changed"`
			}
			return c.Changed, json.Unmarshal([]byte(data), &c)
		}
	}
}

// imap opens an IMAP session of alice.
func (s *server) imap() func(command string) string {
	s.T.Helper()
	c, err := net.Dial("tcp", "127.0.0.1:"+s.Port["imap"])
	if err != nil {
		s.T.Fatal(err)
	}
	s.T.Cleanup(func() { _ = c.Close() })
	r := bufio.NewReader(c)
	line := func() string {
		text, err := r.ReadString('\n')
		if err != nil {
			s.T.Fatal(err)
		}
		return text
	}
	line()
	do := func(command string) string {
		fmt.Fprintf(c, "t %s\r\n", command)
		var all strings.Builder
		for {
			text := line()
			all.WriteString(text)
			if strings.HasPrefix(text, "t ") {
				if !strings.HasPrefix(text, "t OK") {
					s.T.Fatalf("%s: %s", command, text)
				}
				return all.String()
			}
		}
	}
	do("LOGIN alice demo")
	do("SELECT INBOX")
	return do
}

// TestPushAcrossDoors checks that changes by IMAP and LMTP are pushed at once over EventSource, by HTTP/1.1 and HTTP/2,
// and over a WebSocket, and that a browser that has signed out receives nothing more.
func TestPushAcrossDoors(t *testing.T) {
	t.Parallel()
	s := demo(t)
	imap := s.imap()
	mailer, browser := s.program("demo"), s.browser()
	browser.signIn()
	one, two := mailer.events(), browser.events()
	socket, _, err := websocket.Dial(context.Background(), strings.Replace(mailer.base, "http", "ws", 1)+"/jmap/ws",
		&websocket.DialOptions{
			Subprotocols: []string{"jmap"},
			HTTPHeader: web.Header{"Authorization": {"Basic " +
				base64.StdEncoding.EncodeToString([]byte("alice:demo"))}},
		})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.CloseNow()
	send := func(text string) {
		t.Helper()
		if err := socket.Write(context.Background(), websocket.MessageText, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	receive := func() (v map[string]any) {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		_, b, err := socket.Read(ctx)
		if err == nil {
			err = json.Unmarshal(b, &v)
		}
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	send(`{"@type":"WebSocketPushEnable","dataTypes":null}`)
	send(`{"@type":"Request","id":"1","using":["urn:ietf:params:jmap:core"],"methodCalls":[["Core/echo",{"x":1},"c"]]}`)
	if v := receive(); v["@type"] != "Response" || v["requestId"] != "1" {
		t.Fatalf("%v", v)
	}
	var worst time.Duration
	for i := range 10 {
		began := time.Now()
		imap([]string{"STORE 1 +FLAGS (\\Flagged)", "STORE 1 -FLAGS (\\Flagged)"}[i%2])
		for what, r := range map[string]*bufio.Reader{"HTTP/1.1": one, "HTTP/2": two} {
			got, err := state(r)
			if err != nil || len(got) != 1 {
				t.Fatal(what, got, err)
			}
			for _, states := range got {
				if states["Email"] == "" || states["EmailDelivery"] != "" {
					t.Errorf("%s: %v", what, states)
				}
			}
		}
		if v := receive(); v["@type"] != "StateChange" || v["pushState"] == "" {
			t.Errorf("%v", v)
		}
		worst = max(worst, time.Since(began))
		time.Sleep(60 * time.Millisecond)
	}
	t.Logf("a change by IMAP was told to three within %v at most", worst)
	if worst > 5*time.Second { // 100 ms on an idle machine
		t.Errorf("%v", worst)
	}
	// A delivery also changes the state of EmailDelivery.
	c, err := net.Dial("tcp", "127.0.0.1:"+s.Port["lmtp"])
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "LHLO x\r\nMAIL FROM:<bob@example.com>\r\nRCPT TO:<alice@example.com>\r\nDATA\r\n")
	time.Sleep(200 * time.Millisecond)
	fmt.Fprintf(c, "Subject: news\r\n\r\nx\r\n.\r\nQUIT\r\n")
	if b, err := io.ReadAll(c); err != nil || !bytes.Contains(b, []byte("250 2.")) {
		t.Fatalf("%s %v", b, err)
	}
	for range 2 {
		got, err := state(one)
		if err != nil {
			t.Fatal(err)
		}
		told := false
		for _, states := range got {
			told = told || states["EmailDelivery"] != ""
		}
		if told {
			break
		}
	}
	program.Want(t, s.Doublet("show", "stat", "JMAP.Push"), "JMAP.Push.Connections = 3", "JMAP.Push.Sent = ")
	// The browser signs out: its stream ends at once, the others continue.
	if code := browser.get("POST", "/auth/sign-out", "{}", nil); code != 200 {
		t.Error(code)
	}
	if _, err := state(two); err == nil {
		for err == nil { // read the events from before
			_, err = state(two)
		}
	}
	if out := browser.do("GET", "/jmap/session", ""); out.StatusCode != 401 {
		t.Error(out.StatusCode)
	}
	imap("STORE 1 +FLAGS (\\Answered)")
	if _, err := state(one); err != nil {
		t.Error(err)
	}
	// The server stops cleanly while clients wait.
	began := time.Now()
	s.Stop(syscall.SIGTERM)
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("the server took %v to stop", took)
	}
}

// TestBrowserSessions checks that sessions persist across a restart, that verbs list and end them, and that with a
// second factor programs must use app passwords.
func TestBrowserSessions(t *testing.T) {
	t.Parallel()
	s := demo(t)
	browser, other := s.browser(), s.browser()
	browser.signIn()
	other.signIn()
	s.Stop(syscall.SIGTERM)
	s.Start()
	who := func(w *visitor) int { return w.get("GET", "/auth/session", "", nil) }
	if a, b := who(browser), who(other); a != 200 || b != 200 {
		t.Fatal(a, b)
	}
	var list []struct {
		ID, Person string
	}
	if err := json.Unmarshal([]byte(s.Doublet("session", "list", "alice", "--json")), &list); err != nil ||
		len(list) != 2 {
		t.Fatal(list, err)
	}
	program.Want(t, s.Doublet("session", "end", list[0].ID), "ended")
	if a, b := who(browser), who(other); a+b != 200+401 {
		t.Error(a, b)
	}
	program.Want(t, s.Doublet("session", "end", "--person", "alice"), "1 sessions are ended")
	if a, b := who(browser), who(other); a != 401 || b != 401 {
		t.Error(a, b)
	}
	// A request without the session's token, or from another site, changes nothing.
	browser.signIn()
	token := browser.csrf
	browser.csrf = ""
	echo := `{"using":["urn:ietf:params:jmap:core"],"methodCalls":[["Core/echo",{},"c"]]}`
	if code := browser.get("POST", "/jmap/api", echo, nil); code != 403 {
		t.Error(code)
	}
	browser.csrf = token
	if code := browser.get("POST", "/jmap/api", echo, nil); code != 200 {
		t.Error(code)
	}
	if code := s.program("wrong").do("GET", "/jmap/session", "").StatusCode; code != 401 {
		t.Error(code)
	}
	var object struct {
		Capabilities map[string]json.RawMessage `json:"capabilities"`
	}
	if code := s.program("demo").get("GET", "/jmap/session", "", &object); code != 200 ||
		object.Capabilities["urn:ietf:params:jmap:websocket"] == nil ||
		object.Capabilities["urn:ietf:params:jmap:webpush-vapid"] == nil {
		t.Error(code, object)
	}
}
