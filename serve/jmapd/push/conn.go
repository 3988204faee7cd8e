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

// Reasons for which await returned without input.
var (
	errWoken   = errors.New("push: woken")
	errTimeout = errors.New("push: its time has come")
)

// conn is a connection hijacked from net/http. Apart from it and its one goroutine, the server holds nothing for the
// client. Only that goroutine may call its methods, except wake.
type conn struct {
	net.Conn
	env  *env.Env
	slow func() // counts a client that did not read in time

	mu    sync.Mutex
	idle  bool // in await
	woken bool
	cut   bool // the read was interrupted
}

// sendBuffer is the size of the kernel's send buffer in bytes. It is small because data in it is outdated by the time
// that a slow client reads it.
const sendBuffer = 16 << 10

// take hijacks the connection of a request. ok is false if the connection cannot be hijacked, as over HTTP/2. early is
// what the client has already sent.
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

// wake makes the current or next call of await return errWoken. Any goroutine may call it.
func (c *conn) wake() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.woken = true
	if c.idle && !c.cut {
		c.cut = true
		_ = c.SetReadDeadline(time.Unix(1, 0))
	}
}

// await waits for input, for wake, or until a time. The zero Time means no timeout.
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
		return n, nil // if woken is set, the next call returns errWoken
	case errors.Is(err, os.ErrDeadlineExceeded) && c.woken:
		c.woken = false
		return 0, errWoken
	case errors.Is(err, os.ErrDeadlineExceeded):
		return 0, errTimeout
	}
	return 0, err
}

// send writes all of b. On an error it closes the connection.
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

// pacer schedules the pings and pushes of a connection.
type pacer struct {
	ping time.Duration // interval, 0: no pings
	last time.Time     // when anything was last sent
	next time.Time     // earliest time of the next push
}

// retry is the time after which an internal error is retried.
const retry = time.Second

// until returns the time at which the next ping, or if moved the next push, is due. The zero Time means never.
func (p *pacer) until(moved bool) (t time.Time) {
	if p.ping > 0 {
		t = p.last.Add(p.ping)
	}
	if moved && (t.IsZero() || p.next.Before(t)) {
		t = p.next
		if t.IsZero() {
			t = time.Unix(1, 0) // now
		}
	}
	return t
}

func (p *pacer) told(now time.Time) { p.last, p.next = now, now.Add(gap) }

func (p *pacer) due(now time.Time) bool { return p.ping > 0 && !now.Before(p.last.Add(p.ping)) }
