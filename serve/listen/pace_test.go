package listen

import (
	"errors"
	"io"
	"net"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"doublet/env"
)

// TestPace checks that a client that sends single bytes, each just within the timeout, is disconnected after little
// more than twice the timeout. A client that sends at MinRate is not.
func TestPace(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		bytes int
		every time.Duration
		most  time.Duration // 0: never disconnected
	}{
		{1, time.Second, 4 * time.Minute}, {1, 170 * time.Second, 7 * time.Minute}, {50, time.Second, 7 * time.Minute},
		{MinRate, time.Second, 0}, {3 * 60 * MinRate, 3 * time.Minute, 0}, {1 << 20, time.Minute, 0},
	} {
		const timeout = 3 * time.Minute
		p, took, cut := pace{}, time.Duration(0), false
		for took < 24*time.Hour {
			if left := p.left(timeout); left < c.every {
				took += max(left, 0)
				cut = true
				break
			}
			p.came(c.bytes, c.every)
			took += c.every
		}
		if cut != (c.most > 0) || cut && took > c.most {
			t.Errorf("%d bytes every %s: cut off: %v, after %s", c.bytes, c.every, cut, took)
		}
	}
}

// dripping is a body of which one byte arrives per interval of the test's clock.
type dripping struct {
	fix   *env.Fixture
	every time.Duration
	given int
}

func (d *dripping) Read(b []byte) (int, error) {
	d.fix.Time.Advance(d.every)
	d.given++
	b[0] = 'x'
	return 1, nil
}

// TestPacedBody checks that the same limits apply to request bodies.
func TestPacedBody(t *testing.T) {
	t.Parallel()
	fix := env.Test(t)
	d := &dripping{fix: fix, every: Patience - time.Second}
	_, err := io.Copy(io.Discard, Paced(fix.Env, httptest.NewRecorder(), d))
	if !errors.Is(err, os.ErrDeadlineExceeded) || d.given > 3 {
		t.Errorf("%d octets, one every %s: %v", d.given, d.every, err)
	}
}

// drip is a socket on which one byte arrives per interval of the test's clock.
type drip struct {
	net.Conn
	dripping
}

func (d *drip) Read(b []byte) (int, error)     { return d.dripping.Read(b) }
func (*drip) RemoteAddr() net.Addr             { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)} }
func (*drip) SetReadDeadline(time.Time) error  { return nil }
func (*drip) SetWriteDeadline(time.Time) error { return nil }
func (*drip) Write(b []byte) (int, error)      { return len(b), nil }

// TestSlowCommand sends a command, and a message, byte by byte: each byte arrives in time, but the whole does not.
func TestSlowCommand(t *testing.T) {
	t.Parallel()
	const timeout = 3 * time.Minute
	for name, read := range map[string]func(c *Conn) error{
		"line": func(c *Conn) error { _, err := c.ReadLine(BufferSize, timeout); return err },
		"fill": func(c *Conn) (err error) {
			for err == nil {
				c.Discard(len(c.Buffered()))
				err = c.Fill(timeout)
			}
			return err
		},
		"read": func(c *Conn) (err error) {
			c.Discard(len(c.Buffered()))
			for b := make([]byte, 100); err == nil; {
				_, err = c.Read(b)
			}
			return err
		},
	} {
		fix := env.Test(t)
		d := &drip{dripping: dripping{fix: fix, every: timeout / 4}}
		c := newConn(New(fix.Env, Options{}, nil), d, &Door{})
		if err := c.Await(timeout); err != nil {
			t.Fatal(name, err)
		}
		err := read(c)
		if !errors.Is(err, ErrTimeout) || d.given > 10 {
			t.Errorf("%s: %v, after %d bytes", name, err, d.given)
		}
	}
}
