package listen

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"doublet/env"
)

type counts struct {
	sync.Mutex
	m map[string]int64
}

func (c *counts) Inc(name string, n int64) {
	c.Lock()
	defer c.Unlock()
	if c.m == nil {
		c.m = map[string]int64{}
	}
	c.m[name] += n
}

func (c *counts) get(name string) int64 {
	c.Lock()
	defer c.Unlock()
	return c.m[name]
}

func testEnv() *env.Env { return env.Real(slog.New(slog.NewTextHandler(io.Discard, nil))) }

// openDoor opens d on a loopback port.
func openDoor(t *testing.T, e *env.Env, o Options, d Door) (*Server, *counts, net.Addr) {
	t.Helper()
	st := &counts{}
	s := New(e, o, st)
	if d.Network == "" {
		d.Network, d.Address = "tcp", "127.0.0.1:0"
	}
	l, err := s.Open(d)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { shutdown(t, s) })
	return s, st, l.Addr()
}

func shutdown(t *testing.T, s *Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		t.Error(err)
	}
}

func dial(t *testing.T, a net.Addr) net.Conn {
	t.Helper()
	c, err := net.Dial(a.Network(), a.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	return c
}

func expect(t *testing.T, c net.Conn, want string) {
	t.Helper()
	b := make([]byte, len(want))
	if n, err := io.ReadFull(c, b); err != nil || string(b) != want {
		t.Fatalf("got %q, %v; want %q", b[:n], err, want)
	}
}

func expectEnd(t *testing.T, c net.Conn) {
	t.Helper()
	if b, _ := io.ReadAll(c); len(b) > 0 {
		t.Fatalf("got %q, want the end", b)
	}
}

// echo echoes lines, and prints "woken" and "bye". After "hold" it reads one more line inside the command.
func echo(c *Conn) {
	c.PrintString("hi\n")
	for {
		switch err := c.Await(time.Minute); {
		case err == nil:
		case errors.Is(err, ErrWoken):
			c.PrintString("woken\n")
			continue
		case errors.Is(err, ErrClosing):
			c.PrintString("bye\n")
			return
		default:
			return
		}
		line, err := c.ReadLine(100, time.Minute)
		if errors.Is(err, ErrLineTooLong) {
			c.PrintString("long\n")
			return
		}
		if err != nil {
			return
		}
		switch string(line) {
		case "hold\n":
			c.PrintString("go\n")
			line, err = c.ReadLine(100, time.Minute)
			if err != nil {
				return
			}
		case "panic\n":
			panic("bug")
		}
		c.Print(line)
	}
}

func TestEcho(t *testing.T) {
	t.Parallel()
	s, st, a := openDoor(t, testEnv(), Options{}, Door{Name: "echo", Serve: echo})
	c := dial(t, a)
	expect(t, c, "hi\n")
	for _, in := range []string{"a\n", "b\nc\n", strings.Repeat("x", 99) + "\n"} {
		_, _ = io.WriteString(c, in)
		expect(t, c, in)
	}
	_, _ = io.WriteString(c, "split")
	_, _ = io.WriteString(c, " line\npanic\n")
	expect(t, c, "split line\n")
	expectEnd(t, c)
	c = dial(t, a)
	_, _ = io.WriteString(c, strings.Repeat("x", 101)+"\n")
	expect(t, c, "hi\nlong\n")
	shutdown(t, s)
	if st.get("Server.Listen.Panics") != 1 || s.Conns() != 0 {
		t.Error(st.m, s.Conns())
	}
}

// Sessions between commands end at once. A session inside a command finishes it first.
func TestShutdown(t *testing.T) {
	t.Parallel()
	s, _, a := openDoor(t, testEnv(), Options{}, Door{Name: "echo", Serve: echo})
	idle, busy := dial(t, a), dial(t, a)
	expect(t, idle, "hi\n")
	_, _ = io.WriteString(busy, "hold\n")
	expect(t, busy, "hi\ngo\n")
	done := make(chan error, 1)
	go func() { done <- s.Shutdown(context.Background()) }()
	expect(t, idle, "bye\n")
	expectEnd(t, idle)
	select {
	case err := <-done:
		t.Fatal("did not wait for the running command:", err)
	default:
	}
	_, _ = io.WriteString(busy, "end\nnext\n")
	expect(t, busy, "end\nbye\n")
	if err := <-done; err != nil {
		t.Error(err)
	}
	if _, err := net.Dial("tcp", a.String()); err == nil {
		t.Error("still accepting")
	}
	if _, err := s.Open(Door{Network: "tcp", Address: "127.0.0.1:0"}); !errors.Is(err, ErrShutdown) {
		t.Error(err)
	}
}

// A shutdown without time closes the remaining sessions.
func TestShutdownCuts(t *testing.T) {
	t.Parallel()
	s, _, a := openDoor(t, testEnv(), Options{}, Door{Name: "echo", Serve: echo})
	c := dial(t, a)
	_, _ = io.WriteString(c, "hold\n")
	expect(t, c, "hi\ngo\n")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Shutdown(ctx); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "cut 1 sessions") {
		t.Error(err)
	}
	expectEnd(t, c)
}

func TestWake(t *testing.T) {
	t.Parallel()
	conns := make(chan *Conn, 1)
	_, _, a := openDoor(t, testEnv(), Options{}, Door{Name: "echo", Serve: func(c *Conn) {
		conns <- c
		echo(c)
	}})
	c := dial(t, a)
	conn := <-conns
	expect(t, c, "hi\n")
	for range 3 {
		conn.Wake()
		expect(t, c, "woken\n")
		_, _ = io.WriteString(c, "x\n")
		expect(t, c, "x\n")
	}
	// Inside a command, Wake takes effect after the command.
	_, _ = io.WriteString(c, "hold\n")
	expect(t, c, "go\n")
	conn.Wake()
	_, _ = io.WriteString(c, "end\n")
	expect(t, c, "end\nwoken\n")
}

// A session that is woken again while it answers each wake gets its input.
func TestWakeAgain(t *testing.T) {
	t.Parallel()
	_, _, a := openDoor(t, testEnv(), Options{}, Door{Name: "echo", Serve: func(c *Conn) {
		for {
			c.Wake()
			switch err := c.Await(time.Minute); {
			case errors.Is(err, ErrWoken):
			case err != nil:
				return
			default:
				line, err := c.ReadLine(100, time.Minute)
				if err != nil {
					return
				}
				c.Print(line)
			}
		}
	}})
	c := dial(t, a)
	for range 3 {
		_, _ = io.WriteString(c, "ping\n")
		expect(t, c, "ping\n")
	}
}

// Concurrent wakes and input lose neither a byte nor a wake.
func TestWakeRace(t *testing.T) {
	t.Parallel()
	conns := make(chan *Conn, 1)
	_, _, a := openDoor(t, testEnv(), Options{}, Door{Name: "echo", Serve: func(c *Conn) {
		conns <- c
		for n := 0; n < 500; {
			err := c.Await(time.Minute)
			if errors.Is(err, ErrWoken) {
				continue
			}
			if err != nil {
				return
			}
			line, err := c.ReadLine(100, time.Minute)
			if err != nil {
				return
			}
			c.Print(line)
			n++
		}
	}})
	c := dial(t, a)
	conn := <-conns
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				conn.Wake()
				runtime.Gosched() // on one processor the session gets its turn too
			}
		}
	})
	for range 500 {
		_, _ = io.WriteString(c, "ping\n")
		expect(t, c, "ping\n")
	}
	close(stop)
	wg.Wait()
	expectEnd(t, c)
}

func TestTimeout(t *testing.T) {
	t.Parallel()
	got := make(chan error, 2)
	_, _, a := openDoor(t, testEnv(), Options{}, Door{Name: "echo", Serve: func(c *Conn) {
		got <- c.Await(10 * time.Millisecond)
		got <- c.Fill(10 * time.Millisecond)
	}})
	dial(t, a)
	for range 2 {
		if err := <-got; !errors.Is(err, ErrTimeout) {
			t.Error(err)
		}
	}
}

type far struct {
	net.Listener
	addr net.IP
}

func (f far) Accept() (net.Conn, error) {
	c, err := f.Listener.Accept()
	return farConn{c, f.addr}, err
}

type farConn struct {
	net.Conn
	ip net.IP
}

func (c farConn) RemoteAddr() net.Addr { return &net.TCPAddr{IP: c.ip, Port: 1} }

func TestLimits(t *testing.T) {
	t.Parallel()
	e := testEnv()
	e.Listen = func(network, address string) (net.Listener, error) {
		l, err := net.Listen(network, address)
		return far{l, net.ParseIP("192.0.2.1")}, err
	}
	_, st, a := openDoor(t, e, Options{MaxPerAddress: 2}, Door{Name: "echo", Serve: echo, Busy: "busy\n"})
	one, two := dial(t, a), dial(t, a)
	expect(t, one, "hi\n")
	expect(t, two, "hi\n")
	three := dial(t, a)
	expect(t, three, "busy\n")
	expectEnd(t, three)
	if st.get("Server.Listen.Refused.Client") != 1 {
		t.Error(st.m)
	}

	s, st, a := openDoor(t, testEnv(), Options{MaxPerAddress: 1},
		Door{Name: "echo", Serve: echo, Busy: "busy\n", MaxConns: 2})
	one, two = dial(t, a), dial(t, a)
	expect(t, one, "hi\n")
	expect(t, two, "hi\n")
	three = dial(t, a)
	expect(t, three, "busy\n")
	if st.get("Server.Listen.Refused.Full") != 1 {
		t.Error(st.m)
	}
	// A slot that becomes free is used again.
	_, _ = io.WriteString(one, "panic\n")
	expectEnd(t, one)
	for s.Conns() > 1 {
		runtime.Gosched() // the slot becomes free shortly after the socket is closed
	}
	expect(t, dial(t, a), "hi\n")
}

func TestUnix(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	d := Door{Name: "admin", Network: "unix", Address: path, Serve: func(c *Conn) {
		if !c.Local() || c.RemoteIP().IsValid() {
			c.PrintString("not ")
		}
		c.PrintString("local\n")
	}}
	// The socket of a dead server is replaced …
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		t.Fatal(err)
	}
	stale.SetUnlinkOnClose(false)
	_ = stale.Close()
	_, _, a := openDoor(t, testEnv(), Options{}, d)
	expect(t, dial(t, a), "local\n")
	fi, err := os.Stat(path)
	if err != nil || fi.Mode().Perm() != 0o600 {
		t.Error(fi.Mode(), err)
	}
	// … that of a running server is not.
	s := New(testEnv(), Options{}, nil)
	if _, err := s.Open(d); err == nil {
		t.Error("took a socket that is in use")
	}
	expect(t, dial(t, a), "local\n")
}

// The session works the same over a connection that is not a socket.
func TestPipe(t *testing.T) {
	t.Parallel()
	s := New(testEnv(), Options{}, nil)
	near, farEnd := net.Pipe()
	done := make(chan error, 1)
	go func() { done <- s.ServeConn(farEnd, &Door{Name: "pipe", Serve: echo}) }()
	expect(t, near, "hi\n")
	_, _ = io.WriteString(near, "a\n")
	expect(t, near, "a\n")
	go func() { _ = s.Shutdown(context.Background()) }()
	expect(t, near, "bye\n")
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestUnreadAndLongOutput(t *testing.T) {
	t.Parallel()
	big := strings.Repeat("0123456789abcdef", 5000)
	_, _, a := openDoor(t, testEnv(), Options{}, Door{Name: "x", Serve: func(c *Conn) {
		if c.Await(time.Minute) != nil {
			return
		}
		c.Unread([]byte(big))
		got := make([]byte, len(big)+3)
		if _, err := io.ReadFull(c, got); err != nil || string(got) != big+"abc" {
			c.PrintString("bad")
			return
		}
		c.PrintString(big)
		c.Print([]byte(big))
		_, _ = c.Write([]byte("end"))
	}})
	c := dial(t, a)
	_, _ = io.WriteString(c, "abc")
	expect(t, c, big+big+"end")
	expectEnd(t, c)
}

// A waiting session holds no buffer.
func TestIdleHoldsNothing(t *testing.T) {
	t.Parallel()
	conns := make(chan *Conn, 1)
	_, _, a := openDoor(t, testEnv(), Options{}, Door{Name: "echo", Serve: func(c *Conn) {
		_ = c.Await(time.Minute)
		line, _ := c.ReadLine(100, time.Minute)
		c.Print(line)
		conns <- c
		if err := c.Await(time.Minute); err != nil {
			return
		}
		_, _ = c.ReadLine(100, time.Minute)
		c.PrintString("end\n")
	}})
	c := dial(t, a)
	_, _ = io.WriteString(c, "x\n")
	expect(t, c, "x\n")
	conn := <-conns
	for {
		conn.mu.Lock()
		idle := conn.idle
		conn.mu.Unlock()
		if idle {
			break
		}
		runtime.Gosched()
	}
	conn.mu.Lock()
	in, out := conn.in, conn.out
	conn.mu.Unlock()
	if in != nil || out != nil {
		t.Error("a buffer is held while waiting")
	}
	_, _ = io.WriteString(c, "y\n")
	expect(t, c, "end\n")
}
