package bustest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"doublet/bus"
)

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
	if len(p) != 1 || p[0].ID != b.Self() || !p[0].Connected || p[0].RTT <= 0 || p[0].Heard.IsZero() ||
		p[0].Instance == 0 || p[0].Error != "" {
		t.Errorf("peers: %+v", p)
	}
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := a.Probe(gone, b.Self())
	wantError(t, "a probe without time", err, context.Canceled)
}

func testRemoved(t *testing.T, w World) {
	nodes := start(t, w, 3, bus.Grant{}, func(_ int, b bus.Bus) {
		b.HandleStream("test.s", func(context.Context, bus.ServerID, []byte, bus.Stream) error { return nil })
	})
	a, b, c := nodes[0], nodes[1], nodes[2]
	// b removes a, which does not know it yet.
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
		t.Error("served a stream of a removed server")
	}
	if _, err := a.Probe(short(t), b.Self()); err == nil {
		t.Error("answered a probe of a removed server")
	}
	_, err = b.Request(short(t), a.Self(), "test.here", nil)
	wantError(t, "a request to a server that was removed", err, bus.ErrNoServer)
	if _, err := c.Request(short(t), a.Self(), "test.here", nil); err != nil {
		t.Errorf("others are not touched: %v", err)
	}
	if p := b.Peers(); len(p) != 1 || p[0].ID != c.Self() {
		t.Errorf("peers: %+v", p)
	}
	meet(t, nodes) // add it again
}

func testRestart(t *testing.T, w World) {
	setup := func(name string) func(bus.Bus) {
		return func(b bus.Bus) {
			b.Handle("test.here", func(context.Context, bus.ServerID,
				[]byte) ([]byte, error) {
				return []byte(name), nil
			})
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
		t.Error("stream opened after Close")
	}
}
