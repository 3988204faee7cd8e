package push

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"doublet/note"
	"doublet/wire/jmap"
	"doublet/wire/websocket"
)

// Subprotocol is the name of the WebSocket subprotocol (RFC 8887 section 4.1).
const Subprotocol = "jmap"

const (
	// messageTime is the timeout for receiving a message after its first octets.
	messageTime = time.Minute
	// lingering bounds the wait for the client after a Close frame, and lingered the octets that are read meanwhile.
	lingering, lingered = time.Second, 1 << 20
	// pingEvery is the interval of pings on an idle WebSocket. Without them, proxies and NATs drop the connection.
	pingEvery = 4 * time.Minute
)

// readers pools buffers for reading messages. An idle WebSocket has none.
var readers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, 4096) }}

// WebSocket serves a WebSocket.
//
// Implements: RFC 8887 §4.1 Handshake
func (p *Service) WebSocket(w http.ResponseWriter, r *http.Request, c Caller) {
	if err := websocket.CheckUpgrade(r, Subprotocol); err != nil {
		w.Header().Set("Sec-WebSocket-Version", "13")
		status := http.StatusBadRequest
		if errors.Is(err, websocket.ErrNoUpgrade) || errors.Is(err, websocket.ErrVersion) {
			w.Header().Set("Upgrade", "websocket")
			status = http.StatusUpgradeRequired
		}
		refuse(w, &jmap.Problem{Type: jmap.ProblemBlank, Status: status, Title: http.StatusText(status),
			Detail: err.Error()})
		return
	}
	s := &subscriber{p: p, caller: c}
	if problem := p.enter(s); problem != nil {
		refuse(w, problem)
		return
	}
	accept := websocket.Accept(r.Header.Get("Sec-Websocket-Key"))
	nc, early, ok := take(p.env, w, p.stats.slow.Inc)
	if !ok {
		p.leave(s)
		refuse(w, &jmap.Problem{Type: jmap.ProblemBlank, Status: http.StatusUpgradeRequired, Title: "Upgrade Required",
			Detail: "A WebSocket needs a connection of HTTP/1.1."})
		return
	}
	s.wakeWith(nc.wake)
	p.env.Go("push websocket", func() {
		defer p.leave(s)
		x := &socket{s: s, conn: nc, read: websocket.Reader{Masked: true, Max: int(p.opt.Request)}}
		x.serve(accept, early)
	})
}

// socket is a WebSocket in progress. Requests run concurrently. One goroutine per client reads and pushes.
type socket struct {
	s    *subscriber
	conn *conn
	pace pacer
	read websocket.Reader

	pushing bool // push is enabled
	working sync.WaitGroup
	slots   chan struct{} // bounds concurrent requests; made with the first one

	mu sync.Mutex // held during a write
}

// errLeft is returned when the client has sent a Close frame.
var errLeft = errors.New("push: the client has left")

func (x *socket) serve(accept string, early []byte) {
	ctx, cancel := context.WithCancel(x.s.p.work)
	err := x.conn.send([]byte("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
		"Sec-WebSocket-Protocol: " + Subprotocol + "\r\nSec-WebSocket-Accept: " + accept + "\r\n\r\n"))
	x.pace = pacer{ping: pingEvery, last: x.s.p.env.Clock.Now()}
	var first [256]byte
	if err == nil && len(early) > 0 {
		err = x.take(ctx, early)
	}
	for err == nil {
		var n int
		n, err = x.conn.await(x.pace.until(x.wants()), first[:])
		switch {
		case n > 0:
			err = x.take(ctx, first[:n])
		case errors.Is(err, errWoken), errors.Is(err, errTimeout):
			err = nil
		}
		if err == nil {
			err = x.turn(ctx)
		}
	}
	if errors.Is(err, errClosing) {
		x.working.Wait() // wait for the responses to requests in progress
	}
	cancel()
	x.goodbye(err)
	_ = x.conn.Close()
	x.working.Wait()
}

// wants reports whether there may be something to do for the client.
func (x *socket) wants() bool {
	return x.s.over.Load() || x.s.stale.Load() || x.pushing && x.s.moved()
}

// goodbye sends a Close frame with the reason, if the client may still read it.
func (x *socket) goodbye(err error) {
	var e *websocket.Error
	code, reason := websocket.Normal, ""
	switch {
	case errors.As(err, &e):
		code, reason = e.Code, e.Reason
	case errors.Is(err, errClosing):
		code, reason = websocket.GoingAway, "the server stops, or nobody is signed in any more"
	case refused(err):
		code, reason = websocket.Policy, "nobody is signed in any more"
	case !errors.Is(err, errLeft):
		return // the connection is broken
	}
	if x.write(websocket.AppendClose(nil, code, reason)) != nil {
		return
	}
	// Read and drop what the client still sends. Closing with unread data would reset the connection and lose the Close
	// frame.
	if x.conn.SetReadDeadline(x.s.p.env.Clock.Now().Add(lingering)) == nil {
		_, _ = io.CopyN(io.Discard, x.conn, lingered)
	}
}

// write sends one frame, in one or more pieces.
func (x *socket) write(pieces ...[]byte) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, b := range pieces {
		if err := x.conn.send(b); err != nil {
			return err
		}
	}
	return nil
}

func (x *socket) text(b []byte) error { return x.write(websocket.Append(nil, websocket.Text, b)) }

// turn sends the push and the ping that are due.
//
// Implements: RFC 8887 §4.3.5 JMAP push notifications
func (x *socket) turn(ctx context.Context) error {
	if x.s.over.Load() {
		return errClosing
	}
	if !x.pushing && x.s.stale.Swap(false) {
		if err := x.s.good(ctx); refused(err) {
			return err
		}
	}
	now := x.s.p.env.Clock.Now()
	if x.pushing {
		if err := x.s.push(ctx, &x.pace, now, x.tell); err != nil {
			return err
		}
	}
	if x.pace.due(now) {
		x.pace.last = now
		return x.write(websocket.Append(nil, websocket.Ping, nil))
	}
	return nil
}

func (x *socket) tell(list []change) error {
	if len(list) == 0 {
		return nil
	}
	b := append(appendChange(nil, list), `,"pushState":"`...)
	b = append(append(b, x.s.token()...), `"}`...)
	if err := x.text(b); err != nil {
		return err
	}
	x.s.p.stats.sent.Inc()
	x.pace.told(x.s.p.env.Clock.Now())
	return nil
}

// metered counts the memory reserved for messages.
type metered struct {
	p      *Service
	person note.UNID
	taken  int64
}

func (m *metered) room(n int) bool {
	if !m.p.opt.Take(m.person, int64(n)) {
		return false
	}
	m.taken += int64(n)
	return true
}

func (m *metered) give() {
	m.p.opt.Give(m.person, m.taken)
	m.taken = 0
}

// take reads the messages that begin with the octets in begun, and handles them.
func (x *socket) take(ctx context.Context, begun []byte) error {
	p := x.s.p
	r := readers.Get().(*bufio.Reader)
	defer func() { r.Reset(nil); readers.Put(r) }()
	r.Reset(io.MultiReader(bytes.NewReader(begun), x.conn))
	for {
		if err := x.conn.SetReadDeadline(p.env.Clock.Now().Add(messageTime)); err != nil {
			return err
		}
		m := &metered{p: p, person: x.s.caller.Who.Person}
		x.read.Room = m.room
		op, payload, err := x.read.Next(r, nil)
		if err == nil {
			err = x.message(ctx, op, payload, m)
		} else {
			m.give()
		}
		if err != nil {
			return err
		}
		// Continue with a message that has begun. Otherwise wait for the next one without a buffer.
		if r.Buffered() == 0 && !x.read.Pending() {
			return nil
		}
		if err := x.turn(ctx); err != nil {
			return err
		}
	}
}

// message handles a message. It releases the reserved memory when done.
func (x *socket) message(ctx context.Context, op websocket.Opcode, payload []byte, m *metered) error {
	if op == websocket.Text {
		return x.object(ctx, payload, m)
	}
	m.give()
	switch op {
	case websocket.Ping:
		return x.write(websocket.Append(nil, websocket.Pong, payload))
	case websocket.Pong:
		return nil
	case websocket.Close:
		if _, _, err := websocket.ParseClose(payload); err != nil {
			return err
		}
		return errLeft
	}
	return &websocket.Error{Code: websocket.Unsupported, Reason: "only texts are messages here"}
}

// object handles a text message.
//
// Implements: RFC 8887 §4.2 WebSocket subprotocol
// Implements: RFC 8887 §4.3 Message types
func (x *socket) object(ctx context.Context, payload []byte, m *metered) error {
	if !m.room(int(jmap.ParseCost(payload))) {
		m.give()
		return x.requestError("", &jmap.Problem{Type: jmap.ProblemBlank, Status: http.StatusServiceUnavailable,
			Title: "Service Unavailable", Detail: "The memory for requests is in use. Try again later."})
	}
	kind, id, v, problem := parseMessage(payload)
	if problem != nil {
		m.give()
		return x.requestError(id, problem)
	}
	// After a sign-out or a change of password no more requests are executed.
	if err := x.s.good(ctx); err != nil {
		m.give()
		if refused(err) {
			return err
		}
		x.s.p.trouble(x.s, err)
		return x.requestError(id, &jmap.Problem{Type: jmap.ProblemBlank, Status: http.StatusServiceUnavailable,
			Title: "Service Unavailable"})
	}
	switch kind {
	case "WebSocketPushEnable":
		m.give()
		return x.enable(ctx, v)
	case "WebSocketPushDisable":
		m.give()
		x.pushing = false
		x.s.setFilter(filter{})
		return nil
	}
	return x.request(ctx, id, payload, m)
}

// parseMessage returns the @type of a message. id is its id as JSON, or "".
func parseMessage(payload []byte) (kind, id string, v *jmap.Value, problem *jmap.Problem) {
	v, err := jmap.Parse(string(payload), jmap.Bounds{})
	if errors.Is(err, jmap.ErrBounds) {
		return "", "", nil, &jmap.Problem{Type: jmap.ProblemLimit, Status: http.StatusBadRequest,
			Limit:  "maxSizeRequest",
			Detail: "The message holds more values, or nests them deeper, than this server reads."}
	}
	if err != nil {
		return "", "", nil, &jmap.Problem{Type: jmap.ProblemNotJSON, Status: http.StatusBadRequest,
			Detail: "The message is " + err.Error() + "."}
	}
	if text, ok := v.Get("id").Text(); ok {
		id = string(jmap.AppendString(nil, text))
	}
	kind, _ = v.Get("@type").Text()
	switch kind {
	case "Request", "WebSocketPushEnable", "WebSocketPushDisable":
		return kind, id, v, nil
	}
	return "", id, nil, &jmap.Problem{Type: jmap.ProblemNotRequest, Status: http.StatusBadRequest,
		Detail: "The message has no @type that is known here."}
}

// enable starts pushing.
//
// Implements: RFC 8887 §4.3.5.2 WebSocketPushEnable
func (x *socket) enable(ctx context.Context, v *jmap.Value) error {
	f := filter{all: true}
	if types := v.Get("dataTypes"); !types.IsNull() {
		f = filter{}
		for i := range types.Len() {
			n, ok := types.At(i).Text()
			if !ok || !validType(n) || len(f.names) == maxTypes {
				return x.requestError("", &jmap.Problem{Type: jmap.ProblemNotRequest, Status: http.StatusBadRequest,
					Detail: "dataTypes is no list of types."})
			}
			f.names = append(f.names, n)
		}
		if types.Kind() != jmap.Array {
			return x.requestError("", &jmap.Problem{Type: jmap.ProblemNotRequest, Status: http.StatusBadRequest,
				Detail: "dataTypes is neither null nor a list of types."})
		}
	}
	token, _ := v.Get("pushState").Text()
	x.s.setFilter(f)
	x.pushing = true
	list, err := x.s.begin(ctx, token[:min(len(token), maxToken)])
	if refused(err) {
		return err
	}
	if err != nil {
		x.s.p.trouble(x.s, err)
	}
	return x.tell(list)
}

// request executes a Request object in the background, so that the client can send more meanwhile. It blocks while the
// maximum number is in progress.
func (x *socket) request(ctx context.Context, id string, payload []byte, m *metered) error {
	if x.slots == nil {
		x.slots = make(chan struct{}, x.s.p.opt.Requests)
	}
	select {
	case x.slots <- struct{}{}:
	case <-ctx.Done():
		m.give()
		return errClosing
	}
	caller := x.s.caller // a copy, because each request refreshes its caller
	x.working.Add(1)
	x.s.p.env.Go("push request", func() {
		defer x.working.Done()
		defer func() { <-x.slots }()
		defer m.give()
		answer, problem := x.s.p.src.Call(ctx, &caller, payload)
		m.give()
		if problem != nil {
			_ = x.requestError(id, problem)
			return
		}
		defer answer.Release()
		_ = x.response(id, answer.JSON)
	})
	return nil
}

// response sends a Response object: out with the members that the WebSocket protocol adds.
//
// Implements: RFC 8887 §4.3.2 Response
func (x *socket) response(id string, out []byte) error {
	head := `{"@type":"Response",`
	if id != "" {
		head += `"requestId":` + id + `,`
	}
	// Do not copy out, which may be large and is counted only once.
	begin := websocket.AppendHeader(make([]byte, 0, len(head)+16), websocket.Text, len(head)+len(out)-1)
	return x.write(append(begin, head...), out[1:])
}

// requestError sends a RequestError object.
//
// Implements: RFC 8887 §4.3.3 RequestError
func (x *socket) requestError(id string, p *jmap.Problem) error {
	if id == "" {
		id = "null"
	}
	b := []byte(`{"@type":"RequestError","requestId":` + id + `,`)
	return x.text(append(p.Append(b), '}'))
}
