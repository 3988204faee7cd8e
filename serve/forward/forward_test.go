package forward

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"doublet/bus"
	"doublet/cluster"
	"doublet/env"
	"doublet/note"
	"doublet/serve/listen"
	"doublet/serve/signin"
	"doublet/stat"
)

// wire is one server's end of a bus between two servers, over TCP.
type wire struct {
	bus.Bus
	t    *testing.T
	mate *wire
	// small limits the buffers of the connections.
	small bool

	mu   sync.Mutex // guards the fields below
	take map[string]bus.StreamHandler
	verb map[string]bus.Handler
	live []net.Conn
}

// taker returns the handler of a stream, or nil.
func (w *wire) taker(verb string) bus.StreamHandler {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.take[verb]
}

// takes replaces the handlers of streams, and returns the previous ones.
func (w *wire) takes(all map[string]bus.StreamHandler) (before map[string]bus.StreamHandler) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before, w.take = w.take, all
	return before
}

// first returns the first connection that was made.
func (w *wire) first() *net.TCPConn {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.live[0].(*net.TCPConn)
}

func (w *wire) Handle(verb string, fn bus.Handler) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.verb == nil {
		w.verb = map[string]bus.Handler{}
	}
	w.verb[verb] = fn
}

func (w *wire) Request(ctx context.Context, _ bus.ServerID, verb string, body []byte) ([]byte, error) {
	w.mate.mu.Lock()
	fn := w.mate.verb[verb]
	w.mate.mu.Unlock()
	if fn == nil {
		return nil, &bus.RemoteError{Code: bus.CodeNoVerb}
	}
	answer, err := fn(ctx, note.UNID{1}, body)
	if err != nil {
		code, text := bus.Refusal(err)
		return nil, &bus.RemoteError{Code: code, Text: text}
	}
	return answer, nil
}

func (w *wire) HandleStream(verb string, fn bus.StreamHandler) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.take == nil {
		w.take = map[string]bus.StreamHandler{}
	}
	w.take[verb] = fn
}

// end is a stream. refused gets the result of the other side's handler.
type end struct {
	*net.TCPConn
	refused chan error
}

func (e *end) Read(p []byte) (int, error) {
	n, err := e.TCPConn.Read(p)
	if err == io.EOF && e.refused != nil {
		if refusal := <-e.refused; refusal != nil {
			code, text := bus.Refusal(refusal)
			err = &bus.RemoteError{Code: code, Text: text}
		}
		e.refused <- nil
	}
	return n, err
}

func (w *wire) Stream(_ context.Context, _ bus.ServerID, verb string, header []byte) (bus.Stream, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	defer l.Close()
	a, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		w.t.Fatal(err)
	}
	b, err := l.Accept()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, c := range []net.Conn{a, b} {
		if w.small {
			_ = c.(*net.TCPConn).SetReadBuffer(16 << 10)
			_ = c.(*net.TCPConn).SetWriteBuffer(16 << 10)
		}
	}
	w.mu.Lock()
	w.live = append(w.live, a)
	w.mu.Unlock()
	refused := make(chan error, 1)
	go func() {
		err := bus.Refuse(bus.CodeNoVerb, verb)
		if fn := w.mate.taker(verb); fn != nil {
			err = fn(context.Background(), note.UNID{1}, header, &end{b.(*net.TCPConn), nil})
		}
		refused <- err
		_ = b.Close()
	}()
	return &end{a.(*net.TCPConn), refused}, nil
}

// place is a cluster in which one server has the mail file.
type place struct {
	self atomic.Bool
	none atomic.Bool
	uses atomic.Int32
}

func (p *place) Open(ctx context.Context, db note.DatabaseID) (cluster.Place, error) {
	return p.Where(ctx, db)
}

func (p *place) Where(context.Context, note.DatabaseID) (cluster.Place, error) {
	if p.none.Load() {
		return cluster.Place{}, cluster.ErrNoHome
	}
	return cluster.Place{Self: p.self.Load(), Name: "other"}, nil
}

func (p *place) Use(note.DatabaseID) func() {
	p.uses.Add(1)
	return func() { p.uses.Add(-1) }
}

func (p *place) Stays(context.Context, note.DatabaseID) bool { return p.self.Load() }

func (p *place) Elsewhere(note.DatabaseID) bool { return !p.self.Load() }

func (p *place) Holders(note.DatabaseID) []note.UNID {
	if p.none.Load() {
		return nil
	}
	return []note.UNID{{2}}
}

var anna = signin.Account{Name: "Anna", Database: 7, Who: note.Who{Person: note.UNID{9}}}

type server struct {
	*Service
	*Doors
	place *place
	wire  *wire
	conns *listen.Server
	clock *hasty
}

// hasty is a clock that advances only by the time of each wait, and returns from it at once.
type hasty struct {
	env.Clock
	start time.Time
	mu    sync.Mutex
	ahead time.Duration
	waits int
	third func() // runs at the third wait
}

func (h *hasty) Now() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.start.Add(h.ahead)
}

func (h *hasty) waited() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ahead
}

func (h *hasty) After(d time.Duration) <-chan time.Time {
	h.mu.Lock()
	h.ahead += d
	h.waits++
	then := h.third
	if h.waits != 3 {
		then = nil
	}
	h.mu.Unlock()
	if then != nil {
		then()
	}
	over := make(chan time.Time, 1)
	over <- h.Now()
	return over
}

func servers(t *testing.T) (front, home *server) {
	t.Helper()
	e := env.TestRealTime(t).Env
	make_ := func() *server {
		s := &server{place: &place{}, wire: &wire{t: t}, clock: &hasty{Clock: e.Clock, start: e.Clock.Now()}}
		s.conns = listen.New(e, listen.Options{}, nil)
		waiting := *e
		waiting.Clock = s.clock
		s.Service = New(&waiting, func() (Node, bus.Bus) { return s.place, s.wire }, listen.NewBudget(1<<20),
			stat.New(e.Clock))
		s.Doors = s.Service.Doors(s.conns, func(_ context.Context, id note.UNID) (signin.Account, error) {
			if id != anna.Who.Person {
				return signin.Account{}, signin.ErrDisabled
			}
			return anna, nil
		})
		s.Serve(s.wire)
		t.Cleanup(func() {
			ctx, stop := context.WithTimeout(context.Background(), time.Second)
			defer stop()
			_ = s.conns.Shutdown(ctx)
		})
		return s
	}
	front, home = make_(), make_()
	front.wire.mate, home.wire.mate = home.wire, front.wire
	home.place.self.Store(true)
	return front, home
}

// door answers each line with the person, the client's address and the line.
func door(s *server, account signin.Account, opened *error) func(*listen.Conn) {
	return func(c *listen.Conn) {
		a, forwarded := AccountOf(c)
		if !forwarded {
			line, _ := c.ReadLine(100, time.Second) // the sign-in
			x, err := s.Open(c, "imap", &account)
			if *opened = err; err != nil {
				c.PrintString("NO\r\n")
				return
			}
			defer x.End()
			c.PrintString("OK " + string(line))
			if !x.Here() {
				_, _ = s.CarryAway(c, &Follower{Door: "imap", Account: &account, Bye: "BYE\r\n", Silence: time.Minute},
					x, nil)
				return
			}
			a = account
		}
		for {
			line, err := c.ReadLine(1000, 5*time.Second)
			if err != nil {
				return
			}
			c.PrintString(a.Name + " " + c.RemoteIP().String() + " " + string(line))
			if err := c.Flush(); err != nil || strings.HasPrefix(string(line), "QUIT") {
				return
			}
		}
	}
}

func client(t *testing.T, s *server, account signin.Account) (conn *net.TCPConn, in *bufio.Reader, opened *error) {
	t.Helper()
	opened = new(error)
	l, err := s.conns.Open(listen.Door{Name: "imap", Network: "tcp", Address: "127.0.0.1:0",
		Serve: door(s, account, opened)})
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	return c.(*net.TCPConn), bufio.NewReader(c), opened
}

func expect(t *testing.T, in *bufio.Reader, want string) {
	t.Helper()
	if line, err := in.ReadString('\n'); err != nil || line != want+"\r\n" {
		t.Fatalf("got %q, %v; want %q", line, err, want)
	}
}

// TestForward checks that the client's input reaches the same door of the home, as the authenticated person and with
// the client's own address. No early input is lost. The database is in use meanwhile.
func TestForward(t *testing.T) {
	t.Parallel()
	front, home := servers(t)
	home.Add("imap", door(home, anna, new(error)))
	c, in, _ := client(t, front, anna)
	_, _ = io.WriteString(c, "login\r\nahead\r\n")
	expect(t, in, "OK login")
	expect(t, in, "Anna 127.0.0.1 ahead")
	if n := home.place.uses.Load(); n != 1 {
		t.Errorf("held by %d", n)
	}
	long := strings.Repeat("x", 900)
	for range 200 {
		_, _ = io.WriteString(c, long+"\r\n")
		expect(t, in, "Anna 127.0.0.1 "+long)
	}
	_, _ = io.WriteString(c, "QUIT\r\n")
	expect(t, in, "Anna 127.0.0.1 QUIT")
	if _, err := in.ReadByte(); err != io.EOF {
		t.Errorf("after the end: %v", err)
	}
	for deadline := time.Now().Add(5 * time.Second); home.place.uses.Load() != 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the database is held for ever")
		}
	}
}

// TestHere checks that a session whose mail file is here is served here, and keeps the database in use.
func TestHere(t *testing.T) {
	t.Parallel()
	_, home := servers(t)
	c, in, _ := client(t, home, anna)
	_, _ = io.WriteString(c, "login\r\nhello\r\n")
	expect(t, in, "OK login")
	expect(t, in, "Anna 127.0.0.1 hello")
	if n := home.place.uses.Load(); n != 1 {
		t.Errorf("held by %d", n)
	}
	if x, err := (*Service)(nil).Open(nil, "imap", &anna); err != nil || !x.Here() {
		t.Errorf("a server alone: %v %v", x, err)
	}
}

// TestRefused checks that the sign-in fails if there is no home, or if the home lacks the person, the mail file or the
// door.
func TestRefused(t *testing.T) {
	t.Parallel()
	for name, break_ := range map[string]func(front, home *server) signin.Account{
		"no home": func(front, _ *server) signin.Account { front.place.none.Store(true); return anna },
		"no door": func(_, _ *server) signin.Account { return anna },
		"moved":   func(_, home *server) signin.Account { home.place.self.Store(false); return anna },
		"stranger": func(_, _ *server) signin.Account {
			return signin.Account{Database: 7, Who: note.Who{Person: note.UNID{5}}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			front, home := servers(t)
			if name != "no door" {
				home.Add("imap", door(home, anna, new(error)))
			}
			c, in, opened := client(t, front, break_(front, home))
			_, _ = io.WriteString(c, "login\r\n")
			expect(t, in, "NO")
			if !errors.Is(*opened, ErrNoHome) {
				t.Errorf("%v", *opened)
			}
			if n := home.place.uses.Load(); n != 0 {
				t.Errorf("held by %d", n)
			}
			if waited := front.clock.waited(); (name == "no home" || name == "moved") &&
				(waited < patience || waited > 2*patience) {
				t.Errorf("it waited for %s", waited)
			}
		})
	}
}

// TestHomeMoves checks that a sign-in during a move or an election, or while the home starts, waits for the home.
func TestHomeMoves(t *testing.T) {
	t.Parallel()
	for name, back := range map[string]func(front, home *server) func(){
		"found": func(front, _ *server) func() {
			front.place.none.Store(true)
			return func() { front.place.none.Store(false) }
		},
		"moved": func(_, home *server) func() {
			home.place.self.Store(false)
			return func() { home.place.self.Store(true) }
		},
		"starting": func(_, home *server) func() {
			doors := home.wire.takes(nil)
			return func() { home.wire.takes(doors) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			front, home := servers(t)
			home.Add("imap", door(home, anna, new(error)))
			there := back(front, home)
			front.clock.third = there
			c, in, _ := client(t, front, anna)
			_, _ = io.WriteString(c, "login\r\nhello\r\n")
			expect(t, in, "OK login")
			expect(t, in, "Anna 127.0.0.1 hello")
		})
	}
}

// TestHomeLost checks that the client is told and disconnected when the home dies, and when this server stops.
func TestHomeLost(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"home", "front"} {
		front, home := servers(t)
		home.Add("imap", door(home, anna, new(error)))
		c, in, _ := client(t, front, anna)
		_, _ = io.WriteString(c, "login\r\nhello\r\n")
		expect(t, in, "OK login")
		expect(t, in, "Anna 127.0.0.1 hello")
		if how == "home" {
			_ = front.wire.first().SetLinger(0)
			_ = front.wire.first().Close()
		} else {
			go func() { _ = front.conns.Shutdown(context.Background()) }()
		}
		expect(t, in, "BYE")
		if _, err := in.ReadByte(); err == nil {
			t.Error("the connection goes on")
		}
	}
}
