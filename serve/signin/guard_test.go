package signin

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"doublet/env"
)

// TestSpellingsTellNothing: what failures cost is counted by what was written, for who exists and who does
// not alike; otherwise the wait after another spelling, or another name of the same person, would tell.
func TestSpellingsTellNothing(t *testing.T) {
	t.Parallel()
	w := open(t, env.TestRealTime(t), Options{Loopback: true})
	count := func(names ...string) int {
		before := len(w.guard.accounts.table)
		for i, name := range names {
			_, err := w.Password(bg, Attempt{Door: "IMAP", Remote: netip.AddrFrom4([4]byte{192, 0, 2, byte(i)})}, name, "wrong")
			w.want(err, ErrCredentials)
		}
		return len(w.guard.accounts.table) - before
	}
	for _, spelling := range []func(string) string{
		func(s string) string { return s + "@example.com" },
		func(s string) string { return string(s[0]-'a'+'A') + s[1:] },
	} {
		w.guard.accounts = tallies[uint64]{}
		if known, unknown := count("alice", spelling("alice")), count("nobody", spelling("nobody")); known != unknown || known != 1 {
			t.Errorf("%s: %d tallies for who exists, %d for who does not", spelling("x"), known, unknown)
		}
	}
}

// TestBanMeetsThoseWhoWait: a sign-in that waits for what its address has earned does not go on behind a
// ban that came meanwhile. Otherwise so many guesses more as connections were open would be looked at.
func TestBanMeetsThoseWhoWait(t *testing.T) {
	t.Parallel()
	fix := env.Test(t)
	w := open(t, fix, Options{})
	a := Attempt{Door: "IMAP", Remote: netip.MustParseAddr("192.0.2.1")}
	k, _ := w.guard.key(a.Remote)
	w.guard.mu.Lock()
	*w.guard.addresses.add(k) = tally{n: patience, since: fix.Clock.Now()}
	w.guard.mu.Unlock()
	done := make(chan error, 1)
	go func() { done <- w.guard.enter(context.Background(), &a) }()
	for waits := false; !waits; {
		w.guard.mu.Lock()
		waits = w.guard.waiting > 0
		if waits {
			*w.guard.bans.add(k) = tally{until: fix.Clock.Now().AddDate(100, 0, 0)}
		}
		w.guard.mu.Unlock()
	}
	for {
		select {
		case err := <-done:
			w.want(err, ErrBanned)
			return
		default:
			fix.Time.Advance(time.Second)
		}
	}
}
