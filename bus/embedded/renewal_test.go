package embedded

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"doublet/bus"
	"doublet/bus/bustest"
	"doublet/bus/natsbus"
	"doublet/bus/pki"
	"doublet/stat"
)

// openAt opens the bus of the n-th server of a cluster with a clock that is ahead of the system's by by.
func openAt(t *testing.T, f *bustest.Founded, h *host, n int, by time.Duration, s *stat.Tree) *Bus {
	t.Helper()
	clock := &atomic.Int64{}
	clock.Store(int64(by))
	e := *f.Env.Env
	e.Clock = moving{f.Env.Clock, clock}
	folder, err := pki.Open(&e, fmt.Sprintf("data-%d/cluster", n), pki.Options{})
	if err != nil {
		t.Fatal(err)
	}
	h.folder = folder
	x, err := Open(&e, Options{Options: natsbus.Options{Identity: folder, Listen: "127.0.0.1:0", Stats: s},
		Routes: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = x.Close() })
	h.member.Direct, h.member.Route = x.Direct(), x.Routes()
	return x
}

// TestRenewalAgain checks that a renewal that failed without a reachable holder of the authority's key is retried soon
// after one is reachable.
func TestRenewalAgain(t *testing.T) {
	t.Parallel()
	f := bustest.Found(t)
	w := world{f}
	a, b := w.server("a"), w.server("b") // a holds the authority's key
	stats := stat.New(f.Env.Clock)
	x, y := openAt(t, f, a, 1, 70*24*time.Hour, nil), openAt(t, f, b, 2, 70*24*time.Hour, stats)
	until := b.folder.Identity().Until
	bustest.Eventually(t, "the first renewal fails", func() error {
		if counter(stats, "Bus.CertificatesNotRenewed") == 0 {
			return errors.New("none failed")
		}
		return nil
	})
	members := []bus.Member{a.member, b.member}
	x.SetMembers(members)
	y.SetMembers(members)
	bustest.Eventually(t, "b is renewed", func() error {
		if now := b.folder.Identity().Until; !now.After(until) {
			return fmt.Errorf("until %s", now)
		}
		return nil
	})
}

// TestDeadlineUnderOtherClock checks that the handler gets the asker's deadline. The environment's clock may be far
// ahead of the system's, which contexts use.
func TestDeadlineUnderOtherClock(t *testing.T) {
	t.Parallel()
	f := bustest.Found(t)
	w := world{f}
	a, b := w.server("a"), w.server("b")
	x, y := openAt(t, f, a, 1, 24*time.Hour, nil), openAt(t, f, b, 2, 24*time.Hour, nil)
	left := make(chan time.Duration, 1)
	y.Handle("test.left", func(ctx context.Context, _ bus.ServerID, _ []byte) ([]byte, error) {
		end, _ := ctx.Deadline()
		select {
		case left <- time.Until(end):
		default:
		}
		return nil, nil
	})
	members := []bus.Member{a.member, b.member}
	x.SetMembers(members)
	y.SetMembers(members)
	bustest.Eventually(t, "they meet", func() error {
		_, err := x.Request(short(t, time.Hour), y.Self(), "test.left", nil)
		return err
	})
	if got := <-left; got > time.Hour || got < 30*time.Minute {
		t.Errorf("of an hour %s are left", got)
	}
}
