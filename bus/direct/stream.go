package direct

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"doublet/bus"
	"doublet/env"
)

// stream is one end of a stream. A connection carries one stream after another. Each side ends a stream with frameEnd;
// after both, the next stream may be opened.
type stream struct {
	conn net.Conn
	r    *bufio.Reader
	peer bus.ServerID
	verb string
	done func(reusable bool) // called once, by Close

	reading sync.Mutex
	left    int   // unread bytes of the current data frame
	ended   error // result of Read from now on: io.EOF or an error

	writing sync.Mutex
	buffer  []byte
	wrote   bool // frameEnd or frameRefuse was sent

	closing sync.Once
}

func newStream(conn net.Conn, r *bufio.Reader, peer bus.ServerID, verb string, done func(bool)) *stream {
	return &stream{conn: conn, r: r, peer: peer, verb: verb, done: done}
}

// lost wraps the error of a connection that broke in the middle of a stream.
func (s *stream) lost(err error) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("stream %s with server %s: %w: %w", s.verb, s.peer, bus.ErrNoAnswer, err)
}

// Read implements bus.Stream.
func (s *stream) Read(p []byte) (int, error) {
	s.reading.Lock()
	defer s.reading.Unlock()
	for s.left == 0 {
		if s.ended != nil {
			return 0, s.ended
		}
		if err := s.next(); err != nil {
			return 0, err
		}
	}
	n, err := s.r.Read(p[:min(len(p), s.left)])
	s.left -= n
	if err != nil {
		err = s.lost(err)
		s.keepError(err)
	}
	return n, err
}

// next reads the head of a frame, and the body if it is not data. The caller holds reading.
func (s *stream) next() error {
	kind, n, err := head(s.r)
	if err != nil {
		err = s.lost(err)
		s.keepError(err)
		return err
	}
	switch kind {
	case frameData:
		s.left = n
		return nil
	case frameEnd:
		s.ended = io.EOF
		return nil
	case frameRefuse:
		body := make([]byte, n)
		if _, err := io.ReadFull(s.r, body); err != nil {
			s.ended = s.lost(err)
		} else {
			s.ended = refusedBy(s.peer, s.verb, body)
		}
		return nil
	}
	s.ended = s.lost(fmt.Errorf("%w: %q in a stream", errFrame, kind))
	return s.ended
}

// keepError makes err the result of all later reads, unless it is a timeout: the caller may set another deadline.
func (s *stream) keepError(err error) {
	var late net.Error
	if !errors.As(err, &late) || !late.Timeout() {
		s.ended = err
	}
}

// Write implements bus.Stream.
func (s *stream) Write(p []byte) (int, error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	written := 0
	for len(p) > 0 {
		if s.wrote {
			return written, fmt.Errorf("stream %s: write after its end", s.verb)
		}
		piece := p[:min(len(p), maxData)]
		s.buffer = appendFrame(s.buffer[:0], frameData, piece)
		if _, err := s.conn.Write(s.buffer); err != nil {
			return written, s.lost(err)
		}
		written += len(piece)
		p = p[len(piece):]
	}
	return written, nil
}

// CloseWrite implements bus.Stream.
func (s *stream) CloseWrite() error { return s.finish(frameEnd, nil) }

// finish writes the last frame of this side, once.
func (s *stream) finish(kind byte, body []byte) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	return s.finishLocked(kind, body)
}

// finishLocked is finish. The caller holds writing.
func (s *stream) finishLocked(kind byte, body []byte) error {
	if s.wrote {
		return nil
	}
	s.wrote = true
	s.buffer = nil
	if _, err := s.conn.Write(appendFrame(nil, kind, body)); err != nil {
		return s.lost(err)
	}
	return nil
}

// closeWithin is the timeout of the last frame that Close writes.
const closeWithin = time.Second

// Close implements bus.Stream. It keeps the connection for another stream if both sides have ended. Otherwise, and if
// another goroutine is in Read or Write, it closes the connection, which interrupts them.
func (s *stream) Close() error {
	s.closing.Do(func() { s.done(s.settle()) })
	return nil
}

// settle ends this side if the other side has ended. It reports whether the connection can carry another stream. It
// does not wait for a Read or a Write of another goroutine, because the other server may have stopped reading.
func (s *stream) settle() bool {
	if !s.reading.TryLock() {
		return false
	}
	var remote *bus.RemoteError
	ended := s.left == 0 && (errors.Is(s.ended, io.EOF) || errors.As(s.ended, &remote))
	s.reading.Unlock()
	if !ended || !s.writing.TryLock() {
		return false
	}
	defer s.writing.Unlock()
	if !s.wrote {
		_ = s.conn.SetWriteDeadline(env.Deadline(closeWithin))
		if s.finishLocked(frameEnd, nil) != nil {
			return false
		}
	}
	return s.conn.SetDeadline(time.Time{}) == nil
}

// SetDeadline, SetReadDeadline and SetWriteDeadline implement bus.Stream.
func (s *stream) SetDeadline(t time.Time) error      { return s.conn.SetDeadline(t) }
func (s *stream) SetReadDeadline(t time.Time) error  { return s.conn.SetReadDeadline(t) }
func (s *stream) SetWriteDeadline(t time.Time) error { return s.conn.SetWriteDeadline(t) }

// Stream opens a stream to a member.
func (p *Port) Stream(ctx context.Context, id bus.ServerID, verb string, header []byte) (bus.Stream, error) {
	if len(header) > bus.MaxHeader {
		return nil, fmt.Errorf("stream %s: a header of %d bytes: %w", verb, len(header), bus.ErrTooBig)
	}
	p.mu.Lock()
	m := p.members[id]
	var to bus.Member
	if m != nil {
		to = m.Member
	}
	p.mu.Unlock()
	if m == nil {
		return nil, fmt.Errorf("%w: %s is no member", bus.ErrNoServer, id)
	}
	open := appendFrame(nil, frameOpen, appendWords(nil, verb, header))
	for {
		kept := p.pooled(m)
		if kept == nil {
			break
		}
		s, err := p.open(ctx, m, kept.conn, kept.r, verb, open)
		if err == nil || errors.Is(err, bus.ErrRefused) || ctx.Err() != nil {
			return s, err
		}
		// The other side has closed the idle connection.
	}
	conn, r, _, err := p.dial(ctx, to, p.sessions)
	if err != nil {
		return nil, fmt.Errorf("%w: %s at %s: %w", bus.ErrNoServer, to.Name, to.Direct, err)
	}
	return p.open(ctx, m, conn, r, verb, open)
}

// open requests a stream on a connection. It closes the connection on error.
func (p *Port) open(ctx context.Context, m *peer, conn net.Conn, r *bufio.Reader, verb string,
	open []byte) (bus.Stream, error) {
	stop := context.AfterFunc(ctx, func() { p.forget(conn) })
	kind, body, err := byte(0), []byte(nil), error(nil)
	if _, err = conn.Write(open); err == nil {
		kind, body, err = frame(r)
	}
	if !stop() {
		err = ctx.Err()
	}
	switch {
	case err != nil:
		err = fmt.Errorf("%w: stream %s to server %s: %w", bus.ErrNoAnswer, verb, m.id, err)
	case kind == frameRefuse:
		err = refusedBy(m.id, verb, body)
		if bus.Code(err) == bus.CodeNoVerb || bus.Code(err) == bus.CodeBusy {
			p.pool(m, conn, r)
			return nil, err
		}
	case kind != frameWelcome:
		err = fmt.Errorf("%w: %q instead of a welcome", errFrame, kind)
	default:
		return newStream(conn, r, m.id, verb, func(reusable bool) {
			if reusable {
				p.pool(m, conn, r)
			} else {
				p.forget(conn)
			}
		}), nil
	}
	p.forget(conn)
	return nil, err
}

// serveStreams serves the streams that a mate opens on one connection, one after another.
func (p *Port) serveStreams(conn *tls.Conn, r *bufio.Reader, m *peer, body []byte) error {
	for {
		again, err := p.serveStream(conn, r, m, body)
		if err != nil || !again {
			return err
		}
		_ = conn.SetDeadline(env.Deadline(2 * idleTime)) // the dialler closes idle connections first
		kind, next, err := frame(r)
		if err != nil {
			return err
		}
		if kind != frameOpen {
			return fmt.Errorf("%w: %q between streams", errFrame, kind)
		}
		_ = conn.SetDeadline(time.Time{})
		body = next
	}
}

// serveStream serves one stream. again reports whether the connection may carry another.
func (p *Port) serveStream(conn *tls.Conn, r *bufio.Reader, m *peer, body []byte) (again bool, err error) {
	verb, header, err := parseWords(body)
	if err != nil {
		return false, err
	}
	refuse := func(code, text string) (bool, error) {
		_, err := conn.Write(appendFrame(nil, frameRefuse, appendWords(nil, code, []byte(text))))
		return true, err
	}
	fn := p.o.Stream(verb)
	if fn == nil {
		return refuse(bus.CodeNoVerb, "nobody serves streams of that verb here")
	}
	p.mu.Lock()
	busy := m.streams >= p.o.Streams
	if !busy {
		m.streams++
	}
	p.mu.Unlock()
	if busy {
		return refuse(bus.CodeBusy, fmt.Sprintf("%d streams are open already", p.o.Streams))
	}
	defer func() {
		p.mu.Lock()
		m.streams--
		p.mu.Unlock()
	}()
	p.stats.streams.Inc()
	if _, err := conn.Write(appendHead(nil, frameWelcome, 0)); err != nil {
		return false, err
	}
	ctx, cancel := context.WithCancel(p.ctx)
	defer cancel()
	s := newStream(conn, r, m.id, verb, func(reusable bool) {
		again = reusable
		if !reusable {
			conn.NetConn().Close() // at once: conn.Close could wait to send an alert
		}
	})
	if err := fn(ctx, m.id, header, s); err != nil {
		code, text := bus.Refusal(err)
		_ = s.finish(frameRefuse, appendWords(nil, code, []byte(text)))
	} else {
		_ = s.CloseWrite()
	}
	// Read the rest of the other side's data, so that the connection can be reused. Beyond 4*maxData bytes a new
	// connection is cheaper.
	_ = conn.SetReadDeadline(env.Deadline(idleTime))
	_, _ = io.CopyN(io.Discard, s, 4*maxData)
	_ = s.Close()
	return again, nil
}
