package push

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"doublet/note"
	"doublet/wire/jmap"
	"doublet/wire/websocket"

	coder "github.com/coder/websocket"
)

// client is a WebSocket client with a third-party library.
type client struct {
	w *world
	*coder.Conn
}

func (w *world) socket(header ...string) *client {
	w.t.Helper()
	h := http.Header{}
	for i := 0; i < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	c, _, err := coder.Dial(bg, strings.Replace(w.http.URL, "http", "ws", 1)+"/ws",
		&coder.DialOptions{Subprotocols: []string{Subprotocol}, HTTPHeader: h})
	w.ok(err)
	if c.Subprotocol() != Subprotocol {
		w.t.Errorf("subprotocol %q", c.Subprotocol())
	}
	w.t.Cleanup(func() { _ = c.CloseNow() })
	c.SetReadLimit(64 << 20)
	return &client{w, c}
}

func (c *client) send(text string) {
	c.w.t.Helper()
	c.w.ok(c.Write(bg, coder.MessageText, []byte(text)))
}

func (c *client) next() map[string]any {
	c.w.t.Helper()
	ctx, cancel := context.WithTimeout(bg, 20*time.Second)
	defer cancel()
	kind, b, err := c.Read(ctx)
	c.w.ok(err)
	var v map[string]any
	if kind != coder.MessageText || json.Unmarshal(b, &v) != nil {
		c.w.t.Fatalf("%v %s", kind, b)
	}
	return v
}

// ends reads until the server closes, and returns the status code.
func (c *client) ends() int {
	c.w.t.Helper()
	ctx, cancel := context.WithTimeout(bg, 20*time.Second)
	defer cancel()
	for {
		if _, _, err := c.Read(ctx); err != nil {
			return int(coder.CloseStatus(err))
		}
	}
}

// echo answers a request with its text, after a delay if the request asks for it.
func echo(_ context.Context, c *Caller, request []byte) ([]byte, *jmap.Problem) {
	v, err := jmap.Parse(string(request), jmap.Bounds{})
	if err != nil {
		return nil, &jmap.Problem{Type: jmap.ProblemNotJSON, Status: 400}
	}
	if name, ok := v.Get("problem").Text(); ok {
		return nil, &jmap.Problem{Type: name, Status: 400, Detail: "as asked"}
	}
	if n, ok := v.Get("wait").Int(); ok {
		time.Sleep(time.Duration(n) * time.Millisecond)
	}
	text, _ := v.Get("text").Text()
	return append(jmap.AppendString([]byte(`{"methodResponses":[],"echo":`), text), `,"sessionState":"s"}`...), nil
}

func TestRequests(t *testing.T) {
	t.Parallel()
	w := open(t)
	w.call = echo
	c := w.socket()
	c.send(`{"@type":"Request","id":"R\"1","using":[],"methodCalls":[],"text":"hello"}`)
	if v := c.next(); v["@type"] != "Response" || v["requestId"] != `R"1` || v["echo"] != "hello" ||
		v["sessionState"] != "s" {
		t.Errorf("%v", v)
	}
	c.send(`{"@type":"Request","text":"no id"}`)
	if v := c.next(); v["@type"] != "Response" || v["requestId"] != nil || v["echo"] != "no id" {
		t.Errorf("%v", v)
	}
	big := strings.Repeat("ü", 1_000_000)
	c.send(`{"@type":"Request","id":"big","text":"` + big + `"}`)
	if v := c.next(); v["requestId"] != "big" || v["echo"] != big {
		t.Errorf("%.100v", v)
	}
	for what, x := range map[string]struct{ text, kind, id string }{
		"no JSON":     {`{"@type":`, jmap.ProblemNotJSON, ""},
		"not I-JSON":  {`{"a":1,"a":2}`, jmap.ProblemNotJSON, ""},
		"no type":     {`{"id":"x"}`, jmap.ProblemNotRequest, "x"},
		"a response":  {`{"@type":"Response","id":"y"}`, jmap.ProblemNotRequest, "y"},
		"an array":    {`[]`, jmap.ProblemNotRequest, ""},
		"deep":        {strings.Repeat("[", 1000), jmap.ProblemLimit, ""},
		"refused":     {`{"@type":"Request","id":"z","problem":"urn:x"}`, "urn:x", "z"},
		"bad types":   {`{"@type":"WebSocketPushEnable","dataTypes":"Email"}`, jmap.ProblemNotRequest, ""},
		"bad types 2": {`{"@type":"WebSocketPushEnable","dataTypes":[1]}`, jmap.ProblemNotRequest, ""},
	} {
		c.send(x.text)
		v := c.next()
		if v["@type"] != "RequestError" || v["type"] != x.kind || v["status"] == nil || x.id != "" &&
			v["requestId"] != x.id || x.id == "" && v["requestId"] != nil {
			t.Errorf("%s: %v", what, v)
		}
	}
	// The connection is still usable.
	c.send(`{"@type":"Request","text":"again"}`)
	if v := c.next(); v["echo"] != "again" {
		t.Errorf("%v", v)
	}
	w.ok(c.Close(coder.StatusNormalClosure, ""))
}

// TestBeside checks that a slow request delays neither other requests nor pushes.
func TestBeside(t *testing.T) {
	t.Parallel()
	w := open(t)
	w.call = echo
	c := w.socket()
	c.send(`{"@type":"WebSocketPushEnable","dataTypes":null}`)
	c.send(`{"@type":"Request","id":"slow","wait":700}`)
	c.send(`{"@type":"Request","id":"quick"}`)
	if v := c.next(); v["requestId"] != "quick" {
		t.Errorf("%v", v)
	}
	w.change(1, "Email")
	if v := c.next(); v["@type"] != "StateChange" {
		t.Errorf("%v", v)
	}
	if v := c.next(); v["requestId"] != "slow" {
		t.Errorf("%v", v)
	}
}

// TestManyRequests checks that only a bounded number of concurrent requests is executed at once.
func TestManyRequests(t *testing.T) {
	t.Parallel()
	w := open(t, func(o *Options) { o.Requests = 3 })
	var running, most atomic.Int64
	w.call = func(ctx context.Context, c *Caller, request []byte) ([]byte, *jmap.Problem) {
		n := running.Add(1)
		defer running.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		time.Sleep(20 * time.Millisecond)
		return echo(ctx, c, request)
	}
	c := w.socket()
	for i := range 30 {
		c.send(fmt.Sprintf(`{"@type":"Request","id":"%d"}`, i))
	}
	seen := map[any]bool{}
	for range 30 {
		seen[c.next()["requestId"]] = true
	}
	if len(seen) != 30 || most.Load() > 3 {
		t.Errorf("%d answers, %d at once", len(seen), most.Load())
	}
}

func TestSocketPush(t *testing.T) {
	t.Parallel()
	w := open(t)
	c := w.socket()
	w.change(1, "Email") // push is not enabled
	c.send(`{"@type":"WebSocketPushEnable","dataTypes":["Mailbox","Email"],"pushState":null}`)
	w.eventually("nobody watches", func() bool { return w.watching() == 1 })
	time.Sleep(20 * time.Millisecond) // until the current states are read
	w.change(1, "Thread")
	w.change(1, "Email")
	v := c.next()
	b, err := json.Marshal(v)
	w.ok(err)
	token, _ := v["pushState"].(string)
	if got := changed(t, string(b)); len(got["a1"]) != 1 || got["a1"]["Email"] != "3" || token == "" {
		t.Errorf("%s", b)
	}
	c.send(`{"@type":"WebSocketPushDisable"}`)
	c.send(`{"@type":"x"}`)
	c.next() // both messages have been handled
	w.change(1, "Email")
	time.Sleep(3 * gap)
	// A client with an old token gets the current states. One with the current token gets nothing.
	c.send(`{"@type":"WebSocketPushEnable","dataTypes":["Email"],"pushState":"` + token + `"}`)
	v = c.next()
	if b, err = json.Marshal(v); err != nil || changed(t, string(b))["a1"]["Email"] != "4" {
		t.Errorf("%s", b)
	}
	other := w.socket()
	other.send(`{"@type":"WebSocketPushEnable","dataTypes":null,"pushState":"` + v["pushState"].(string) + `"}`)
	other.send(`{"@type":"x"}`)
	if v := other.next(); v["@type"] != "RequestError" {
		t.Errorf("%v", v)
	}
	w.ok(other.Close(coder.StatusNormalClosure, "bye"))
	w.ok(c.Close(coder.StatusNormalClosure, ""))
	w.eventually("watchers are left", func() bool { return w.watching() == 0 })
}

// TestMoreTypes enables push for more types while a change waits for the gap after the push before: it is told.
func TestMoreTypes(t *testing.T) {
	t.Parallel()
	w := open(t)
	c := w.socket()
	c.send(`{"@type":"WebSocketPushEnable","dataTypes":["Email"]}`)
	w.eventually("nobody watches", func() bool { return w.watching() == 1 })
	time.Sleep(20 * time.Millisecond) // until the current states are read
	for i := range 3 {
		w.change(1, "Email")
		first := c.next()
		w.change(1, "Email")
		c.send(`{"@type":"WebSocketPushEnable","dataTypes":["Email","Mailbox"]}`)
		second := c.next()
		b, err := json.Marshal(second)
		w.ok(err)
		if got := changed(t, string(b)); got["a1"]["Email"] != strconv.Itoa(2*i+3) {
			t.Errorf("%v, then %s", first, b)
		}
	}
}

func TestGoodbye(t *testing.T) {
	t.Parallel()
	w := open(t, func(o *Options) { o.Request = 1000 })
	w.call = echo
	for what, x := range map[string]struct {
		kind coder.MessageType
		text string
		code int
	}{
		"binary":    {coder.MessageBinary, "{}", websocket.Unsupported},
		"too big":   {coder.MessageText, strings.Repeat("x", 1001), websocket.TooBig},
		"not UTF-8": {coder.MessageText, "\xff", websocket.Malformed},
	} {
		c := w.socket()
		w.ok(c.Write(bg, x.kind, []byte(x.text)))
		if code := c.ends(); code != x.code {
			t.Errorf("%s: %d", what, code)
		}
	}
	// After a sign-out no more requests are executed, and nothing more is pushed.
	for _, what := range []string{"request", "end"} {
		c := w.socket("Credential", what)
		c.send(`{"@type":"Request","text":"x"}`)
		c.next()
		w.revoke(what)
		code := websocket.GoingAway
		if what == "request" {
			c.send(`{"@type":"Request","text":"x"}`)
			code = websocket.Policy
		} else {
			w.End(what)
		}
		if got := c.ends(); got != code {
			t.Errorf("%s: %d", what, got)
		}
	}
	// The memory for messages is bounded.
	full := open(t, func(o *Options) {
		o.Take, o.Give = func(_ note.UNID, n int64) bool { return n < 100_000 }, func(note.UNID, int64) {}
	})
	c := full.socket()
	c.send(`{"@type":"Request","text":"` + strings.Repeat("x", 300_000) + `"}`)
	if code := c.ends(); code != websocket.TryAgain {
		t.Error(code)
	}
	// When the server stops, requests in progress are answered first.
	c = w.socket()
	c.send(`{"@type":"Request","id":"last","wait":300}`)
	time.Sleep(100 * time.Millisecond)
	stopped := make(chan struct{})
	go func() { w.stop(); close(stopped) }()
	if v := c.next(); v["requestId"] != "last" {
		t.Errorf("%v", v)
	}
	if code := c.ends(); code != websocket.GoingAway {
		t.Error(code)
	}
	<-stopped
}

// TestMemoryIsGivenBack checks that the memory of a message is released in all cases.
func TestMemoryIsGivenBack(t *testing.T) {
	t.Parallel()
	var held atomic.Int64
	w := open(t, func(o *Options) {
		o.Take, o.Give = func(_ note.UNID, n int64) bool { held.Add(n); return true }, func(_ note.UNID,
			n int64) {
			held.Add(-n)
		}
	})
	w.call = echo
	c := w.socket()
	for _, text := range []string{`{"@type":"Request","text":"%s"}`, `{"@type":"Request","problem":"%s"}`,
		`{"@type":"%s"}`, `{"@type":"WebSocketPushEnable","x":"%s"}`,
		`{"@type":"WebSocketPushDisable","x":"%s"}`, `%s`} {
		c.send(fmt.Sprintf(text, strings.Repeat("x", 100_000)))
	}
	for range 4 {
		c.next()
	}
	w.ok(c.Write(bg, coder.MessageBinary, make([]byte, 100_000)))
	c.ends()
	w.eventually("memory is held", func() bool { return held.Load() == 0 })
}

// raw is a WebSocket whose octets the test writes itself.
func (w *world) raw(protocol string) (net.Conn, *bufio.Reader, *http.Response) {
	w.t.Helper()
	c, err := net.Dial("tcp", w.http.Listener.Addr().String())
	w.ok(err)
	w.t.Cleanup(func() { _ = c.Close() })
	fmt.Fprintf(c, "GET /ws HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: %s\r\n"+
		"\r\n", protocol)
	in := bufio.NewReader(c)
	out, err := http.ReadResponse(in, nil)
	w.ok(err)
	return c, in, out
}

// TestFrames sends fragmented messages with control frames between them, some together with the handshake, octet by
// octet.
func TestFrames(t *testing.T) {
	t.Parallel()
	w := open(t)
	w.call = echo
	if _, _, out := w.raw("chat"); out.StatusCode != 400 {
		t.Error("another subprotocol:", out.StatusCode)
	}
	out, err := w.http.Client().Get(w.http.URL + "/ws")
	w.ok(err)
	_ = out.Body.Close()
	if out.StatusCode != 426 || out.Header.Get("Upgrade") != "websocket" {
		t.Error(out.StatusCode, out.Header)
	}
	c, in, head := w.raw("jmap")
	if head.StatusCode != 101 || head.Header.Get("Sec-Websocket-Accept") != "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" {
		t.Fatal(head.StatusCode, head.Header)
	}
	frame := func(first byte, text string) string {
		b := websocket.AppendMasked(nil, 0, []byte(text), [4]byte{1, 2, 3, 4})
		b[0] = first
		return string(b)
	}
	whole := frame(0x01, `{"@type":"Request",`) + frame(0x89, "ping") + frame(0x00, `"text":"pie`) +
		frame(0x80, `ces"}`) + frame(0x81, `{"@type":"Request","text":"next"}`)
	for i := range len(whole) {
		_, err := c.Write([]byte{whole[i]})
		w.ok(err)
	}
	r := websocket.Reader{Max: 1 << 20}
	var got []string
	for range 3 {
		op, payload, err := r.Next(in, nil)
		w.ok(err)
		got = append(got, fmt.Sprint(op, " ", string(payload)))
	}
	if got[0] != "10 ping" || !strings.Contains(got[1]+got[2], "pieces") || !strings.Contains(got[1]+got[2], "next") {
		t.Errorf("%q", got)
	}
	_, err = c.Write(websocket.AppendMasked(nil, websocket.Close, []byte{3, 232}, [4]byte{}))
	w.ok(err)
	if op, _, err := r.Next(in, nil); op != websocket.Close || err != nil {
		t.Error(op, err)
	}
	// A client that violates the protocol gets the right status code.
	c, in, _ = w.raw("jmap")
	_, err = c.Write(websocket.Append(nil, websocket.Text, []byte("{}")))
	w.ok(err)
	op, payload, err := r.Next(in, nil)
	if code, _, _ := websocket.ParseClose(payload); op != websocket.Close || err != nil || code != websocket.Protocol {
		t.Error(op, payload, err)
	}
}

func FuzzMessage(f *testing.F) {
	f.Add([]byte(`{"@type":"Request","id":"x","using":[],"methodCalls":[]}`))
	f.Add([]byte(`{"@type":"WebSocketPushEnable","dataTypes":["Email",null],"pushState":1}`))
	f.Add([]byte(`{"@type":1,"id":{}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		kind, id, v, problem := parseMessage(b)
		if (problem == nil) != (kind != "") || problem == nil && v == nil {
			t.Fatal(kind, problem)
		}
		if id != "" && !json.Valid([]byte(id)) {
			t.Fatal(id)
		}
	})
}

func FuzzTypes(f *testing.F) {
	f.Add("*")
	f.Add("Email,Mailbox")
	f.Add(",,")
	f.Fuzz(func(t *testing.T, s string) {
		if f, ok := parseTypes(s); ok && (len(f.names) > maxTypes || !f.all && f.none()) {
			t.Fatal(f)
		}
	})
}
