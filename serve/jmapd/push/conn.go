package push

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"doublet/env"
)

// Why a wait ended without input.
var (
	errWoken   = errors.New("push: woken")
	errTimeout = errors.New("push: its time has come")
)

// conn is a connection taken over from net/http: what the server holds for it is this, its one goroutine, and
// nothing else. Its methods are its goroutine's, wake aside.
type conn struct {
	net.Conn
	env  *env.Env
	slow func() // counts a client that took nothing

	mu    sync.Mutex
	idle  bool // in await
	woken bool
	cut   bool // the read was interrupted
}

// sendBuffer is what the system keeps for a client that does not read, in bytes. What lies there is old when the
// client reads again, so it is little.
const sendBuffer = 16 << 10

// take takes over a request's connection, if it has one of its own: over HTTP/2 it has not. What the client sent
// already is early.
func take(e *env.Env, w http.ResponseWriter, slow func()) (c *conn, early []byte, ok bool) {
	nc, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, nil, false
	}
	if n := rw.Reader.Buffered(); n > 0 {
		early = make([]byte, n)
		n, _ = rw.Reader.Read(early)
		early = early[:n]
	}
	under := nc
	if t, ok := nc.(*tls.Conn); ok {
		under = t.NetConn()
	}
	if s, ok := under.(interface{ SetWriteBuffer(int) error }); ok {
		_ = s.SetWriteBuffer(sendBuffer)
	}
	return &conn{Conn: nc, env: e, slow: slow}, early, true
}

// wake makes await, the running one or the next, return errWoken. Any goroutine may call it.
func (c *conn) wake() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.woken = true
	if c.idle && !c.cut {
		c.cut = true
		_ = c.SetReadDeadline(time.Unix(1, 0))
	}
}

// await waits for input, for wake, or until a time; the zero Time is never.
func (c *conn) await(until time.Time, buf []byte) (int, error) {
	c.mu.Lock()
	if c.woken {
		c.woken = false
		c.mu.Unlock()
		return 0, errWoken
	}
	c.idle, c.cut = true, false
	err := c.SetReadDeadline(until)
	c.mu.Unlock()
	n := 0
	if err == nil {
		n, err = c.Read(buf)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idle = false
	switch {
	case n > 0:
		return n, nil // who was woken meanwhile is told next time
	case errors.Is(err, os.ErrDeadlineExceeded) && c.woken:
		c.woken = false
		return 0, errWoken
	case errors.Is(err, os.ErrDeadlineExceeded):
		return 0, errTimeout
	}
	return 0, err
}

// send writes all of b, or closes the connection.
func (c *conn) send(b []byte) error {
	err := c.SetWriteDeadline(c.env.Clock.Now().Add(writeTime))
	if err == nil {
		_, err = c.Write(b)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		c.slow()
	}
	if err != nil {
		_ = c.Close()
	}
	return err
}

// pacer says when what is due.
type pacer struct {
	ping time.Duration // 0: never
	last time.Time     // of anything that was sent
	next time.Time     // before which no state is told
}

// retry is after how long trouble of the server's own is tried again.
const retry = time.Second

// until is how long there is nothing to do; the zero Time is for ever.
func (p *pacer) until(moved bool) (t time.Time) {
	if p.ping > 0 {
		t = p.last.Add(p.ping)
	}
	if moved && (t.IsZero() || p.next.Before(t)) {
		t = p.next
		if t.IsZero() {
			t = time.Unix(1, 0) // at once
		}
	}
	return t
}

func (p *pacer) told(now time.Time) { p.last, p.next = now, now.Add(gap) }

func (p *pacer) due(now time.Time) bool { return p.ping > 0 && !now.Before(p.last.Add(p.ping)) }
