package drive

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"doublet/bench/workload"
	client "doublet/client/jmap"
	"doublet/wire/websocket"
)

// webPeer is a server of the full client: its files, the session, and a mailbox of three messages. The answers of
// methods can be set; the requests are recorded in short form (shapeOf).
type webPeer struct {
	*httptest.Server
	t       *testing.T
	mu      sync.Mutex
	answers map[string]string
	shapes  map[string]int // requests since took was called last
	files   []string
	push    chan string // to the mail page
	planned chan string // to the calendar page
	lookUps atomic.Int64
	csrf    bool // every request but the first two had the token
}

const webSessionObject = `{"capabilities":{"urn:ietf:params:jmap:core":{},"urn:ietf:params:jmap:principals":{},
 "urn:ietf:params:jmap:calendars":{},"urn:doublet:jmap:recipients":{}, "urn:doublet:jmap:preferences":{},
"urn:ietf:params:jmap:websocket":{"url":"ws://$HOST/ws","supportsPush":true}},"accounts":{},
 "primaryAccounts":{"urn:ietf:params:jmap:mail":"a","urn:ietf:params:jmap:calendars":"a",
 "urn:ietf:params:jmap:tasks":"a"},"username":"u","state":"s",
 "apiUrl":"/api","uploadUrl":"/up/{accountId}",
 "downloadUrl":"/down/{accountId}/{blobId}/{name}","eventSourceUrl":"/ev"}`

// invited returns an event of u1 to which u0 is invited.
func invited(status string) string {
	return `{"id":"v1","uid":"run.7","participants":{"owner":{"email":"u1@example.com","roles":{"owner":true},` +
		`"participationStatus":"accepted"},"p0-u0":{"email":"U0@example.com","participationStatus":"` + status + `"}}}`
}

func playWeb(t *testing.T) (*webPeer, *World) {
	t.Helper()
	row := func(id, thread string, seen bool) string {
		return fmt.Sprintf(`{"id":%q,"threadId":%q,"mailboxIds":{"in":true},"keywords":{%s},"size":5}`, id, thread,
			map[bool]string{true: `"$seen":true`}[seen])
	}
	whole := func(id string) string {
		return fmt.Sprintf(`{"id":%q,"messageId":["%s.1@far"],"bodyValues":{"1":{"value":"text"}}}`, id, id)
	}
	p := &webPeer{t: t, shapes: map[string]int{}, push: make(chan string), planned: make(chan string), csrf: true,
		answers: map[string]string{
			"Mailbox/changes": `{"newState":"1","created":[],"updated":[],"destroyed":[]}`,
			"Mailbox/get": `{"state":"1","list":[{"id":"in","role":"inbox"},{"id":"dr","role":"drafts"},{"id":"se",` +
				`"role":"sent"},{"id":"tr","role":"trash"},{"id":"ar","role":"archive"}]}`,
			"Identity/get": `{"list":[{"id":"i","email":"u0@example.com"}]}`, "Quota/get": `{"list":[]}`,
			"Preferences/get":     `{"list":[]}`,
			"TaskList/get":        `{"state":"1","list":[{"id":"l"}]}`,
			"TaskList/changes":    `{"newState":"2","created":[],"updated":[],"destroyed":[]}`,
			"Task/changes":        `{"newState":"2","created":[],"updated":[],"destroyed":[]}`,
			"Task/query":          `{"ids":["k1"]}`,
			"Task/get":            `{"state":"1","list":[{"id":"k1","taskListId":"l","title":"Ask Anna"}]}`,
			"Calendar/get":        `{"list":[{"id":"other"},{"id":"cal","isDefault":true}]}`,
			"CalendarEvent/query": `{"ids":["v1"]}`,
			"CalendarEvent/get":   `{"list":[` + invited("needs-action") + `]}`,
			"Email/query":         `{"ids":["e3","e1"],"total":2}`,
			"Thread/get":          `{"list":[{"id":"t1","emailIds":["e1"]},{"id":"t2","emailIds":["e2","e3"]}]}`,
			"Email/get": `{"state":"1","list":[` + row("e3", "t2", false) + "," +
				row("e1", "t1", true) + `]}`,
			"Email/get 10":  `{"list":[` + whole("e3") + "," + whole("e1") + "," + whole("e2") + `]}`,
			"Email/changes": `{"newState":"2","created":[],"updated":["e3"],"destroyed":["gone"]}`,
		}}
	mux := http.NewServeMux()
	file := func(path, kind, tag, text string) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.files = append(p.files, r.URL.Path)
			w.Header().Set("Cache-Control", "no-cache")
			if w.Header().Set("ETag", tag); tag == "" {
				w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
			} else if r.Header.Get("If-None-Match") == tag {
				w.WriteHeader(http.StatusNotModified)
				return
			}
			w.Header().Set("Content-Type", kind)
			_, _ = io.WriteString(w, text)
		})
	}
	file("/{$}", "text/html", `"1"`, `<script src="/assets/index-AAAAAAAA.js"></script><a href="/lite/">`)
	file("/calendar/{$}", "text/html", `"4"`, `<script src="/assets/index-AAAAAAAA.js"></script>`)
	file("/sw.js", "text/javascript", `"2"`, `["/assets/index-AAAAAAAA.js","/assets/writer-BBBBBBBB.js","/icon.svg"]`)
	file("/assets/{name}", "text/javascript", "", "script")
	file("/icon.svg", "image/svg+xml", `"3"`, "icon")
	mux.HandleFunc("GET /auth/session", func(w http.ResponseWriter,
		r *http.Request) {
		p.asks(r, "")
		if _, err := r.Cookie("doublet"); err != nil {
			w.WriteHeader(401)
		}
	})
	mux.HandleFunc("GET /auth/ways", func(w http.ResponseWriter, r *http.Request) {
		p.asks(r, "")
		_, _ = io.WriteString(w, "{}")
	})
	mux.HandleFunc("POST /auth/sign-in", func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		p.asks(r, string(b))
		if strings.Contains(string(b), `"u1"`) {
			w.WriteHeader(401)
			_, _ = io.WriteString(w, `{"error":"credentials","detail":"Wrong name or password."}`)
			return
		}
		http.SetCookie(w, &http.Cookie{Name: "doublet", Value: "c", Path: "/"})
		_, _ = io.WriteString(w, `{"name":"u","csrf":"word"}`)
	})
	mux.HandleFunc("GET /.well-known/jmap", func(w http.ResponseWriter, r *http.Request) {
		p.asks(r, "")
		_, _ = io.WriteString(w, strings.ReplaceAll(webSessionObject, "$HOST", r.Host))
	})
	mux.HandleFunc("POST /up/a", func(w http.ResponseWriter, r *http.Request) {
		p.asks(r, "")
		n, _ := io.Copy(io.Discard, r.Body)
		fmt.Fprintf(w, `{"blobId":"b","type":"x","size":%d}`, n)
	})
	mux.HandleFunc("POST /api", p.api)
	mux.HandleFunc("GET /ws", p.socket)
	p.Server = httptest.NewServer(mux)
	t.Cleanup(p.Server.Close)
	w, _ := against(t)
	w.Env.Dial = net.DialTimeout
	w.Target.Doors = map[string]string{"jmap": strings.TrimPrefix(p.URL, "http://")}
	return p, w
}

func (p *webPeer) asks(r *http.Request, body string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := shapeOf(p.t, r.Method, r.URL.Path, body); s != "" {
		p.shapes[s]++
	}
	c, err := r.Cookie("doublet")
	if !strings.HasPrefix(r.URL.Path, "/auth/") && (r.Header.Get("X-Csrf-Token") != "word" || err != nil ||
		c.Value != "c") {
		p.csrf = false
	}
}

func (p *webPeer) says(method, answer string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answers[method] = answer
}

// enablesPush is sent once the WebSocket is open, after the answer that opens it.
const enablesPush = `WebSocket {@type:*,dataTypes:["Mailbox","Email","EmailDelivery"]}`

// reads waits until the client has sent requests, each as often as it is wanted, after a push to the calendar page if
// there is one.
func (p *webPeer) reads(t *testing.T, push string, wanted ...string) {
	t.Helper()
	if push != "" {
		p.planned <- push
	}
	often := map[string]int{}
	for _, s := range wanted {
		often[s]++
	}
	for range 1000 {
		p.mu.Lock()
		missing := slices.DeleteFunc(slices.Clone(wanted), func(s string) bool { return p.shapes[s] >= often[s] })
		p.mu.Unlock()
		if len(missing) == 0 {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Errorf("the client does not ask %q", wanted)
}

// took returns the requests since the last call.
func (p *webPeer) took() map[string]bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := map[string]bool{}
	for s := range p.shapes {
		out[s] = true
	}
	clear(p.shapes)
	return out
}

// api answers method calls: Foo/set as requested, all others with the set answers.
func (p *webPeer) api(w http.ResponseWriter, r *http.Request) {
	b, _ := io.ReadAll(r.Body)
	p.asks(r, string(b))
	var in struct{ MethodCalls [][3]json.RawMessage }
	if err := json.Unmarshal(b, &in); err != nil {
		p.t.Error(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.answers[""] == "401" {
		w.WriteHeader(401)
		return
	}
	var out []string
	for _, c := range in.MethodCalls {
		var name, id string
		_, _ = json.Unmarshal(c[0], &name), json.Unmarshal(c[2], &id)
		var args struct {
			Create, Update, OnSuccessUpdateEmail map[string]json.RawMessage
			Destroy, Properties                  []string
			Limit                                int
			IfInState                            string
		}
		_ = json.Unmarshal(c[1], &args)
		answer := p.answers[name]
		switch {
		case args.IfInState != "" && p.answers["state"] != "": // the Emails have changed, once
			delete(p.answers, "state")
			out = append(out, fmt.Sprintf(`["error",{"type":"stateMismatch"},%q]`, id))
			continue
		case name == "Principal/query" && answer == "refused":
			p.lookUps.Add(1)
			out = append(out, fmt.Sprintf(`["error",{"type":"forbidden"},%q]`, id))
			continue
		case name == "Principal/query":
			p.lookUps.Add(1)
			answer = `{"ids":["p1"]}`
		case name == "Recipient/check":
			answer = `{"unknown":[],"malformed":[]}`
		case name == "Principal/get":
			answer = `{"list":[{"id":"p1","name":"U","email":"u1@example.com"}]}`
		case name == "Email/query" && args.Limit == 1 && !strings.Contains(answer, "e9"):
			answer = `{"ids":[]}`
		case answer != "" && slices.Contains(args.Properties, "bodyValues"):
			answer = p.answers[name+" 10"]
		case answer == "" && strings.HasSuffix(name, "/set"):
			made, changed := map[string]any{}, map[string]any{}
			for k := range args.Create {
				made[k] = map[string]string{"id": "made-" + k}
			}
			left := map[string]any{}
			for k := range args.Update {
				if why := p.answers["not "+k]; why != "" {
					left[k] = map[string]string{"type": why}
				} else {
					changed[k] = nil
				}
			}
			raw, _ := json.Marshal(map[string]any{"created": made, "updated": changed, "notUpdated": left,
				"destroyed": args.Destroy})
			answer = string(raw)
		}
		out = append(out, fmt.Sprintf(`[%q,%s,%q]`, name, answer, id))
		if len(args.OnSuccessUpdateEmail) > 0 {
			out = append(out, fmt.Sprintf(`["Email/set",{"updated":{"made-m":null}},%q]`, id))
		}
	}
	fmt.Fprintf(w, `{"methodResponses":[%s],"sessionState":"s"}`, strings.Join(out, ","))
}

// socket pushes the texts of the channel.
func (p *webPeer) socket(w http.ResponseWriter, r *http.Request) {
	p.asks(r, "")
	if r.Header.Get("Origin") != p.URL {
		p.t.Errorf("a WebSocket from %q", r.Header.Get("Origin"))
	}
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		p.t.Error(err)
		return
	}
	defer conn.Close()
	fmt.Fprintf(conn, "HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"+
		"Sec-WebSocket-Protocol: jmap\r\nSec-WebSocket-Accept: %s\r\n\r\n",
		websocket.Accept(r.Header.Get("Sec-Websocket-Key")))
	in := websocket.Reader{Masked: true, Max: 1 << 20}
	_, text, err := in.Next(bufio.NewReader(rw), nil)
	if err != nil {
		return
	}
	p.mu.Lock()
	p.shapes[shapeOf(p.t, "WebSocket", "", string(text))]++
	p.mu.Unlock()
	push := p.push
	if strings.Contains(string(text), "CalendarEvent") {
		push = p.planned
	}
	for line := range push {
		_, _ = conn.Write(websocket.Append(nil, websocket.Text, []byte(line)))
	}
}

func openFull(t *testing.T, w *World) *webSession {
	t.Helper()
	opened, traffic, err := w.Open(context.Background(), workload.WebFull, &w.Users[0])
	if err != nil || traffic.Sent == 0 || traffic.Received == 0 {
		t.Fatal(err, traffic)
	}
	s := opened.(*webSession)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// calm waits until a session has no background work.
func calm(t *testing.T, s *webSession) {
	t.Helper()
	for range 1000 {
		s.mu.Lock()
		busy := s.works
		s.mu.Unlock()
		if !busy {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatal("it never comes to rest")
}

// asked returns the requests of the full client for each action, as test/e2e/web/requests.test.mjs records them in the
// same file. Entry "beside" holds those of background work.
func asked(t *testing.T) map[string][]string {
	t.Helper()
	raw, err := os.ReadFile("testdata/requests.json")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]string{}
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestWhatTheFullClientAsks checks that the driver sends the requests of the full client.
func TestWhatTheFullClientAsks(t *testing.T) {
	t.Parallel()
	want := asked(t)
	beside := map[string]bool{}
	p, w := playWeb(t)
	p.says("Thread/get", `{"list":[{"id":"t1","emailIds":["e1","elsewhere"]},{"id":"t2","emailIds":["e3"]}]}`)
	s := openFull(t, w)
	p.reads(t, "", enablesPush)
	check := func(action string, got map[string]bool) {
		t.Helper()
		calm(t, s)
		for shape := range p.took() {
			got[shape] = true
		}
		for shape := range got {
			if slices.Contains(want["beside"], shape) {
				beside[shape] = true
				delete(got, shape)
			}
			if action != "calendar" && slices.Contains(want["beside the calendar"], shape) {
				delete(got, shape)
			}
		}
		if list := slices.Sorted(maps.Keys(got)); !slices.Equal(list, want[action]) {
			t.Errorf("%s: the driver asks\n  %s\nand the client\n  %s", action, strings.Join(list, "\n  "),
				strings.Join(want[action], "\n  "))
		}
	}
	check("sign-in", map[string]bool{})
	for _, c := range []struct {
		do     workload.Verb
		action string
	}{{workload.Open, "open"}, {workload.Read, "read"}, {workload.Update, "flag"}, {workload.Move, "move"},
		{workload.Open, "open"}, {workload.Delete, "move"}, {workload.Send, "send"}, {workload.Reply, "reply"}} {
		w.Workload.Sizes["s"] = []workload.Size{{Body: 1000, Attachment: 1000, Percent: 100}}
		if c.do == workload.Reply {
			w.Workload.Sizes["s"][0].Attachment = 0
			s.last = email{"e1", "m.1"}
			clear(s.checked) // the answer is to somebody else
		}
		if _, err := act(s, c.do); err != nil {
			t.Errorf("%s: %v", c.do, err)
		}
		check(c.action, map[string]bool{})
	}
	w.Workload.Sizes["s"] = nil
	if _, err := act(s, workload.Calendar); err != nil {
		t.Error(err)
	}
	const listening = `WebSocket {@type:*,dataTypes:["Calendar","CalendarEvent","TaskList","Task"]}`
	i := slices.IndexFunc(want["calendar"], func(s string) bool { return strings.HasPrefix(s, "TaskList/get") })
	tasks := want["calendar"][i] // read last: with the page, and again when it listens
	p.reads(t, "", listening, "Calendar/get{accountId:*,ids:null}", tasks, tasks)
	check("calendar", map[string]bool{listening: true, "Calendar/get{accountId:*,ids:null}": true})
	clear(s.checked)
	for _, do := range []workload.Verb{workload.Appointment, workload.Invite} {
		if _, err := act(s, do); err != nil {
			t.Errorf("%s: %v", do, err)
		}
		check(string(do), map[string]bool{})
	}
	p.reads(t, `{"@type":"StateChange","changed":{"a":{"Calendar":"2","CalendarEvent":"2","TaskList":"2",`+
		`"Task":"2"}}}`,
		want["beside the calendar"]...)
	p.says("CalendarEvent/set", "")
	if _, err := act(s, workload.RSVP); Kind(err) != "an invitation that was answered waits still" {
		t.Error("the server forgets an answer:", err)
	}
	check("rsvp", map[string]bool{})
	if list := slices.Sorted(maps.Keys(beside)); !slices.Equal(list, want["beside"]) {
		t.Errorf("beside: the driver asks\n  %s\nand the client\n  %s", strings.Join(list, "\n  "),
			strings.Join(want["beside"], "\n  "))
	}
	if !p.csrf {
		t.Error("a request without cookie or token")
	}
}

// TestFilesOfThePage checks which files a session of the full client loads: all, or those that are not cached.
func TestFilesOfThePage(t *testing.T) {
	t.Parallel()
	p, w := playWeb(t)
	calm(t, openFull(t, w))
	if files := strings.Join(p.files,
		" "); files != "/ /assets/index-AAAAAAAA.js /sw.js /assets/writer-BBBBBBBB.js /icon.svg" {
		t.Errorf("the first of all loads %s", files)
	}
	p.files = nil
	calm(t, openFull(t, w))
	if files := strings.Join(p.files, " "); files != "/ /sw.js" {
		t.Errorf("who was here before loads %s", files)
	}
	w.Cold, p.files = true, nil
	calm(t, openFull(t, w))
	if files := strings.Join(p.files,
		" "); files != "/ /assets/index-AAAAAAAA.js /sw.js /assets/writer-BBBBBBBB.js /icon.svg" {
		t.Errorf("who begins with nothing loads %s", files)
	}
}

// TestFullSession checks that cached data is not requested again, and that pushes are handled in the background.
func TestFullSession(t *testing.T) {
	t.Parallel()
	p, w := playWeb(t)
	s := openFull(t, w)
	calm(t, s)
	if s.view.total != 2 || !slices.Equal(s.view.list, []string{"e3", "e1"}) || len(s.view.bodies) != 3 {
		t.Errorf("%+v", &s.view)
	}
	p.reads(t, "", enablesPush)
	s.Syncs()
	p.took()
	if got, err := act(s, workload.Scroll); err != nil || got.Sent+got.Received != 0 {
		t.Error("to scroll in what is there:", got, err)
	}
	p.push <- `{"@type":"StateChange","changed":{"a":{"Email":"2"}}}`
	list := s.Syncs()
	for range 1000 {
		if len(list) > 0 {
			break
		}
		time.Sleep(5 * time.Millisecond)
		list = s.Syncs()
	}
	if len(list) == 0 || list[0].Err != nil || list[0].Traffic.Received == 0 {
		t.Errorf("%+v", list)
	}
	calm(t, s)
	if got, err := act(s, workload.Idle); err != nil || got.Held < time.Millisecond {
		t.Error(got, err)
	}
	if got, err := act(s, workload.Send); err != nil || got.Held == 0 {
		t.Error("nobody waits for drafts:", got, err)
	}
	if _, err := act(s, workload.Login); err != nil {
		t.Error(err)
	}
	if _, _, err := w.Open(context.Background(), workload.WebFull,
		&w.Users[1]); Kind(err) != "401 Wrong name or password." {
		t.Error(err)
	}
}

// TestOwnChanges checks that a flag costs one request if nobody else changed anything, that a message that is put away
// costs the list besides, and that the push of an own change costs nothing.
func TestOwnChanges(t *testing.T) {
	t.Parallel()
	p, w := playWeb(t)
	s := openFull(t, w)
	calm(t, s)
	p.reads(t, "", enablesPush)
	asked := func(do workload.Verb, old, now, others string) string {
		t.Helper()
		p.says("Email/set", fmt.Sprintf(
			`{"oldState":%q,"newState":%q,"updated":{"e1":null,"e2":null,"e3":null}}`, old, now))
		p.says("Email/changes", fmt.Sprintf(
			`{"oldState":%q,"newState":%q,"created":[],"updated":["e3"%s],"destroyed":[]}`, old, now, others))
		s.view.list = []string{"e3"}
		p.took()
		if _, err := act(s, do); err != nil {
			t.Fatal(err)
		}
		s.hear(client.Changed{"a": {"Email": now, "Mailbox": "1"}})
		calm(t, s)
		var names []string
		for shape := range p.took() {
			if name, _, _ := strings.Cut(shape, "{"); name != "Email/get" || strings.Contains(shape, "Thread/get") {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		return strings.Join(names, " ")
	}
	if got := asked(workload.Update, "1", "2", ""); got != "Email/set" {
		t.Error("a flag:", got)
	}
	if got := asked(workload.Update, "2", "3", `,"e1"`); got != "Email/get Email/query Email/set" {
		t.Error("a flag, and somebody else's change:", got)
	}
	if got := asked(workload.Delete, "3", "4", ""); got != "Email/query Email/set" {
		t.Error("a message put away:", got)
	}
}

// TestReplyToDeleted checks that a reply to a message that is gone is sent, while a message that may not be marked is
// an error.
func TestReplyToDeleted(t *testing.T) {
	t.Parallel()
	for why, kind := range map[string]string{"notFound": "", "forbidden": "forbidden"} {
		p, w := playWeb(t)
		s := openFull(t, w)
		calm(t, s)
		s.last = email{"e1", "m.1"}
		p.says("not e1", why)
		if _, err := act(s, workload.Reply); Kind(err) != kind {
			t.Errorf("%s: %v, want %q", why, err, kind)
		}
	}
}

// TestSendAfterChange checks that a message is sent again if the Emails change before it is made.
func TestSendAfterChange(t *testing.T) {
	t.Parallel()
	p, w := playWeb(t)
	s := openFull(t, w)
	calm(t, s)
	p.says("state", "changed")
	if _, err := act(s, workload.Send); err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.answers["state"] != "" {
		t.Error("the message was sent in whatever state the Emails are")
	}
}

// TestWhatServersOfTheFullClientDo checks that a missing or unexpected effect at the server is an error.
func TestWhatServersOfTheFullClientDo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		do           workload.Verb
		method, says string
		kind         string
		over         bool // the user signs in again
	}{
		{workload.Open, "Email/query", `{"ids":["e3","e1","e9"],"total":3}`,
			"a list without all of its messages", false},
		{workload.Open, "Email/query", `{"ids":["e3","e1"],"total":1}`, "broken protocol", true},
		{workload.Open, "Thread/get", `{"list":[]}`, "", false},
		{workload.Read, "Email/get 10", `{"list":[]}`, "a listed message is not found", false},
		{workload.Read, "Email/get 10", `{"list":[{"id":"e3","bodyValues":{}}]}`, "a message without its text", false},
		{workload.Read, "Email/set", `{"updated":{},"notUpdated":{"e3":{"type":"forbidden"}}}`, "forbidden", false},
		{workload.Delete, "Email/set", `{"updated":null}`, "broken protocol", true},
		{workload.Send, "Email/query", `{"ids":["e9"]}`, "a message that was not sent is among those that were", false},
		{workload.Send, "EmailSubmission/set", `{"notCreated":{"s":{"type":"invalidRecipients"}}}`,
			"invalidRecipients", false},
		{workload.Send, "Email/set", `{"created":{"d":{"id":"x"},"m":{"id":"y"}},"destroyed":["x"]}`,
			"a message that is sent and not filed", false},
		{workload.Send, "Email/set", `{"notCreated":{"d":{"type":"overQuota"}}}`, "overQuota", false},
		{workload.Poll, "Email/changes", `{}`, "broken protocol", true},
		{workload.Poll, "", "401", "signed out", true},
	} {
		p, w := playWeb(t)
		s := openFull(t, w)
		calm(t, s)
		if c.do == workload.Read {
			clear(s.view.bodies) // as for a message that is not among the newest
		}
		p.says(c.method, c.says)
		_, err := act(s, c.do)
		var refused *Refusal
		if Kind(err) != c.kind {
			t.Errorf("%s, %s: %q, want %q: %v", c.do, c.says, Kind(err), c.kind, err)
		} else if err != nil && errors.As(err, &refused) == c.over {
			t.Errorf("%s, %s: whether the session goes on: %v", c.do, c.says, err)
		}
	}
}

// shapeOf returns the short form of a request, without the parts that vary, or "" for a request that is ignored.
// test/e2e/web/requests.test.mjs has the same function.
func shapeOf(t *testing.T, method, path, body string) string {
	t.Helper()
	switch {
	case strings.HasPrefix(path, "/up/"):
		return "upload"
	case strings.HasPrefix(path, "/auth/"), path == "/.well-known/jmap":
		if body == "" {
			return method + " " + path
		}
		path = " " + path
	case path == "/api":
		path = ""
	case method != "WebSocket":
		return ""
	}
	var v any
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		t.Error(err, body)
	}
	if path != "" || method == "WebSocket" {
		return method + path + " " + shape("", v)
	}
	var calls []string
	for _, c := range v.(map[string]any)["methodCalls"].([]any) {
		call := c.([]any)
		calls = append(calls, call[0].(string)+shape("", call[1]))
	}
	if strings.HasPrefix(calls[0], "Principal/") {
		return "" // the client's depend on typing speed; TestCompletion checks the driver's
	}
	return strings.Join(calls, " + ")
}

// TestCompletion checks that each recipient is looked up in the directory once, but not the recipient of a reply. A
// server without a directory is not asked, and a refusal does not stop the message.
func TestCompletion(t *testing.T) {
	t.Parallel()
	p, w := playWeb(t)
	s := openFull(t, w)
	calm(t, s)
	lookUps := func(do workload.Verb) int {
		t.Helper()
		before := p.lookUps.Load()
		if _, err := act(s, do); err != nil {
			t.Error(do, err)
		}
		return int(p.lookUps.Load() - before)
	}
	if n := lookUps(workload.Send); n != 2 {
		t.Errorf("a message to two: %d look-ups", n)
	}
	s.last = email{"e1", "m.1"}
	if n := lookUps(workload.Reply); n != 0 {
		t.Errorf("an answer: %d look-ups", n)
	}
	p.says("Principal/query", "refused")
	if n := lookUps(workload.Send); n != 2 {
		t.Errorf("refused: %d look-ups", n)
	}
	s.listed = false
	if n := lookUps(workload.Send); n != 0 {
		t.Errorf("without a directory: %d look-ups", n)
	}
}

// byID are members whose keys are ids.
var byID = []string{"create", "update", "onSuccessUpdateEmail", "mailboxIds", "calendarIds"}

// member returns the name of a member without the ids in it.
func member(k string) string {
	for _, x := range []struct{ pattern, short string }{{`^mailboxIds/.*`, "mailboxIds/*"},
		{`^participants/[^/]*`, "participants/*"}, {`^p\d+-.*`, "p*"}} {
		k = regexp.MustCompile(x.pattern).ReplaceAllString(k, x.short)
	}
	return k
}

func shape(name string, v any) string {
	switch v := v.(type) {
	case map[string]any:
		names := slices.Sorted(maps.Keys(v))
		if slices.Contains(byID, name) && len(names) > 0 {
			return "{*:" + shape("", v[names[0]]) + "}"
		}
		var members []string
		for _, k := range names {
			members = append(members, member(k)+":"+shape(k, v[k]))
		}
		slices.Sort(members)
		return "{" + strings.Join(slices.Compact(members), ",") + "}"
	case []any:
		if len(v) == 0 {
			return "[]"
		}
		if name == "properties" || name == "dataTypes" {
			raw, _ := json.Marshal(v)
			return string(raw)
		}
		return "[" + shape("", v[0]) + "]"
	case string:
		return "*"
	case nil:
		if name == "name" {
			return "*"
		}
		return "null"
	}
	if name == "position" {
		return "*"
	}
	raw, _ := json.Marshal(v)
	return string(raw)
}

// TestWebFiles checks that the files of the client are found however the service worker writes their list.
func TestWebFiles(t *testing.T) {
	t.Parallel()
	want := []string{"/assets/a.js", "/icon.svg", "/assets/b.css", "/mail-frame"}
	for _, text := range []string{`["/assets/a.js","/icon.svg","/assets/b.css","/mail-frame"]`,
		`"/assets/a.js,/icon.svg,/assets/b.css,/mail-frame".split(",")`,
		"`/assets/a.js,/icon.svg,/assets/b.css,/mail-frame`.split(`,`)",
		`<script src="/assets/a.js"><link href="/icon.svg"><link href="/assets/b.css"> ["/mail-frame"]`} {
		var got []string
		for _, m := range webFile.FindAllStringSubmatch(text, -1) {
			got = append(got, m[1]+m[2])
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q", text, got)
		}
	}
}
