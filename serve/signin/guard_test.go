package signin

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"doublet/env"
	"doublet/mail/keep"
	"doublet/store"
)

// skipClock is a fixture's clock. After returns at once, and advances the clock by exactly the given time.
type skipClock struct{ *env.Manual }

func (c skipClock) After(d time.Duration) <-chan time.Time {
	c.Advance(d)
	fired := make(chan time.Time, 1)
	fired <- c.Now()
	return fired
}

// skipping returns an environment in which a guard's delays end at once. The clock shows their length, however the
// goroutines are scheduled.
func skipping(fix *env.Fixture) *env.Env {
	e := *fix.Env
	e.Clock = skipClock{fix.Time}
	return &e
}

// TestSpellingsTellNothing checks that failures are counted by the name as written, for existing and unknown users
// alike. Otherwise the delay after another spelling, or after another name of the same person, would reveal that the
// person exists.
func TestSpellingsTellNothing(t *testing.T) {
	t.Parallel()
	w := open(t, env.TestRealTime(t), Options{Loopback: true})
	count := func(names ...string) int {
		before := len(w.guard.accounts.table)
		for i, name := range names {
			_, err := w.Password(bg, Attempt{Door: "IMAP", Remote: netip.AddrFrom4([4]byte{192, 0, 2, byte(i)})},
				name, "wrong")
			w.want(err, ErrCredentials)
		}
		return len(w.guard.accounts.table) - before
	}
	for _, spelling := range []func(string) string{
		func(s string) string { return s + "@example.com" },
		func(s string) string { return string(s[0]-'a'+'A') + s[1:] },
	} {
		w.guard.accounts = tallies[uint64]{}
		if known, unknown := count("alice", spelling("alice")), count("nobody", spelling("nobody")); known != unknown ||
			known != 1 {
			t.Errorf("%s: %d tallies for who exists, %d for who does not", spelling("x"), known, unknown)
		}
	}
}

// TestBanMeetsThoseWhoWait checks that a delayed sign-in fails if its address is banned meanwhile. Otherwise each open
// connection would allow one more guess.
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

// TestBansOutlive checks that a ban survives a restart and keeps its end. A ban that was removed or has ended does not.
func TestBansOutlive(t *testing.T) {
	t.Parallel()
	fix := env.Test(t)
	s, err := store.Open(fix.Env, "bans", store.Options{FloorBytes: -1, Ballast: -1})
	if err != nil {
		t.Fatal(err)
	}
	memory, err := keep.Open(s, fix.Env, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	o := Options{Failures: 1, Ban: time.Hour, Keep: memory.Table("bans")}
	begin := func() *guard {
		var g guard
		g.init(skipping(fix), &o)
		return &g
	}
	g := begin()
	at := func(from string) *Attempt { return &Attempt{Door: "IMAP", Remote: netip.MustParseAddr(from)} }
	for i, from := range []string{"192.0.2.1", "192.0.2.2", "2001:db8::1", "192.0.2.4"} {
		if i == 3 {
			fix.Time.Advance(40 * time.Minute)
		}
		g.failed(bg, at(from), "alice", "x")
	}
	was := g.list()
	g.mu.Lock()
	g.unban(masked(netip.MustParseAddr("192.0.2.2")))
	g.mu.Unlock()
	g = begin()
	now := g.list()
	ends := map[netip.Prefix]time.Time{}
	for _, x := range was {
		ends[x.Address] = x.Until.Truncate(time.Second)
	}
	for _, x := range now {
		if !x.Until.Equal(ends[x.Address]) || x.Address == netip.MustParsePrefix("192.0.2.2/32") {
			t.Errorf("%v\n%v", was, now)
		}
	}
	if len(was) != 4 || len(now) != 3 {
		t.Errorf("%v\n%v", was, now)
	}
	if err := g.enter(bg, at("2001:db8::ffff")); !errors.Is(err, ErrBanned) {
		t.Error(err)
	}
	if err := g.enter(bg, at("192.0.2.2")); err != nil {
		t.Error(err)
	}
	fix.Time.Advance(30 * time.Minute)
	if g = begin(); len(g.list()) != 1 {
		t.Errorf("%v", g.list())
	}
	fix.Time.Advance(2 * time.Hour)
	g = begin()
	rows := 0
	if err := o.Keep.Each(bg, func(string, string) { rows++ }); err != nil || rows != 0 || len(g.bans.table) != 0 {
		t.Errorf("%d rows are left, %v", rows, err)
	}
}
