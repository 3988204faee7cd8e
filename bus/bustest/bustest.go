// Package bustest is the conduct that every implementation of bus.Bus is held to.
package bustest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"doublet/bus"
)

// World makes servers of one cluster.
type World interface {
	// Server makes a server that has not been started.
	Server(name string) Server
}

// Server is one that can be started, and again after its bus was closed.
type Server interface {
	// Start opens its bus. setup registers handlers.
	Start(grant bus.Grant, setup func(bus.Bus)) bus.Bus
	// Member is what the others know of it since the last Start.
	Member() bus.Member
}

// Run runs the suite over worlds made by mk.
func Run(t *testing.T, mk func(t *testing.T) World) {
	for _, c := range []struct {
		name string
		fn   func(t *testing.T, w World)
	}{
		{"request", testRequest}, {"too big", testTooBig}, {"no server", testNoServer}, {"refused", testRefused},
		{"no answer", testNoAnswer}, {"credits", testCredits}, {"bytes", testBytes}, {"broadcast", testBroadcast}, {"probe", testProbe},
		{"stream", testStream}, {"stream ends", testStreamEnds}, {"stream half", testStreamHalf}, {"removed", testRemoved}, {"restart", testRestart}, {"dies", testDies},
		{"crowd", testCrowd}, {"nested", testNested}, {"close", testClose}, {"verbs", testVerbs},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			c.fn(t, mk(t))
		})
	}
}

// node is a server that runs.
type node struct {
	bus.Bus
	s Server
}

// start starts servers and makes them members of one cluster.
func start(t *testing.T, w World, n int, grant bus.Grant, setup func(i int, b bus.Bus)) []*node {
	t.Helper()
	all := make([]*node, n)
	for i := range all {
		s := w.Server(fmt.Sprintf("server-%d", i))
		b := s.Start(grant, func(b bus.Bus) {
			b.Handle("test.here", func(context.Context, bus.ServerID, []byte) ([]byte, error) { return nil, nil })
			if setup != nil {
				setup(i, b)
			}
		})
		all[i] = &node{b, s}
		t.Cleanup(func() { _ = all[i].Close() })
	}
	meet(t, all)
	return all
}

// meet tells every server of all and waits until each reaches each.
func meet(t *testing.T, all []*node) {
	t.Helper()
	members := make([]bus.Member, len(all))
	for i, n := range all {
		members[i] = n.s.Member()
	}
	for _, n := range all {
		n.SetMembers(members)
	}
	for _, from := range all {
		for _, to := range all {
			if from != to {
				Eventually(t, "they reach each other", func() error {
					_, err := from.Request(short(t), to.Self(), "test.here", nil)
					return err
				})
			}
		}
	}
}

// Eventually waits until fn has no error.
func Eventually(t *testing.T, what string, fn func() error) {
	t.Helper()
	var err error
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if err = fn(); err == nil {
			return
		}
	}
	t.Fatalf("%s: %v", what, err)
}

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// short is time enough for an answer, long for a test.
func short(t *testing.T) context.Context { return within(t, 5*time.Second) }
func long(t *testing.T) context.Context  { return within(t, 30*time.Second) }

func echo(_ context.Context, _ bus.ServerID, body []byte) ([]byte, error) { return body, nil }

func random(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
	return b
}

func wantError(t *testing.T, what string, err error, want ...error) {
	t.Helper()
	for _, w := range want {
		if !errors.Is(err, w) {
			t.Errorf("%s: %v, want %v", what, err, w)
		}
	}
}

func testRequest(t *testing.T, w World) {
	nodes := start(t, w, 2, bus.Grant{}, func(_ int, b bus.Bus) {
		b.Handle("test.turn", func(_ context.Context, _ bus.ServerID, body []byte) ([]byte, error) {
			slices.Reverse(body) // it is the handler's
			return body, nil
		})
		b.Handle("test.who", func(_ context.Context, from bus.ServerID, _ []byte) ([]byte, error) { return from[:], nil })
	})
	a, b := nodes[0], nodes[1]
	for _, n := range []int{0, 1, 100, 4096, 65_536, 192 << 10, bus.MaxBody} {
		body := random(n)
		sent := bytes.Clone(body)
		out, err := a.Request(long(t), b.Self(), "test.turn", body)
		slices.Reverse(out)
		if err != nil || !bytes.Equal(out, sent) {
			t.Fatalf("%d bytes: %d came back, %v", n, len(out), err)
		}
		if !bytes.Equal(body, sent) {
			t.Fatalf("%d bytes: the body was changed", n)
		}
	}
	for _, from := range nodes {
		for _, to := range nodes {
			if from == to {
				continue
			}
			out, err := from.Request(long(t), to.Self(), "test.who", nil)
			if id := from.Self(); err != nil || !bytes.Equal(out, id[:]) {
				t.Errorf("%s seems to be %x, %v", from.Self(), out, err)
			}
		}
	}
}

func testTooBig(t *testing.T, w World) {
	nodes := start(t, w, 2, bus.Grant{}, func(_ int, b bus.Bus) {
		b.Handle("test.echo", echo)
		b.Handle("test.big", func(context.Context, bus.ServerID, []byte) ([]byte, error) { return make([]byte, bus.MaxBody+1), nil })
	})
	a, b := nodes[0], nodes[1]
	_, err := a.Request(long(t), b.Self(), "test.echo", make([]byte, bus.MaxBody+1))
	wantError(t, "a question over the limit", err, bus.ErrTooBig)
	_, err = a.Request(long(t), b.Self(), "test.big", nil)
	wantError(t, "an answer over the limit", err, bus.ErrTooBig, bus.ErrRefused)
	wantError(t, "a broadcast over the limit", a.Broadcast("test.echo", make([]byte, bus.MaxBody+1)), bus.ErrTooBig)
	_, err = a.Stream(long(t), b.Self(), "test.s", make([]byte, bus.MaxHeader+1))
	wantError(t, "a header over the limit", err, bus.ErrTooBig)
	if out, err := a.Request(long(t), b.Self(), "test.echo", []byte("x")); err != nil || string(out) != "x" {
		t.Errorf("after all that: %q, %v", out, err)
	}
}

func testNoServer(t *testing.T, w World) {
	nodes := start(t, w, 2, bus.Grant{}, nil)
	a, b := nodes[0], nodes[1]
	stranger := w.Server("stranger").Member().ID
	if stranger.IsZero() {
		stranger = bus.ServerID{1, 2, 3}
	}
	for name, id := range map[string]bus.ServerID{"a stranger": stranger, "nobody": {}, "itself": a.Self()} {
		_, err := a.Request(short(t), id, "test.here", nil)
		wantError(t, name, err, bus.ErrNoServer)
		_, err = a.Probe(short(t), id)
		wantError(t, "probe of "+name, err, bus.ErrNoServer)
		_, err = a.Stream(short(t), id, "test.s", nil)
		wantError(t, "stream to "+name, err, bus.ErrNoServer)
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	Eventually(t, "a server that went is missed", func() error {
		_, err := a.Request(short(t), b.Self(), "test.here", nil)
		if errors.Is(err, bus.ErrNoServer) {
			return nil
		}
		return fmt.Errorf("request: %w", err)
	})
	_, err := a.Stream(short(t), b.Self(), "test.s", nil)
	wantError(t, "stream to one that went", err, bus.ErrNoServer)
	if _, err = a.Probe(short(t), b.Self()); err == nil {
		t.Error("a server that went answers probes")
	}
}

func testRefused(t *testing.T, w World) {
	nodes := start(t, w, 2, bus.Grant{}, func(_ int, b bus.Bus) {
		b.Handle("test.fails", func(context.Context, bus.ServerID, []byte) ([]byte, error) {
			return nil, errors.New("the disk is full")
		})
		b.Handle("test.gap", func(context.Context, bus.ServerID, []byte) ([]byte, error) {
			return nil, fmt.Errorf("apply: %w", bus.Refuse("gap", "a page is missing"))
		})
		b.Handle("test.talks", func(context.Context, bus.ServerID, []byte) ([]byte, error) {
			return nil, bus.Refuse(strings.Repeat("c", 1000), strings.Repeat("t", 100_000))
		})
	})
	a, b := nodes[0], nodes[1]
	for verb, want := range map[string][2]string{
		"test.fails": {bus.CodeFailed, "the disk is full"}, "test.gap": {"gap", "a page is missing"}, "test.unknown": {bus.CodeNoVerb, "test.unknown"},
	} {
		_, err := a.Request(short(t), b.Self(), verb, nil)
		wantError(t, verb, err, bus.ErrRefused)
		if bus.Code(err) != want[0] || !strings.Contains(err.Error(), want[1]) {
			t.Errorf("%s: code %q of %v", verb, bus.Code(err), err)
		}
	}
	_, err := a.Request(short(t), b.Self(), "test.talks", nil)
	wantError(t, "a long refusal", err, bus.ErrRefused)
	if err != nil && len(err.Error()) > 8<<10 {
		t.Errorf("a refusal of %d bytes came", len(err.Error()))
	}
}

func testNoAnswer(t *testing.T, w World) {
	ended := make(chan error, 1)
	nodes := start(t, w, 2, bus.Grant{}, func(_ int, b bus.Bus) {
		b.Handle("test.hangs", func(ctx context.Context, _ bus.ServerID, _ []byte) ([]byte, error) {
			select {
			case <-ctx.Done():
				ended <- ctx.Err()
			case <-time.After(20 * time.Second):
				ended <- nil
			}
			return nil, ctx.Err()
		})
		b.Handle("test.echo", echo)
	})
	a, b := nodes[0], nodes[1]
	before := time.Now()
	_, err := a.Request(within(t, 200*time.Millisecond), b.Self(), "test.hangs", nil)
	wantError(t, "a handler that hangs", err, bus.ErrNoAnswer, context.DeadlineExceeded)
	if took := time.Since(before); took > 5*time.Second {
		t.Errorf("that took %s", took)
	}
	if err := <-ended; err == nil {
		t.Error("the handler was not told that nobody waits any more")
	}
	if out, err := a.Request(long(t), b.Self(), "test.echo", []byte("x")); err != nil || string(out) != "x" {
		t.Errorf("after that: %q, %v", out, err)
	}
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = a.Request(gone, b.Self(), "test.echo", nil)
	wantError(t, "a request whose time was over before", err, context.Canceled)
}

// valve counts who is inside and holds them.
type valve struct {
	inside, most, all atomic.Int64
	open              chan struct{}
}

func (v *valve) handle(ctx context.Context, _ bus.ServerID, body []byte) ([]byte, error) {
	n := v.inside.Add(1)
	defer v.inside.Add(-1)
	v.all.Add(1)
	for {
		most := v.most.Load()
		if n <= most || v.most.CompareAndSwap(most, n) {
			break
		}
	}
	select {
	case <-v.open:
		return body, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func testCredits(t *testing.T, w World) {
	v := &valve{open: make(chan struct{})}
	const granted, asked = 4, 12
	nodes := start(t, w, 2, bus.Grant{Requests: granted, Bytes: 1 << 20}, func(_ int, b bus.Bus) { b.Handle("test.slow", v.handle) })
	a, b := nodes[0], nodes[1]
	var done sync.WaitGroup
	var failed atomic.Int64
	for range asked {
		done.Go(func() {
			if _, err := a.Request(long(t), b.Self(), "test.slow", []byte("x")); err != nil {
				t.Errorf("a request that waited: %v", err)
				failed.Add(1)
			}
		})
	}
	Eventually(t, "the mate is full and the others wait", func() error {
		p := a.Peers()[0]
		if v.inside.Load() != granted || p.InFlight != granted || p.Waiting != asked-granted {
			return fmt.Errorf("%d inside, %d in flight, %d waiting", v.inside.Load(), p.InFlight, p.Waiting)
		}
		return nil
	})
	// Who has no time to wait goes away, and nothing was asked.
	_, err := a.Request(within(t, 50*time.Millisecond), b.Self(), "test.slow", nil)
	wantError(t, "no credit in time", err, bus.ErrNoServer, context.DeadlineExceeded)
	// Probes go past.
	if _, err := a.Probe(short(t), b.Self()); err != nil {
		t.Errorf("a probe of a mate that is full: %v", err)
	}
	close(v.open)
	done.Wait()
	if v.most.Load() != granted || v.all.Load() != asked {
		t.Errorf("%d at one time of %d granted, %d of %d in all", v.most.Load(), granted, v.all.Load(), asked)
	}
	if p := a.Peers()[0]; p.InFlight != 0 || p.Waiting != 0 {
		t.Errorf("at the end %d in flight, %d waiting", p.InFlight, p.Waiting)
	}
}

func testBytes(t *testing.T, w World) {
	v := &valve{open: make(chan struct{})}
	nodes := start(t, w, 2, bus.Grant{Requests: 100, Bytes: 100 << 10}, func(_ int, b bus.Bus) { b.Handle("test.slow", v.handle) })
	a, b := nodes[0], nodes[1]
	var done sync.WaitGroup
	ask := func(n int) {
		done.Go(func() {
			if out, err := a.Request(long(t), b.Self(), "test.slow", make([]byte, n)); err != nil || len(out) != n {
				t.Errorf("%d bytes: %d, %v", n, len(out), err)
			}
		})
	}
	for range 5 {
		ask(40 << 10)
	}
	Eventually(t, "bytes are what holds back", func() error {
		if p := a.Peers()[0]; v.inside.Load() != 2 || p.Waiting != 3 {
			return fmt.Errorf("%d inside, %d waiting", v.inside.Load(), p.Waiting)
		}
		return nil
	})
	ask(200 << 10) // more than is granted: it goes alone
	close(v.open)
	done.Wait()
}

func testBroadcast(t *testing.T, w World) {
	var mu sync.Mutex
	heard := map[int]int{}
	nodes := start(t, w, 3, bus.Grant{}, func(i int, b bus.Bus) {
		b.Handle("test.news", func(_ context.Context, _ bus.ServerID, body []byte) ([]byte, error) {
			mu.Lock()
			defer mu.Unlock()
			if string(body) == "news" {
				heard[i]++
			}
			return []byte("nobody wants that"), nil
		})
	})
	if err := nodes[0].Broadcast("test.news", []byte("news")); err != nil {
		t.Fatal(err)
	}
	if err := nodes[0].Broadcast("test.unheard-of", nil); err != nil {
		t.Fatal(err)
	}
	Eventually(t, "news reach the others", func() error {
		mu.Lock()
		defer mu.Unlock()
		if heard[1] != 1 || heard[2] != 1 || heard[0] != 0 {
			return fmt.Errorf("heard: %v", heard)
		}
		return nil
	})
}

func testProbe(t *testing.T, w World) {
	nodes := start(t, w, 2, bus.Grant{}, nil)
	a, b := nodes[0], nodes[1]
	for range 10 {
		if took, err := a.Probe(short(t), b.Self()); err != nil || took <= 0 || took > time.Second {
			t.Fatalf("probe: %s, %v", took, err)
		}
	}
	p := a.Peers()
	if len(p) != 1 || p[0].ID != b.Self() || !p[0].Connected || p[0].RTT <= 0 || p[0].Heard.IsZero() || p[0].Instance == 0 || p[0].Error != "" {
		t.Errorf("peers: %+v", p)
	}
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := a.Probe(gone, b.Self())
	wantError(t, "a probe without time", err, context.Canceled)
}

func testStream(t *testing.T, w World) {
	nodes := start(t, w, 2, bus.Grant{}, func(_ int, b bus.Bus) {
		// Sends the digest of what it reads, then as many bytes as the header has, times 1,000.
		b.HandleStream("test.both", func(_ context.Context, from bus.ServerID, header []byte, s bus.Stream) error {
			h := sha256.New()
			if _, err := io.Copy(h, s); err != nil {
				return err
			}
			if _, err := s.Write(append(h.Sum(nil), from[:]...)); err != nil {
				return err
			}
			for range 1000 {
				if _, err := s.Write(header); err != nil {
					return err
				}
			}
			return nil
		})
		// Answers each line.
		b.HandleStream("test.talk", func(_ context.Context, _ bus.ServerID, _ []byte, s bus.Stream) error {
			buf := make([]byte, 100)
			for {
				n, err := s.Read(buf)
				if errors.Is(err, io.EOF) {
					_, err = s.Write([]byte("bye"))
					return err
				}
				if err != nil {
					return err
				}
				if _, err := s.Write(bytes.ToUpper(buf[:n])); err != nil {
					return err
				}
			}
		})
	})
	a, b := nodes[0], nodes[1]
	for _, size := range []int{0, 1, 100_000, 3_000_000} {
		header := random(min(size, 2000))
		s, err := a.Stream(long(t), b.Self(), "test.both", header)
		if err != nil {
			t.Fatal(err)
		}
		body := random(size)
		if n, err := s.Write(body); err != nil || n != size {
			t.Fatalf("write: %d, %v", n, err)
		}
		if err := s.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		back, err := io.ReadAll(s)
		sum, self := sha256.Sum256(body), a.Self()
		want := append(append(sum[:], self[:]...), bytes.Repeat(header, 1000)...)
		if err != nil || !bytes.Equal(back, want) {
			t.Fatalf("%d bytes: %d came back of %d, %v", size, len(back), len(want), err)
		}
		if _, err := s.Write([]byte("more")); err == nil {
			t.Error("a write behind the end went")
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	s, err := a.Stream(long(t), b.Self(), "test.talk", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for range 50 {
		if _, err := s.Write([]byte("hello")); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 5)
		if _, err := io.ReadFull(s, buf); err != nil || string(buf) != "HELLO" {
			t.Fatalf("%q, %v", buf, err)
		}
	}
	if err := s.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(s); err != nil || string(rest) != "bye" {
		t.Errorf("%q, %v", rest, err)
	}
}

func testStreamEnds(t *testing.T, w World) {
	ended := make(chan error, 10)
	nodes := start(t, w, 2, bus.Grant{}, func(_ int, b bus.Bus) {
		b.HandleStream("test.fails", func(_ context.Context, _ bus.ServerID, _ []byte, s bus.Stream) error {
			if _, err := s.Write([]byte("half")); err != nil {
				return err
			}
			return bus.Refuse("gone", "the object is gone")
		})
		b.HandleStream("test.reads", func(_ context.Context, _ bus.ServerID, _ []byte, s bus.Stream) error {
			_, err := io.Copy(io.Discard, s)
			ended <- err
			return err
		})
	})
	a, b := nodes[0], nodes[1]
	for range 3 { // also over a connection that was used before
		s, err := a.Stream(long(t), b.Self(), "test.fails", nil)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(s)
		wantError(t, "a handler that fails", err, bus.ErrRefused)
		if string(data) != "half" || bus.Code(err) != "gone" {
			t.Errorf("a handler that fails: %q, code %q", data, bus.Code(err))
		}
		_ = s.Close()
		_, err = a.Stream(long(t), b.Self(), "test.unknown", nil)
		wantError(t, "no such stream", err, bus.ErrRefused)
		if bus.Code(err) != bus.CodeNoVerb {
			t.Errorf("no such stream: code %q", bus.Code(err))
		}
	}
	// Who gives up in the middle is told from who has ended.
	s, err := a.Stream(long(t), b.Self(), "test.reads", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Write([]byte("half an obj")); err != nil {
		t.Fatal(err)
	}
	_ = s.Close()
	given := <-ended
	wantError(t, "a stream given up", given, bus.ErrNoAnswer)
	if errors.Is(given, io.EOF) {
		t.Errorf("a stream given up looks like one that ended: %v", given)
	}
	if s, err = a.Stream(long(t), b.Self(), "test.reads", nil); err != nil {
		t.Fatal(err)
	}
	if err := s.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(s); err != nil || len(rest) > 0 {
		t.Errorf("%q, %v", rest, err)
	}
	if err := <-ended; err != nil {
		t.Errorf("a stream that has ended: %v", err)
	}
	_ = s.Close()
}

// testStreamHalf: who leaves a stream in the middle, on either side, leaves nothing of it in the next.
func testStreamHalf(t *testing.T, w World) {
	nodes := start(t, w, 2, bus.Grant{}, func(_ int, b bus.Bus) {
		b.HandleStream("test.much", func(_ context.Context, _ bus.ServerID, _ []byte, s bus.Stream) error {
			_, err := s.Write(make([]byte, 100_000))
			return err
		})
		b.HandleStream("test.deaf", func(context.Context, bus.ServerID, []byte, bus.Stream) error { return nil })
		b.HandleStream("test.name", func(_ context.Context, _ bus.ServerID, header []byte, s bus.Stream) error {
			_, err := s.Write(header)
			return err
		})
	})
	a, b := nodes[0], nodes[1]
	for i := range 12 {
		verb := []string{"test.much", "test.deaf", "test.name"}[i%3]
		name := fmt.Sprintf("stream %d", i)
		s, err := a.Stream(long(t), b.Self(), verb, []byte(name))
		if err != nil {
			t.Fatalf("%s, %s: %v", name, verb, err)
		}
		switch verb {
		case "test.much":
			_ = s.CloseWrite()
			if _, err := io.ReadFull(s, make([]byte, 5000)); err != nil {
				t.Fatal(err)
			}
		case "test.deaf":
			_, _ = s.Write(make([]byte, 1_000_000)) // it may be told that nobody wants it
			_ = s.CloseWrite()
		default:
			if out, err := io.ReadAll(s); err != nil || string(out) != name {
				t.Errorf("%s: %q, %v", name, out, err)
			}
		}
		_ = s.Close()
	}
}

func testRemoved(t *testing.T, w World) {
	nodes := start(t, w, 3, bus.Grant{}, func(_ int, b bus.Bus) {
		b.HandleStream("test.s", func(context.Context, bus.ServerID, []byte, bus.Stream) error { return nil })
	})
	a, b, c := nodes[0], nodes[1], nodes[2]
	// b takes a out; a does not know yet.
	b.SetMembers([]bus.Member{b.s.Member(), c.s.Member()})
	_, err := a.Request(short(t), b.Self(), "test.here", nil)
	if err == nil {
		t.Fatal("a request of a server that was removed was answered")
	}
	Eventually(t, "a server that was removed hears so", func() error {
		_, err := a.Request(short(t), b.Self(), "test.here", nil)
		if errors.Is(err, bus.ErrNoServer) && bus.Code(err) == bus.CodeStranger {
			return nil
		}
		return fmt.Errorf("request: %w", err)
	})
	if _, err := a.Stream(short(t), b.Self(), "test.s", nil); err == nil {
		t.Error("a stream of a server that was removed was served")
	}
	if _, err := a.Probe(short(t), b.Self()); err == nil {
		t.Error("a probe of a server that was removed was answered")
	}
	_, err = b.Request(short(t), a.Self(), "test.here", nil)
	wantError(t, "a request to a server that was removed", err, bus.ErrNoServer)
	if _, err := c.Request(short(t), a.Self(), "test.here", nil); err != nil {
		t.Errorf("others are not touched: %v", err)
	}
	if p := b.Peers(); len(p) != 1 || p[0].ID != c.Self() {
		t.Errorf("peers: %+v", p)
	}
	meet(t, nodes) // and in again
}

func testRestart(t *testing.T, w World) {
	setup := func(name string) func(bus.Bus) {
		return func(b bus.Bus) {
			b.Handle("test.here", func(context.Context, bus.ServerID, []byte) ([]byte, error) { return []byte(name), nil })
		}
	}
	sa, sb := w.Server("a"), w.Server("b")
	a := &node{sa.Start(bus.Grant{}, setup("a")), sa}
	b := &node{sb.Start(bus.Grant{}, setup("b")), sb}
	t.Cleanup(func() { _ = a.Close() })
	meet(t, []*node{a, b})
	was := a.Peers()[0].Instance
	for i := range 2 {
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		Eventually(t, "it is missed", func() error {
			if p := a.Peers()[0]; p.Connected {
				return errors.New("still connected")
			}
			return nil
		})
		name := fmt.Sprintf("b again %d", i)
		b = &node{sb.Start(bus.Grant{}, setup(name)), sb}
		meet(t, []*node{a, b})
		if out, err := a.Request(long(t), b.Self(), "test.here", nil); err != nil || string(out) != name {
			t.Errorf("%q, %v", out, err)
		}
		if _, err := b.Request(long(t), a.Self(), "test.here", nil); err != nil {
			t.Error(err)
		}
		if p := a.Peers()[0]; p.Instance == was || !p.Connected {
			t.Errorf("its instance is %d as before, or it is not connected: %v", p.Instance, p.Connected)
		}
	}
	_ = b.Close()
}

func testDies(t *testing.T, w World) {
	v := &valve{open: make(chan struct{})}
	defer close(v.open)
	nodes := start(t, w, 2, bus.Grant{}, func(_ int, b bus.Bus) { b.Handle("test.slow", v.handle) })
	a, b := nodes[0], nodes[1]
	got := make(chan error, 1)
	go func() {
		_, err := a.Request(long(t), b.Self(), "test.slow", nil)
		got <- err
	}()
	Eventually(t, "it is asked", func() error {
		if v.inside.Load() != 1 {
			return errors.New("not yet")
		}
		return nil
	})
	before := time.Now()
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	wantError(t, "a server that dies while it is asked", <-got, bus.ErrNoAnswer)
	if took := time.Since(before); took > 10*time.Second {
		t.Errorf("that was told after %s", took)
	}
	if p := a.Peers()[0]; p.InFlight != 0 {
		t.Errorf("%d still in flight", p.InFlight)
	}
}

func testCrowd(t *testing.T, w World) {
	nodes := start(t, w, 3, bus.Grant{Requests: 8, Bytes: 1 << 20}, func(_ int, b bus.Bus) { b.Handle("test.echo", echo) })
	var done sync.WaitGroup
	for i := range 12 {
		from, to := nodes[i%3], nodes[(i+1+i/6)%3]
		done.Go(func() {
			for range 40 {
				body := random(int(rand.ExpFloat64() * 8000))
				body = body[:min(len(body), bus.MaxBody)]
				sent := sha256.Sum256(body)
				out, err := from.Request(long(t), to.Self(), "test.echo", body)
				if err != nil || sha256.Sum256(out) != sent {
					t.Errorf("%d bytes: %v", len(body), err)
					return
				}
			}
		})
	}
	done.Wait()
}

func testNested(t *testing.T, w World) {
	nodes := start(t, w, 2, bus.Grant{}, func(i int, b bus.Bus) {
		// Counts down, asking the other each time.
		b.Handle("test.down", func(ctx context.Context, from bus.ServerID, body []byte) ([]byte, error) {
			if body[0] == 0 {
				return []byte("ground"), nil
			}
			return b.Request(ctx, from, "test.down", []byte{body[0] - 1})
		})
	})
	out, err := nodes[0].Request(long(t), nodes[1].Self(), "test.down", []byte{9})
	if err != nil || string(out) != "ground" {
		t.Errorf("%q, %v", out, err)
	}
}

func testClose(t *testing.T, w World) {
	nodes := start(t, w, 2, bus.Grant{}, nil)
	a, b := nodes[0], nodes[1]
	for range 2 {
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
	}
	_, err := a.Request(short(t), b.Self(), "test.here", nil)
	wantError(t, "request after Close", err, bus.ErrClosed)
	wantError(t, "broadcast after Close", a.Broadcast("test.here", nil), bus.ErrClosed)
	_, err = a.Probe(short(t), b.Self())
	wantError(t, "probe after Close", err, bus.ErrClosed)
	if _, err = a.Stream(short(t), b.Self(), "test.s", nil); err == nil {
		t.Error("a stream after Close was opened")
	}
}

func testVerbs(t *testing.T, w World) {
	nodes := start(t, w, 2, bus.Grant{}, nil)
	panics := func(what string, fn func()) {
		t.Helper()
		defer func() {
			if recover() == nil {
				t.Errorf("%s is taken", what)
			}
		}()
		fn()
	}
	panics("the same verb twice", func() { nodes[0].Handle("test.here", echo) })
	for _, verb := range []string{"", "a b", "Up", "a\n", "ä", strings.Repeat("a", bus.MaxVerb+1)} {
		panics(fmt.Sprintf("the verb %q", verb), func() { nodes[0].Handle(verb, echo) })
		if _, err := nodes[0].Request(short(t), nodes[1].Self(), verb, nil); err == nil {
			t.Errorf("the verb %q was asked", verb)
		}
	}
}
