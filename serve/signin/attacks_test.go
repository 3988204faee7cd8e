package signin

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"doublet/env"
	"doublet/stat"
)

// TestAttacks checks that an account that many addresses try is reported with its failures, and no longer after the
// window.
func TestAttacks(t *testing.T) {
	t.Parallel()
	f := env.Test(t)
	s := &Service{}
	s.guard.init(f.Env, &Options{Failures: 1000, Stats: stat.New(f.Clock)})
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // nobody waits for the delay
	for i := range 60 {
		a := Attempt{Remote: netip.AddrFrom4([4]byte{192, 0, 2, byte(i % 2)}), Door: "imap"}
		s.guard.failed(ctx, &a, "ada", string(rune('a'+i)))
	}
	list := s.Attacks(50, 10)
	if len(list) != 1 || list[0] != (Attack{Account: "ada", Failures: 60}) {
		t.Errorf("%+v", list)
	}
	if list := s.Attacks(30, 10); len(list) != 3 || list[1].Address != "192.0.2.0" {
		t.Errorf("%+v", list)
	}
	f.Time.Advance(time.Hour)
	if list := s.Attacks(1, 10); len(list) != 0 {
		t.Errorf("after the window: %+v", list)
	}
}
