package push

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"doublet/wire/jmap"
)

// The bounds of a ping interval in seconds. Requested values outside are clamped.
const (
	minPing = 10
	maxPing = 600
)

// Bounds of a client's request.
const (
	maxTypes    = 100
	maxTypeName = 100
	maxToken    = 64
)

// Events serves an event stream.
//
// Implements: RFC 8620 §7.3 Event source
func (p *Service) Events(w http.ResponseWriter, r *http.Request, c Caller) {
	ask, problem := parseEvents(r)
	if problem != nil {
		refuse(w, problem)
		return
	}
	s := &subscriber{p: p, caller: c, types: ask.types}
	if problem = p.enter(s); problem != nil {
		refuse(w, problem)
		return
	}
	// Watch the accounts before responding, so that the client misses no change after it sees the stream open.
	first, err := s.begin(r.Context(), ask.token)
	if err != nil {
		p.leave(s)
		refuse(w, p.problem(s, err))
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // otherwise buffering proxies would delay the events
	now := p.env.Clock.Now()
	x := &stream{s: s, ask: ask, pace: pacer{ping: time.Duration(ask.ping) * time.Second, last: now}}
	nc, _, ok := take(p.env, w, p.stats.slow.Inc)
	if !ok {
		defer p.leave(s)
		p.shared(w, r.Context(), x, first)
		return
	}
	h.Set("Date", now.UTC().Format(http.TimeFormat))
	head := bytes.NewBufferString("HTTP/1.1 200 OK\r\nConnection: close\r\n")
	_ = h.Write(head)
	head.WriteString("\r\n")
	s.wakeWith(nc.wake)
	// The goroutine of net/http ends with this call and frees its buffers.
	p.env.Go("push events", func() {
		defer p.leave(s)
		defer nc.Close()
		if nc.send(head.Bytes()) == nil {
			head = nil
			p.alone(nc, x, first)
		}
	})
}

// problem converts an error that keeps a client from being served into a problem.
func (p *Service) problem(s *subscriber, err error) *jmap.Problem {
	if refused(err) {
		return &jmap.Problem{Type: jmap.ProblemBlank, Status: http.StatusForbidden, Title: "Forbidden",
			Detail: "The account may not be used."}
	}
	p.trouble(s, err)
	return &jmap.Problem{Type: jmap.ProblemBlank, Status: http.StatusServiceUnavailable, Title: "Service Unavailable",
		Detail: "The states cannot be read now."}
}

// events holds the parameters of an event stream.
type events struct {
	types filter
	once  bool   // close the stream after the first state
	ping  int    // seconds
	token string // Last-Event-ID: the token of the states that the client has seen
}

func parseEvents(r *http.Request) (e events, problem *jmap.Problem) {
	bad := func(what string) (events, *jmap.Problem) {
		return e, &jmap.Problem{Type: jmap.ProblemBlank, Status: http.StatusBadRequest, Title: "Bad Request",
			Detail: what}
	}
	q := r.URL.Query()
	var ok bool
	if e.types, ok = parseTypes(q.Get("types")); !ok {
		return bad("types is neither * nor a list of types.")
	}
	switch q.Get("closeafter") {
	case "no", "":
	case "state":
		e.once = true
	default:
		return bad("closeafter is neither state nor no.")
	}
	if text := q.Get("ping"); text != "" {
		n, err := strconv.ParseUint(text, 10, 53)
		if err != nil {
			return bad("ping is no number of seconds.")
		}
		if n > 0 {
			e.ping = int(min(max(n, minPing), maxPing))
		}
	}
	if e.token = r.Header.Get("Last-Event-Id"); len(e.token) > maxToken {
		e.token = e.token[:maxToken]
	}
	return e, nil
}

// parseTypes parses a comma-separated list of types. "" and "*" mean all.
func parseTypes(text string) (f filter, ok bool) {
	if text == "" || text == "*" {
		return filter{all: true}, true
	}
	for n := range strings.SplitSeq(text, ",") {
		if !validType(n) || len(f.names) == maxTypes {
			return f, false
		}
		f.names = append(f.names, n)
	}
	return f, true
}

// validType reports whether a name is a valid type name.
func validType(name string) bool {
	return name != "" && len(name) <= maxTypeName && strings.Trim(name,
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") == ""
}

// refuse responds with a problem.
func refuse(w http.ResponseWriter, p *jmap.Problem) {
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	if p.Status == http.StatusTooManyRequests || p.Status == http.StatusServiceUnavailable {
		h.Set("Retry-After", "10")
	}
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(p.Append([]byte{'{'}), '}'))
}

// appendState appends a state event.
func appendState(dst []byte, token string, list []change) []byte {
	dst = append(append(append(dst, "event: state\nid: "...), token...), "\ndata: "...)
	return append(appendChange(dst, list), "}\n\n"...)
}

func appendPing(dst []byte, seconds int) []byte {
	dst = strconv.AppendInt(append(dst, "event: ping\ndata: {\"interval\":"...), int64(seconds), 10)
	return append(dst, "}\n\n"...)
}

// errOnce ends a stream with closeafter=state.
var errOnce = errors.New("push: already notified")

// stream is an event stream in progress. write sends events to its client.
type stream struct {
	s     *subscriber
	ask   events
	pace  pacer
	write func([]byte) error
}

func (x *stream) tell(list []change) error {
	if len(list) == 0 {
		return nil
	}
	if err := x.write(appendState(nil, x.s.token(), list)); err != nil {
		return err
	}
	x.s.p.stats.sent.Inc()
	x.pace.told(x.s.p.env.Clock.Now())
	if x.ask.once {
		return errOnce
	}
	return nil
}

// turn sends the push and the ping that are due.
func (x *stream) turn(ctx context.Context) error {
	if x.s.over.Load() {
		return errClosing
	}
	now := x.s.p.env.Clock.Now()
	if err := x.s.push(ctx, &x.pace, now, x.tell); err != nil {
		return err
	}
	if x.pace.due(now) {
		if err := x.write(appendPing(nil, x.ask.ping)); err != nil {
			return err
		}
		x.pace.last = now
	}
	return nil
}

// trouble logs an internal error, unless the server is stopping.
func (p *Service) trouble(s *subscriber, err error) {
	if p.ctx.Err() == nil {
		p.env.Log.Warn("push: cannot read states", "person", s.caller.Name, "error", err)
	}
}

// alone serves a stream on a hijacked connection.
func (p *Service) alone(nc *conn, x *stream, first []change) {
	x.write = nc.send
	if err := x.tell(first); err != nil {
		return
	}
	// Ignore what the client sends. Close the connection after 4096 octets.
	var ignored [64]byte
	for total := 0; total < 4096; {
		n, err := nc.await(x.pace.until(x.s.moved()), ignored[:])
		total += n
		if err != nil && !errors.Is(err, errWoken) && !errors.Is(err, errTimeout) {
			return
		}
		if err := x.turn(p.ctx); err != nil {
			return
		}
	}
}

// shared serves a stream on a connection that other requests share (HTTP/2).
func (p *Service) shared(w http.ResponseWriter, ctx context.Context, x *stream, first []change) {
	news := make(chan struct{}, 1)
	x.s.wakeWith(func() {
		select {
		case news <- struct{}{}:
		default:
		}
	})
	out := http.NewResponseController(w)
	x.write = func(b []byte) error {
		_ = out.SetWriteDeadline(p.env.Clock.Now().Add(writeTime))
		_, err := w.Write(b)
		return errors.Join(err, out.Flush())
	}
	w.WriteHeader(http.StatusOK)
	if out.Flush() != nil || x.tell(first) != nil {
		return
	}
	for {
		var timer <-chan time.Time
		if t := x.pace.until(x.s.moved()); !t.IsZero() {
			timer = p.env.Clock.After(max(0, t.Sub(p.env.Clock.Now())))
		}
		select {
		case <-news:
		case <-timer:
		case <-ctx.Done():
			return
		}
		if err := x.turn(ctx); err != nil {
			return
		}
	}
}
