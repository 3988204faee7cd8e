package memory

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync"
	"time"

	"doublet/bus"
)

// maxHeld is the maximum number of bytes that one side of a stream may write before the other reads.
const maxHeld = 256 << 10

// Stream implements bus.Bus. The handler runs as a coroutine of the opener. When the opener reads, or has written more
// than maxHeld bytes, the handler runs until it waits for the opener. So a stream needs only one thread. Each side must
// be used by one goroutine.
func (b *Bus) Stream(ctx context.Context, id bus.ServerID, verb string, header []byte) (bus.Stream, error) {
	if err := bus.CheckVerb(verb); err != nil {
		return nil, err
	}
	if len(header) > bus.MaxHeader {
		return nil, fmt.Errorf("stream %s: a header of %d bytes: %w", verb, len(header), bus.ErrTooBig)
	}
	if _, err := b.mate(id, verb); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("stream %s: %w: %w", verb, bus.ErrNoServer, ctx.Err())
	}
	m := Message{Kind: StreamOpen, From: b.self, To: id, Verb: verb, Bytes: len(header)}
	to, err := b.n.target(m)
	if err != nil {
		return nil, err
	}
	if b.n.fate(&m) == Lose {
		return nil, fmt.Errorf("stream %s: %w of server %s: %w", verb, bus.ErrNoAnswer, id, context.DeadlineExceeded)
	}
	b.n.mu.Lock()
	fn := to.streams[verb]
	b.n.mu.Unlock()
	if fn == nil {
		return nil, &bus.RemoteError{Server: id, Verb: verb, Code: bus.CodeNoVerb,
			Text: "nobody serves streams of that verb here"}
	}
	p := &pipe{from: b, to: to, verb: verb}
	header = bytes.Clone(header)
	p.next, p.stop = iter.Pull(func(yield func(struct{}) bool) {
		ctx, cancel := context.WithCancel(to.ctx)
		defer cancel()
		h := &handlerEnd{p: p, yield: yield}
		err := fn(ctx, b.self, header, h)
		if err != nil && p.broken == nil {
			code, text := bus.Refusal(err)
			p.answered = &bus.RemoteError{Server: id, Verb: verb, Code: code, Text: text}
		}
		p.out.ended = true
	})
	p.resume()
	return &openerEnd{p: p}, nil
}

// pipe is a stream. mu ensures that only one of its two coroutines runs at a time.
type pipe struct {
	from, to *Bus
	verb     string
	mu       sync.Mutex
	next     func() (struct{}, bool)
	stop     func()

	in, out  half  // to the handler, and from it
	answered error // the handler's result
	broken   error // the connection was lost or closed early
	finished bool  // the handler has returned
}

type half struct {
	data  bytes.Buffer
	ended bool
}

var errStalled = errors.New("both sides of the stream wait for the other")

// resume runs the handler until it waits or returns.
func (p *pipe) resume() {
	if p.finished {
		return
	}
	if _, goesOn := p.next(); !goesOn {
		p.finished = true
	}
}

// lose breaks the stream.
func (p *pipe) lose(why error) error {
	if p.broken == nil {
		p.broken = fmt.Errorf("stream %s: %w: %w", p.verb, bus.ErrNoAnswer, why)
		if !p.finished {
			p.stop()
			p.finished = true
		}
	}
	return p.broken
}

// pass reports whether the policy delivers n bytes that one side writes.
func (p *pipe) pass(from, to *Bus, n int) bool {
	p.from.n.mu.Lock()
	down := from.closed || to.closed
	p.from.n.mu.Unlock()
	return !down && p.from.n.fate(&Message{Kind: StreamData, From: from.self, To: to.self, Verb: p.verb,
		Bytes: n}) != Lose
}

// openerEnd is the opener's side of a stream.
type openerEnd struct{ p *pipe }

func (o *openerEnd) Read(b []byte) (int, error) {
	p := o.p
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.broken == nil && p.out.data.Len() == 0 {
		p.resume()
	}
	switch {
	case p.broken != nil:
		return 0, p.broken
	case p.out.data.Len() > 0:
		return p.out.data.Read(b)
	case p.answered != nil:
		return 0, p.answered
	case p.out.ended:
		return 0, io.EOF
	}
	return 0, p.lose(errStalled)
}

func (o *openerEnd) Write(b []byte) (int, error) {
	p := o.p
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.broken != nil:
		return 0, p.broken
	case p.in.ended:
		return 0, fmt.Errorf("stream %s: write after its end", p.verb)
	case !p.pass(p.from, p.to, len(b)):
		return 0, p.lose(io.ErrUnexpectedEOF)
	case p.finished:
		return len(b), nil // the handler has returned
	}
	p.in.data.Write(b)
	for p.in.data.Len() > maxHeld && !p.finished {
		before := p.in.data.Len()
		p.resume()
		if p.broken != nil {
			return 0, p.broken
		}
		if !p.finished && p.in.data.Len() == before {
			return 0, p.lose(errStalled)
		}
	}
	return len(b), nil
}

func (o *openerEnd) CloseWrite() error {
	p := o.p
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.broken != nil {
		return p.broken
	}
	p.in.ended = true
	p.resume()
	return p.broken
}

func (o *openerEnd) Close() error {
	p := o.p
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.finished {
		_ = p.lose(errors.New("closed"))
	}
	return nil
}

// handlerEnd is the handler's side. It runs while the opener holds pipe.mu.
type handlerEnd struct {
	p     *pipe
	yield func(struct{}) bool
}

func (h *handlerEnd) Read(b []byte) (int, error) {
	p := h.p
	for p.in.data.Len() == 0 {
		if p.broken != nil {
			return 0, p.broken
		}
		if p.in.ended {
			return 0, io.EOF
		}
		h.yield(struct{}{}) // false: the stream is broken
	}
	return p.in.data.Read(b)
}

func (h *handlerEnd) Write(b []byte) (int, error) {
	p := h.p
	if p.broken != nil {
		return 0, p.broken
	}
	if p.out.ended {
		return 0, fmt.Errorf("stream %s: write after its end", p.verb)
	}
	if !p.pass(p.to, p.from, len(b)) {
		p.broken = fmt.Errorf("stream %s: %w: %w", p.verb, bus.ErrNoAnswer, io.ErrUnexpectedEOF)
		return 0, p.broken
	}
	p.out.data.Write(b)
	for p.out.data.Len() > maxHeld {
		if h.yield(struct{}{}); p.broken != nil {
			return len(b), p.broken
		}
	}
	return len(b), nil
}

func (h *handlerEnd) CloseWrite() error {
	h.p.out.ended = true
	return h.p.broken
}

func (h *handlerEnd) Close() error { return h.CloseWrite() }

// Deadlines have no effect, because nothing takes time here.

func (o *openerEnd) SetDeadline(time.Time) error       { return nil }
func (o *openerEnd) SetReadDeadline(time.Time) error   { return nil }
func (o *openerEnd) SetWriteDeadline(time.Time) error  { return nil }
func (h *handlerEnd) SetDeadline(time.Time) error      { return nil }
func (h *handlerEnd) SetReadDeadline(time.Time) error  { return nil }
func (h *handlerEnd) SetWriteDeadline(time.Time) error { return nil }
