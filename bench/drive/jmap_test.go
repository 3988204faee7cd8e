package drive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"doublet/bench/workload"
)

// jmapPeer is a JMAP server with fixed answers: one for each request, by the name of its first method.
type jmapPeer struct {
	*httptest.Server
	mu      sync.Mutex
	answers map[string]string
	later   map[string][]string // answers behind the first, by method
	asked   []string
	session string
}

const jmapSessionObject = `{"capabilities":{"urn:ietf:params:jmap:core":{},"urn:ietf:params:jmap:mail":{},
"urn:ietf:params:jmap:submission":{}},"accounts":{},"primaryAccounts":{"urn:ietf:params:jmap:mail":"a"},
"username":"u","state":"s",
 "apiUrl":"/api","uploadUrl":"/up/{accountId}",
 "downloadUrl":"/down/{accountId}/{blobId}/{name}","eventSourceUrl":"/ev"}`

func playJMAP(t *testing.T) (*jmapPeer, *World) {
	t.Helper()
	p := &jmapPeer{session: jmapSessionObject, later: map[string][]string{}, answers: map[string]string{
		"Mailbox/get": `["Mailbox/get",{"list":[{"id":"in","role":"inbox"},{"id":"dr","role":"drafts"},` +
			`{"id":"ar","name":"Archive"}]},"c0"],["Identity/get",{"list":[{"id":"i","email":"u0@example.com"}]},"c1"]`,
		"Email/query": `["Email/query",{"ids":["e2","e1"],"total":2},"c0"],["Email/get",{"state":"1",` +
			`"list":[{"id":"e2","keywords":{},"subject":"Invitation x.1 from u1@example.com"},{"id":"e1",` +
			`"keywords":{"$seen":true}}]},"c1"]`,
		"Email/get": `["Email/get",{"list":[{"id":"e2","messageId":["m.1@far"],` +
			`"bodyValues":{"1":{"value":"text"}}}]},"c0"],["Email/set",{"updated":{"e2":null}},"c1"]`,
		"Email/import": `["Email/import",{"created":{"m":{"id":"e9"}}},"c0"],["EmailSubmission/set",` +
			`{"created":{"s":{"id":"s1"}}},"c1"],["Email/set",{"updated":{"e2":null}},"c2"]`,
		"Email/set": `["Email/set",{"updated":{"e1":null,"e2":null},"destroyed":["e1","e2"]},"c0"]`,
		"Email/changes": `["Email/changes",{"newState":"2","created":[]},"c0"],["Email/get",{"list":[{"id":"e3",` +
			`"blobId":"b3","mailboxIds":{"in":true}}]},"c1"]`,
	}}
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/jmap", func(w http.ResponseWriter, r *http.Request) {
		if name, _, _ := r.BasicAuth(); name == "u1" {
			w.WriteHeader(401)
			return
		}
		_, _ = io.WriteString(w, p.session)
	})
	mux.HandleFunc("/api", func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		_, name, _ := strings.Cut(string(b), `"methodCalls":[["`)
		name, _, _ = strings.Cut(name, `"`)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.asked = append(p.asked, string(b))
		fmt.Fprintf(w, `{"methodResponses":[%s],"sessionState":"s"}`, p.answers[name])
		if next := p.later[name]; len(next) > 0 {
			p.answers[name], p.later[name] = next[0], next[1:]
		}
	})
	mux.HandleFunc("/up/a", func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		fmt.Fprintf(w, `{"blobId":"b","type":"x","size":%d}`, n)
	})
	mux.HandleFunc("/down/a/b3/message.eml", func(w http.ResponseWriter,
		_ *http.Request) {
		_, _ = io.WriteString(w, "the message")
	})
	mux.HandleFunc("/ev", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, ": here\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	mux.HandleFunc("/none", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	p.Server = httptest.NewServer(mux)
	t.Cleanup(p.Server.Close)
	w, _ := against(t)
	w.Env.Dial = net.DialTimeout
	w.Target.Doors = map[string]string{"jmap": strings.TrimPrefix(p.URL, "http://")}
	return p, w
}

// then sets the answers to the next requests of a method.
func (p *jmapPeer) then(method string, answers ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answers[method], p.later[method] = answers[0], answers[1:]
}

func (p *jmapPeer) says(method, answer string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answers[method] = answer
}

// TestJMAPSession checks the requests of a user over JMAP, and the session's state afterwards.
func TestJMAPSession(t *testing.T) {
	t.Parallel()
	p, w := playJMAP(t)
	opened, traffic, err := w.Open(context.Background(), workload.JMAP, &w.Users[0])
	if err != nil || traffic.Sent == 0 || traffic.Received == 0 {
		t.Fatal(err, traffic)
	}
	s := opened.(*jmapSession)
	defer s.Close()
	if s.inbox != "in" || s.drafts != "dr" || s.archive != "ar" || s.identity != "i" {
		t.Errorf("%+v", s)
	}
	for _, do := range []workload.Verb{workload.Open, workload.Read, workload.Update, workload.Add, workload.Send,
		workload.Reply, workload.Invite, workload.RSVP, workload.Poll, workload.Scroll, workload.Move, workload.Delete,
		workload.Open, workload.Retrieve, workload.Login} {
		got, err := act(s, do)
		if err != nil || got.Sent == 0 || got.Received == 0 {
			t.Errorf("%s: %v %+v", do, err, got)
		}
		switch {
		case do == workload.Open && (len(s.known) != 2 || s.known[1] != "e2" || s.exists != 2):
			t.Errorf("known %v, %d", s.known, s.exists)
		case do == workload.Read && (s.last != email{"e2", "m.1"} || len(s.unread) != 0):
			t.Errorf("%+v", s)
		}
	}
	if got, err := act(s, workload.Idle); err != nil || got.Held < time.Millisecond {
		t.Error(got, err)
	}
	all := strings.Join(p.asked, "\n")
	for _, part := range []string{`"onSuccessDestroyEmail":["#s"]`, `"keywords/$answered":true`,
		`"mailboxIds":{"ar":true}`, `"rcptTo":[{"email":"u1@example.com","parameters":null}`, `"sinceState":"1"`} {
		if !strings.Contains(all, part) {
			t.Errorf("%s is not asked", part)
		}
	}
	if _, _, err := w.Open(context.Background(), workload.JMAP, &w.Users[1]); Kind(err) != "401 about:blank" {
		t.Error(Kind(err), err)
	}
}

// TestOrderOfList checks that a list whose objects are in another order than their ids is read in that of the ids, and
// that each of them must be there (RFC 8620 section 5.1).
func TestOrderOfList(t *testing.T) {
	t.Parallel()
	p, w := playJMAP(t)
	s := p.open(t, w)
	p.says("Email/query", `["Email/query",{"ids":["e3","e2","e1"],"total":3},"c0"],["Email/get",{"state":"1",`+
		`"list":[{"id":"e1"},{"id":"e3"},{"id":"e2"}]},"c1"]`)
	if _, err := act(s, workload.Open); err != nil || strings.Join(s.known, " ") != "e1 e2 e3" {
		t.Errorf("known %v, %v", s.known, err)
	}
	p.says("Email/query", `["Email/query",{"ids":["e2","e1"],"total":2},"c0"],["Email/get",{"state":"1",`+
		`"list":[{"id":"e1"},{"id":"e1"}]},"c1"]`)
	if _, err := act(s, workload.Open); Kind(err) != "a list without all of its messages" {
		t.Errorf("a message is missing: %v", err)
	}
}

// TestWithoutSubmission checks that people read at a server without JMAP Submission, whose name no request has, and
// that what they would send is refused by that reason.
func TestWithoutSubmission(t *testing.T) {
	t.Parallel()
	p, w := playJMAP(t)
	p.session = strings.Replace(jmapSessionObject, `"urn:ietf:params:jmap:submission":{}`, `"x":{}`, 1)
	p.says("Mailbox/get", `["Mailbox/get",{"list":[{"id":"in","role":"inbox"}]},"c0"]`)
	s := p.open(t, w)
	for do, want := range map[workload.Verb]string{workload.Open: "", workload.Read: "", workload.Add: "",
		workload.Send: "the server has no JMAP Submission", workload.Reply: "the server has no JMAP Submission"} {
		if _, err := act(s, do); Kind(err) != want {
			t.Errorf("%s: %v, want %q", do, err, want)
		}
	}
	if all := strings.Join(p.asked, "\n"); strings.Contains(all, "submission") || strings.Contains(all, "Identity") {
		t.Errorf("asked: %s", all)
	}
	c, err := w.Capabilities(context.Background(), &w.Users[0])
	if err != nil || c != (Capabilities{Mail: true, Events: true}) {
		t.Error(c, err)
	}
}

// TestWithoutEvents checks that people wait for mail at a server without an event stream, too.
func TestWithoutEvents(t *testing.T) {
	t.Parallel()
	p, w := playJMAP(t)
	p.session = strings.Replace(jmapSessionObject, `"/ev"`, `"/none"`, 1)
	got, err := act(p.open(t, w), workload.Idle)
	if err != nil || got.Held < time.Millisecond || got.Received == 0 {
		t.Error(got, err)
	}
	if c, err := w.Capabilities(context.Background(), &w.Users[0]); err != nil || c.Events || !c.Mail {
		t.Error(c, err)
	}
}

// TestWithoutMail checks that nobody signs in at a server without JMAP Mail, and that the reason is an error of the
// server.
func TestWithoutMail(t *testing.T) {
	t.Parallel()
	p, w := playJMAP(t)
	p.session = strings.Replace(jmapSessionObject, `"primaryAccounts":{"urn:ietf:params:jmap:mail":"a"`,
		`"primaryAccounts":{"x":"a"`, 1)
	var refused *Refusal
	if _, _, err := w.Open(context.Background(), workload.JMAP, &w.Users[0]); !errors.As(err, &refused) ||
		!strings.Contains(refused.Text, "no account of mail") {
		t.Error(err)
	}
	if c, err := w.Capabilities(context.Background(), &w.Users[0]); err != nil || c.Mail {
		t.Error(c, err)
	}
}

// TestAnswerToDeleted checks that a reply to a message that was deleted meanwhile marks no message as answered.
func TestAnswerToDeleted(t *testing.T) {
	t.Parallel()
	p, w := playJMAP(t)
	s, _, err := w.Open(context.Background(), workload.JMAP, &w.Users[0])
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, do := range []workload.Verb{workload.Open, workload.Read} {
		if _, err := act(s, do); err != nil {
			t.Fatal(do, err)
		}
	}
	j := s.(*jmapSession)
	j.known = []string{j.last.id}
	if _, err := act(s, workload.Delete); err != nil {
		t.Fatal(err)
	}
	if _, err := act(s, workload.Reply); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(strings.Join(p.asked, "\n"), `"keywords/$answered":true`) {
		t.Error("a message that is gone is marked as answered")
	}
}

// TestWhatJMAPServersDo checks that a missing or unexpected effect at the server is an error and not an action.
func TestWhatJMAPServersDo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		do           workload.Verb
		method, says string
		kind         string
	}{
		{workload.Scroll, "Email/query",
			`["Email/query",{"ids":["e1","e2"]},"c0"],["Email/get",{"list":[{"id":"e1"}]},"c1"]`,
			"a list without all of its messages"},
		{workload.Scroll, "Email/query",
			`["error",{"type":"serverUnavailable"},"c0"],["error",{"type":"invalidResultReference"},"c1"]`,
			"serverUnavailable"},
		{workload.Read, "Email/get", `["Email/get",{"list":[],"notFound":["e2"]},"c0"],["Email/set",{},"c1"]`,
			"a listed message is not found"},
		{workload.Read, "Email/get",
			`["Email/get",{"list":[{"id":"e2","bodyValues":{}}]},"c0"],["Email/set",{"updated":{"e2":null}},"c1"]`,
			"a message without its text"},
		{workload.Read, "Email/get",
			`["Email/get",{"list":[{"id":"e2","bodyValues":{"1":{}}}]},"c0"],["Email/set",` +
				`{"notUpdated":{"e2":{"type":"forbidden"}}},"c1"]`, "forbidden"},
		{workload.Delete, "Email/set", `["Email/set",{"destroyed":null},"c0"]`, "broken protocol"},
		{workload.Update, "Email/set", `["Email/set",{"updated":{}},"c0"]`, "broken protocol"},
		{workload.Send, "Email/import",
			`["Email/import",{"created":{"m":{"id":"e9"}}},"c0"],["EmailSubmission/set",` +
				`{"notCreated":{"s":{"type":"invalidRecipients","description":"who?"}}},"c1"]`,
			"invalidRecipients: who?"},
		{workload.Add, "Email/import", `["Email/import",{"notCreated":{"m":{"type":"overQuota"}}},"c0"]`, "overQuota"},
		{workload.Poll, "Email/changes", `["Email/changes",{},"c0"]`, "broken protocol"},
		{workload.Poll, "Email/changes", `["error",{"type":"cannotCalculateChanges"},"c0"]`, ""},
		{workload.Poll, "Email/changes", `<html>`, "broken protocol"},
	} {
		p, w := playJMAP(t)
		s, _, err := w.Open(context.Background(), workload.JMAP, &w.Users[0])
		if err != nil {
			t.Fatal(err)
		}
		if _, err := act(s, workload.Open); err != nil {
			t.Fatal(err)
		}
		p.says(c.method, c.says)
		if _, err := act(s, c.do); Kind(err) != c.kind {
			t.Errorf("%s, %s: %q, want %q: %v", c.do, c.says, Kind(err), c.kind, err)
		}
		_ = s.Close()
	}
}

// TestFillOverJMAP checks that a mailbox is put back without a door for IMAP: other mailboxes are emptied, what is not
// of the beginning goes, keywords are as they were, and what is missing is added.
func TestFillOverJMAP(t *testing.T) {
	t.Parallel()
	p, w := playJMAP(t)
	w.FillOver = workload.JMAP
	w.Workload.Mailbox.Sizes = "s"
	u := &w.Users[0]
	const none = `["Email/query",{"ids":[],"total":0},"c0"],["Email/get",{"list":[]},"c1"]`
	first := w.initial(u, 0, 4)
	seen := w.seenFirst(&first)
	kept := fmt.Sprintf(`{"id":"e1","messageId":["%s@bench.example"],"keywords":{"$seen":%t,"$flagged":true}}`,
		w.initialID(u, 0), !seen)
	p.then("Email/query", `["Email/query",{"ids":["o1"]},"c0"]`, none, `["Email/query",{"ids":["e1","e2"]},"c0"],`+
		`["Email/get",{"list":[{"id":"e2","messageId":["run.1@bench.example"]},`+kept+`]},"c1"]`, none,
		`["Email/query",{"ids":["e1"],"total":1},"c0"]`)
	f, err := w.Fill(context.Background(), u, 4)
	if err != nil || f.Added != 3 || f.Removed != 2 || f.Bytes == 0 {
		t.Error(f, err)
	}
	all := strings.Join(p.asked, "\n")
	mark := `"e1":{"keywords/$seen":null,"keywords/$flagged":null,"keywords/$answered":null}`
	if seen {
		mark = strings.Replace(mark, "null", "true", 1)
	}
	for _, part := range []string{`"inMailboxOtherThan":["in"]`, `"destroy":["o1"]`, `"destroy":["e2"]`, mark} {
		if !strings.Contains(all, part) {
			t.Errorf("%s is not asked in %s", part, all)
		}
	}
	p.then("Email/query", none, `["Email/query",{"ids":["e1"]},"c0"],["Email/get",{"list":[{"id":"e1"}]},"c1"]`, none)
	p.says("Email/set", `["Email/set",{"notDestroyed":{"e1":{"type":"forbidden"}}},"c0"]`)
	var refused *Refusal
	if _, err = w.Fill(context.Background(), u, 1); !errors.As(err, &refused) {
		t.Error(err)
	}
}

// TestCutOverJMAP checks that mail that came after the mailbox was put back is removed.
func TestCutOverJMAP(t *testing.T) {
	t.Parallel()
	p, w := playJMAP(t)
	p.says("Email/query", `["Email/query",{"ids":["e2"],"total":2},"c0"]`)
	in, done, err := w.fillJMAP(context.Background(), &w.Users[0])
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	p.says("Email/set", `["Email/set",{"destroyed":["e2"]},"c0"]`)
	if err := in.cut(1); err != nil || in.count() != 1 ||
		!strings.Contains(p.asked[len(p.asked)-1], `"destroy":["e2"]`) {
		t.Error(err, in.count(), p.asked)
	}
	p.says("Email/set", `["Email/set",{"notDestroyed":{"e2":{"type":"forbidden"}}},"c0"]`)
	var refused *Refusal
	if err := in.cut(0); !errors.As(err, &refused) {
		t.Error(err)
	}
	if err := in.finish(); err != nil {
		t.Error(err)
	}
}
