package bustest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"doublet/bus"
)

func testRequest(t *testing.T, w World) {
	nodes := start(t, w, 2, bus.Grant{}, func(_ int, b bus.Bus) {
		b.Handle("test.turn", func(_ context.Context, _ bus.ServerID, body []byte) ([]byte, error) {
			slices.Reverse(body) // the handler owns body
			return body, nil
		})
		b.Handle("test.who", func(_ context.Context, from bus.ServerID,
			_ []byte) ([]byte, error) {
			return from[:], nil
		})
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
		b.Handle("test.big", func(context.Context, bus.ServerID,
			[]byte) ([]byte, error) {
			return make([]byte, bus.MaxBody+1), nil
		})
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
		t.Error("removed server answers probes")
	}
}

func testRefused(t *testing.T, w World) {
	nodes := start(t, w, 2, bus.Grant{}, func(_ int, b bus.Bus) {
		b.Handle("test.fails", func(context.Context, bus.ServerID, []byte) ([]byte, error) {
			return nil, errors.New("disk full")
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
		"test.fails": {bus.CodeFailed, "disk full"}, "test.gap": {"gap", "a page is missing"},
		"test.unknown": {bus.CodeNoVerb, "test.unknown"},
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
		t.Error("handler was not told that the caller gave up")
	}
	if out, err := a.Request(long(t), b.Self(), "test.echo", []byte("x")); err != nil || string(out) != "x" {
		t.Errorf("after that: %q, %v", out, err)
	}
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = a.Request(gone, b.Self(), "test.echo", nil)
	wantError(t, "a request whose time was over before", err, context.Canceled)
}

// valve counts the handlers that run and blocks them.
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
	nodes := start(t, w, 2, bus.Grant{Requests: granted, Bytes: 1 << 20},
		func(_ int, b bus.Bus) { b.Handle("test.slow", v.handle) })
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
	// A request without a credit at its deadline fails and is never sent.
	_, err := a.Request(within(t, 50*time.Millisecond), b.Self(), "test.slow", nil)
	wantError(t, "no credit in time", err, bus.ErrNoServer, context.DeadlineExceeded)
	// Probes need no credit.
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
	nodes := start(t, w, 2, bus.Grant{Requests: 100, Bytes: 100 << 10},
		func(_ int, b bus.Bus) { b.Handle("test.slow", v.handle) })
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
	ask(200 << 10) // larger than the grant: it runs alone
	close(v.open)
	done.Wait()
}

func testCrowd(t *testing.T, w World) {
	nodes := start(t, w, 3, bus.Grant{Requests: 8, Bytes: 1 << 20},
		func(_ int, b bus.Bus) { b.Handle("test.echo", echo) })
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
		// It counts down by asking the other server.
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
