package forward

import (
	"bufio"
	"bytes"
	"compress/flate"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"doublet/bus"
	"doublet/serve/listen"
)

// TestCarryBothWays checks that a home that sends much before it reads all of its input does not block the session.
// The client's pipelined input and the home's output are larger than all buffers between the members.
func TestCarryBothWays(t *testing.T) {
	t.Parallel()
	front, home := servers(t)
	front.wire.small = true
	home.Add("imap", door(home, anna, new(error)))
	const lines = 3000
	line := strings.Repeat("x", 900) + "\r\n"
	l, err := front.conns.Open(listen.Door{Name: "imap", Network: "tcp", Address: "127.0.0.1:0",
		Serve: func(c *listen.Conn) {
			x, err := front.Open(c, "imap", &anna)
			if err != nil {
				t.Error(err)
				return
			}
			account := anna
			_, _ = front.CarryAway(c, &Follower{Door: "imap", Account: &account, Silence: time.Minute}, x,
				[]byte(strings.Repeat(line, lines)+"QUIT\r\n"))
		}})
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	in := bufio.NewReader(c)
	for range lines {
		expect(t, in, "Anna 127.0.0.1 "+line[:900])
	}
	expect(t, in, "Anna 127.0.0.1 QUIT")
}

// TestDeflateResult checks that the home knows the result of a compression that the client's member was asked for, and
// that the session goes on after each result.
func TestDeflateResult(t *testing.T) {
	t.Parallel()
	front, home := servers(t)
	front.conns.Limit(listen.Options{MaxCompressed: 1})
	home.Add("imap", func(c *listen.Conn) {
		for {
			line, err := c.ReadLine(1000, 5*time.Second)
			if err != nil {
				return
			}
			if string(line) == "COMPRESS\r\n" {
				if err := Deflate(c, []byte("on\r\n"), []byte("full\r\n"), []byte("active\r\n")); err != nil {
					t.Error(err)
					return
				}
				continue
			}
			c.PrintString(fmt.Sprintf("%t %t\r\n", CanDeflate(c), Deflated(c)))
			if c.Flush() != nil {
				return
			}
		}
	})
	login := func() (*net.TCPConn, *bufio.Reader) {
		c, in, _ := client(t, front, anna)
		_, _ = io.WriteString(c, "login\r\n")
		expect(t, in, "OK login")
		return c, in
	}
	ask := func(c io.Writer, in *bufio.Reader, line, want string) {
		t.Helper()
		_, _ = io.WriteString(c, line+"\r\n")
		expect(t, in, want)
	}
	first, in := login()
	ask(first, in, "state", "true false")
	ask(first, in, "COMPRESS", "on")
	packed, unpacked := &packer{c: first}, bufio.NewReader(flate.NewReader(in))
	ask(packed, unpacked, "state", "true true")
	ask(packed, unpacked, "COMPRESS", "active")
	ask(packed, unpacked, "state", "true true")

	second, in2 := login()
	ask(second, in2, "COMPRESS", "full")
	ask(second, in2, "state", "true false")
	_ = first.Close()
	for end := time.Now().Add(20 * time.Second); front.conns.Conns() > 1; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the first session goes on")
		}
	}
	ask(second, in2, "COMPRESS", "on")
	ask(&packer{c: second}, bufio.NewReader(flate.NewReader(in2)), "state", "true true")
}

// packer compresses each Write by itself.
type packer struct{ c io.Writer }

func (p *packer) Write(b []byte) (int, error) {
	var out bytes.Buffer
	w, err := flate.NewWriter(&out, flate.BestSpeed)
	if err == nil {
		_, err = w.Write(b)
	}
	if err = errors.Join(err, w.Flush()); err != nil {
		return 0, err
	}
	_, err = p.c.Write(out.Bytes())
	return len(b), err
}

// strict is a stream whose CloseWrite waits for a Write, as that of a bus over TLS does.
type strict struct {
	*end
	writing sync.Mutex
}

func (s *strict) Write(p []byte) (int, error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	return s.end.Write(p)
}

func (s *strict) CloseWrite() error {
	s.writing.Lock()
	defer s.writing.Unlock()
	return s.end.CloseWrite()
}

// TestShutdownCutsTakenSession checks that a shutdown ends the session of a mate that does not read, when its time is
// over.
func TestShutdownCutsTakenSession(t *testing.T) {
	t.Parallel()
	front, home := servers(t)
	written := make(chan error, 1)
	home.Add("imap", func(c *listen.Conn) {
		_, err := c.Write(make([]byte, 64<<20)) // more than the buffers of the sockets
		written <- err
	})
	take := home.wire.taker(verbMovable)
	home.wire.HandleStream(verbMovable, func(ctx context.Context, from bus.ServerID, header []byte,
		stream bus.Stream) error {
		return take(ctx, from, header, &strict{end: stream.(*end)})
	})
	c, in, _ := client(t, front, anna)
	_, _ = io.WriteString(c, "login\r\n")
	expect(t, in, "OK login")
	if _, err := io.ReadFull(in, make([]byte, 100)); err != nil { // the session writes
		t.Fatal(err)
	}
	over, cancel := context.WithCancel(context.Background())
	cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- home.conns.Shutdown(over) }()
	for range 2 {
		var err error
		select {
		case err = <-stopped:
		case err = <-written:
		case <-time.After(20 * time.Second):
			t.Fatal("the shutdown, or the session, does not end")
		}
		if err == nil {
			t.Error("the session was not cut")
		}
	}
}
