// Package bustest has the conformance tests for implementations of bus.Bus.
package bustest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"doublet/bus"
)

// World makes servers of one cluster.
type World interface {
	// Server makes a server without starting it.
	Server(name string) Server
}

// Server can be started, and started again after its bus was closed.
type Server interface {
	// Start opens its bus. setup registers handlers.
	Start(grant bus.Grant, setup func(bus.Bus)) bus.Bus
	// Member returns the server's entry for the member lists, valid since the last Start.
	Member() bus.Member
}

// Run runs the suite over worlds made by mk.
func Run(t *testing.T, mk func(t *testing.T) World) {
	for _, c := range []struct {
		name string
		fn   func(t *testing.T, w World)
	}{
		{"request", testRequest}, {"too big", testTooBig}, {"no server", testNoServer}, {"refused", testRefused},
		{"no answer", testNoAnswer}, {"credits", testCredits}, {"bytes", testBytes}, {"broadcast", testBroadcast},
		{"probe", testProbe},
		{"stream", testStream}, {"stream ends", testStreamEnds}, {"stream half", testStreamHalf},
		{"removed", testRemoved}, {"restart", testRestart}, {"dies", testDies},
		{"crowd", testCrowd}, {"nested", testNested}, {"close", testClose}, {"verbs", testVerbs},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			c.fn(t, mk(t))
		})
	}
}

// node is a running server.
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

// meet sets the full member list on every server and waits until all can reach each other.
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

// Eventually waits until fn returns no error, for at most 20 s.
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

// short returns a context for one answer, long one for a long exchange.
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
