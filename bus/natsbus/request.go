package natsbus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"doublet/bus"
	"doublet/bus/direct"
	"doublet/env"
)

// asking holds the requests of this server over a link that it opened.
type asking struct {
	link  *direct.Link
	seals seals
	last  atomic.Uint64

	mu    sync.Mutex
	waits map[uint64]*wait
}

// wait is a request without an answer.
type wait struct {
	back    chan []byte   // receives the decrypted answer
	unheard chan struct{} // receives when NATS reports that the request had no receiver
	// late is set when the asker has given up. bytes is the credit that the request still holds.
	late    bool
	bytes   int64
	credits *bus.Credits
}

// serving holds the requests of a mate over a link that the mate opened.
type serving struct {
	link   *direct.Link
	seals  seals
	ctx    context.Context
	cancel context.CancelFunc
	busy   atomic.Int64

	mu   sync.Mutex
	seen window
}

// buffers holds buffers to build messages in.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// Request implements bus.Bus.
func (b *Bus) Request(ctx context.Context, to bus.ServerID, verb string, body []byte) ([]byte, error) {
	if err := errors.Join(bus.CheckVerb(verb), bus.CheckBody(verb, body)); err != nil {
		return nil, err
	}
	b.mu.RLock()
	m, closed := b.mates[to], b.closed
	b.mu.RUnlock()
	switch {
	case closed:
		return nil, bus.ErrClosed
	case m == nil:
		return nil, fmt.Errorf("%s: %w: %s is no member", verb, bus.ErrNoServer, to)
	}
	credits, cost := m.credits, int64(len(body))
	if taken, _ := credits.InFlight(); taken >= b.o.Grant.Requests {
		b.stats.waited.Inc()
	}
	if err := credits.Take(ctx, cost); err != nil {
		if errors.Is(err, bus.ErrNoServer) || errors.Is(err, bus.ErrClosed) {
			return nil, fmt.Errorf("%s: %w", verb, err)
		}
		return nil, fmt.Errorf("%s: %w: no credit for server %s: %w", verb, bus.ErrNoServer, to, err)
	}
	start := b.env.Clock.Now()
	keeps := false
	defer func() {
		if !keeps {
			credits.Give(cost)
		}
	}()
	l, err := b.port.Link(ctx, to)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", verb, err)
	}
	out, err := b.ask(ctx, l, verb, body, &keeps, credits)
	if err == nil {
		b.stats.took.Observe(int64(b.env.Clock.Now().Sub(start)))
	}
	return out, err
}

// errUnheard means that the link is open but NATS has no route. The report of NATS is not authenticated, so the request
// may have arrived.
var errUnheard = errors.New("connected, but NATS has no route to it")

// ask sends one request over a link. It sets keeps if the answer may still come; then the credit is returned later.
func (b *Bus) ask(ctx context.Context, l *direct.Link, verb string, body []byte, keeps *bool,
	credits *bus.Credits) ([]byte, error) {
	b.mu.RLock()
	a := b.asking[l.Keys.ID]
	b.mu.RUnlock()
	if a == nil {
		return nil, fmt.Errorf("%s: %w: %s: %w", verb, bus.ErrNoServer, l.Peer.ID, l.Err())
	}
	w := &wait{back: make(chan []byte, 1), unheard: make(chan struct{}, 1), bytes: int64(len(body)), credits: credits}
	h := messageHead{kind: kindAsk, link: l.Keys.ID, number: a.last.Add(1)}
	a.mu.Lock()
	a.waits[h.number] = w
	a.mu.Unlock()
	defer func() {
		if !*keeps {
			a.forget(h.number)
		}
	}()
	left := env.TimeLeft(ctx)
	if err := b.send(a, h, left, verb, body); err != nil {
		return nil, fmt.Errorf("%s: %w", verb, err)
	}
	b.stats.asked.Inc()
	start := b.env.Clock.Now()
	none := func(why error) ([]byte, error) {
		b.stats.noAnswer.Inc()
		return nil, fmt.Errorf("%s: %w of server %s: %w", verb, bus.ErrNoAnswer, l.Peer.ID, why)
	}
	for again := (<-chan time.Time)(nil); ; {
		select {
		case plain := <-w.back:
			return parseAnswer(plain, l.Peer.ID, verb)
		case <-w.unheard:
			if b.env.Clock.Now().Sub(start) > settle {
				return none(errUnheard)
			}
			again = b.env.Clock.After(settlePause)
		case <-again:
			// The same message with the same number: if the first arrived after all, the receiver drops the second.
			if err := b.send(a, h, left, verb, body); err != nil {
				return none(err)
			}
		case <-l.Done():
			return none(l.Err())
		case <-b.ctx.Done():
			return none(bus.ErrClosed)
		case <-ctx.Done():
			*keeps = a.leave(h.number)
			if *keeps {
				b.env.Clock.AfterFunc(lateAnswer, func() { a.expire(h.number) })
			}
			return none(ctx.Err())
		}
	}
}

// send encrypts a request and passes it to NATS. The number is the nonce, so a number must never be used for two
// different messages.
func (b *Bus) send(a *asking, h messageHead, left time.Duration, verb string, body []byte) error {
	buffer := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	m := seal(a.seals.ask, appendAsk(h.append((*buffer)[:0]), left, verb, body))
	*buffer = m
	b.stats.sent.Add(uint64(len(m)))
	var heads *messageHead
	if h.kind == kindAsk {
		heads = &h
	}
	return b.carrier.send(a.link.Peer.ID, m, heads)
}

func (a *asking) forget(number uint64) {
	a.mu.Lock()
	delete(a.waits, number)
	a.mu.Unlock()
}

// leave marks a request as abandoned. It returns false if the answer is there already or can no longer come.
func (a *asking) leave(number uint64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	w := a.waits[number]
	if w == nil || len(w.back) > 0 || a.link.Err() != nil {
		return false
	}
	w.late = true
	return true
}

// expire returns the credit of an abandoned request without an answer after lateAnswer.
func (a *asking) expire(number uint64) {
	a.mu.Lock()
	w := a.waits[number]
	if w == nil || !w.late {
		a.mu.Unlock()
		return
	}
	delete(a.waits, number)
	a.mu.Unlock()
	w.credits.Give(w.bytes)
}

// forgetLate returns the credits of all abandoned requests: the link is closed, so no answers can come.
func (a *asking) forgetLate() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for number, w := range a.waits {
		if w.late {
			delete(a.waits, number)
			w.credits.Give(w.bytes)
		}
	}
}

// heard processes a message from NATS.
func (b *Bus) heard(m []byte) {
	h, err := parseHead(m)
	if err != nil {
		b.stats.refused.Inc()
		return
	}
	b.stats.received.Add(uint64(len(m)))
	switch h.kind {
	case kindAsk, kindTell:
		b.mu.RLock()
		v := b.serving[h.link]
		if v != nil && !b.closed {
			b.running.Add(1) // under mu, so that Close cannot be in Wait
		} else {
			v = nil
		}
		b.mu.RUnlock()
		if v == nil {
			b.stats.refused.Inc()
			return
		}
		b.take(v, h, m)
	case kindAnswer:
		b.mu.RLock()
		a := b.asking[h.link]
		b.mu.RUnlock()
		if a == nil || !b.answered(a, h.number, m) {
			b.stats.refused.Inc()
		}
	default:
		b.stats.refused.Inc()
	}
}

// answered decrypts an answer and passes it to the waiting asker. It returns false if nobody waits or the answer is
// forged. A forged answer leaves the request waiting for the real one.
func (b *Bus) answered(a *asking, number uint64, m []byte) bool {
	if !a.waiting(number) {
		return false
	}
	plain, err := unseal(a.seals.answer, m)
	if err != nil {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	w := a.waits[number]
	if w == nil {
		return false
	}
	if !w.late {
		select {
		case w.back <- plain:
			return true
		default:
			return false // a duplicate
		}
	}
	delete(a.waits, number)
	w.credits.Give(w.bytes)
	return true
}

func (a *asking) waiting(number uint64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.waits[number] != nil
}

// unheard processes a report that a request had no receiver. The report may be forged.
func (b *Bus) unheard(link linkID, number uint64) {
	b.mu.RLock()
	a := b.asking[link]
	b.mu.RUnlock()
	if a == nil {
		return
	}
	a.mu.Lock()
	w := a.waits[number]
	a.mu.Unlock()
	if w != nil {
		select {
		case w.unheard <- struct{}{}:
		default:
		}
	}
}

// take decrypts a request and starts its handler. It rejects requests beyond twice the mate's grant, because the mate's
// credits should prevent them. Only authentic messages count, so forged or replayed messages cannot use up the grant.
// The caller has added one to running.
func (b *Bus) take(v *serving, h messageHead, m []byte) {
	q, err := b.open(v, h, m)
	if err != nil {
		b.running.Done()
		return
	}
	if v.busy.Add(1) > int64(2*b.o.Grant.Requests) {
		defer b.running.Done()
		defer v.busy.Add(-1)
		if h.kind == kindAsk {
			b.refuse(v, h.number, bus.Refuse(bus.CodeBusy, fmt.Sprintf("more than %d requests at one time",
				2*b.o.Grant.Requests)))
		}
		return
	}
	b.env.Go("bus request", func() {
		defer b.running.Done()
		defer v.busy.Add(-1)
		b.serve(v, h, q)
	})
}

// question is a decrypted request or broadcast from a mate.
type question struct {
	left time.Duration // time until the asker's deadline; 0: none
	verb string
	body []byte
}

// open decrypts a request. It accepts each number once.
func (b *Bus) open(v *serving, h messageHead, m []byte) (q question, err error) {
	plain, err := unseal(v.seals.ask, m)
	if err == nil {
		v.mu.Lock()
		if !v.seen.take(h.number) {
			err = errReplay
		}
		v.mu.Unlock()
	}
	if err == nil && !b.env.Clock.Now().Before(v.link.Peer.Until) {
		err = errors.New("certificate expired")
		v.link.Fail(err)
	}
	if err == nil {
		q.left, q.verb, q.body, err = parseAsk(plain)
	}
	if err != nil {
		b.stats.refused.Inc()
		b.env.Log.Log(b.ctx, b.quiet.Level(slog.LevelWarn), "a message on the bus was refused", "of",
			v.link.Peer.ID.String(), "error", err)
	}
	return q, err
}

// serve runs the handler of one request and sends the answer.
func (b *Bus) serve(v *serving, h messageHead, q question) {
	b.mu.RLock()
	fn := b.handlers[q.verb]
	b.mu.RUnlock()
	ctx, cancel := v.ctx, context.CancelFunc(func() {})
	if q.left > 0 {
		ctx, cancel = context.WithTimeout(ctx, q.left)
	}
	defer cancel()
	var out []byte
	var err error
	switch {
	case fn == nil:
		err = bus.Refuse(bus.CodeNoVerb, "nobody handles "+q.verb+" here")
	case ctx.Err() != nil:
		return // the asker has given up or is gone
	default:
		out, err = fn(ctx, v.link.Peer.ID, q.body)
	}
	if h.kind == kindTell {
		b.stats.heard.Inc()
		return
	}
	b.stats.served.Inc()
	switch {
	case err == nil && len(out) <= bus.MaxBody:
		b.answer(v, h.number, func(m []byte) []byte { return appendDone(m, out) })
	case err == nil:
		b.refuse(v, h.number, bus.Refuse(bus.CodeTooBig, fmt.Sprintf("the answer has %d bytes, at most %d", len(out),
			bus.MaxBody)))
	case v.ctx.Err() != nil:
		b.answer(v, h.number, func(m []byte) []byte { return append(m, statusClosing) })
	case ctx.Err() != nil:
		b.answer(v, h.number, func(m []byte) []byte { return append(m, statusLate) })
	default:
		b.refuse(v, h.number, err)
	}
}

// refuse sends an error as the answer.
func (b *Bus) refuse(v *serving, number uint64, err error) {
	code, text := bus.Refusal(err)
	b.answer(v, number, func(m []byte) []byte { return appendRefusal(m, code, text) })
}

// answer encrypts an answer and passes it to NATS. A number must be answered only once, because it is the nonce.
func (b *Bus) answer(v *serving, number uint64, body func([]byte) []byte) {
	buffer := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	h := messageHead{kind: kindAnswer, link: v.link.Keys.ID, number: number}
	m := seal(v.seals.answer, body(h.append((*buffer)[:0])))
	*buffer = m
	b.stats.sent.Add(uint64(len(m)))
	if err := b.carrier.send(v.link.Peer.ID, m, nil); err != nil {
		b.env.Log.Debug("answer not sent", "to", v.link.Peer.ID.String(), "error", err)
	}
}

// Broadcast implements bus.Bus.
func (b *Bus) Broadcast(verb string, body []byte) error {
	if err := errors.Join(bus.CheckVerb(verb), bus.CheckBody(verb, body)); err != nil {
		return err
	}
	b.mu.RLock()
	if b.closed {
		b.mu.RUnlock()
		return bus.ErrClosed
	}
	to := make([]*asking, 0, len(b.asking))
	for _, a := range b.asking {
		to = append(to, a)
	}
	b.mu.RUnlock()
	for _, a := range to {
		h := messageHead{kind: kindTell, link: a.link.Keys.ID, number: a.last.Add(1)}
		if err := b.send(a, h, 0, verb, body); err != nil {
			b.env.Log.Debug("broadcast not sent", "to", a.link.Peer.ID.String(), "error", err)
			continue
		}
		b.stats.told.Inc()
	}
	return nil
}
