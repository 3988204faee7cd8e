package cluster

import (
	"strings"
	"testing"
	"time"
)

// TestLagCause checks that the cause of a lag is the most certain reason.
func TestLagCause(t *testing.T) {
	t.Parallel()
	heard := time.Date(2026, 5, 1, 10, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		set  func(*lagging)
		want string
	}{
		{func(l *lagging) {},
			"replication to two lags 12s, 7 databases wait: changes arrive faster than they are sent"},
		{func(l *lagging) { l.comparing = true }, "all databases are being compared with two"},
		{func(l *lagging) { l.comparing, l.trouble = true, "database 1: refused" }, "database 1: refused"},
		{func(l *lagging) { l.rtt = 300 * time.Millisecond }, "the network is slow: a probe takes 300ms"},
		{func(l *lagging) { l.credit, l.inFlight = 4, 32 },
			"no credit: two answers slowly (32 requests are under way, 4 wait)"},
		{func(l *lagging) { l.sending, l.size, l.sends, l.credit = "Anna", 3<<30, 40*time.Second, 9 },
			`the database "Anna" of 3.0 GB has been in transfer there for 40s`},
		{func(l *lagging) { l.sending, l.sends, l.credit = "Anna", time.Second, 9 }, "no credit"},
		{func(l *lagging) { l.ownFlush = 150 * time.Millisecond }, "the disk here is slow (a flush takes 150ms)"},
		{func(l *lagging) { l.flush, l.ownFlush = 400*time.Millisecond, time.Second },
			"the disk of two is slow (a flush takes 400ms)"},
		{func(l *lagging) { l.flush, l.noRoom = time.Second, true }, "the disk of two is full"},
		{func(l *lagging) { l.alive, l.noRoom = false, true }, "two has not answered since 2026-05-01T10:00:00Z"},
		{func(l *lagging) { l.alive, l.heard = false, time.Time{} },
			"two has not answered since this server started"},
	} {
		l := lagging{name: "two", alive: true, heard: heard, waiting: 7, lag: 12 * time.Second}
		c.set(&l)
		if got := l.cause(); !strings.Contains(got, c.want) {
			t.Errorf("%s\nwant %s", got, c.want)
		}
	}
}

// TestEvents checks that an event begins once, has the latest cause, and ends when it was not found for a while. The
// numbers of open and past events are limited.
func TestEvents(t *testing.T) {
	t.Parallel()
	var e events
	now := time.Date(2026, 5, 1, 10, 0, 0, 0, time.UTC)
	lag := func(cause string) []found { return []found{{eventKey{EventLag, "two"}, cause}} }
	began, over := e.take(now, lag("a"))
	if len(began) != 1 || len(over) != 0 || began[0].Cause != "a" {
		t.Fatalf("%v %v", began, over)
	}
	began, over = e.take(now.Add(time.Second), lag("b"))
	if len(began)+len(over) != 0 || e.list()[0].Cause != "b" {
		t.Fatalf("%v %v %v", began, over, e.list())
	}
	// A short time without it does not end it.
	began, over = e.take(now.Add(3*time.Second), nil)
	if len(began)+len(over) != 0 || len(e.open) != 1 {
		t.Fatalf("%v %v", began, over)
	}
	began, over = e.take(now.Add(7*time.Second), nil)
	if len(began) != 0 || len(over) != 1 || !over[0].Until.Equal(now.Add(time.Second)) || len(e.open) != 0 {
		t.Fatalf("%v %v", began, over)
	}
	for i := range 3 * maxEvents {
		at := now.Add(time.Duration(i) * time.Minute)
		e.take(at, lag("again"))
		e.take(at.Add(overAfter), nil)
	}
	if list := e.list(); len(list) != maxEvents || !list[0].Since.After(list[1].Since) {
		t.Errorf("%d events are remembered", len(list))
	}
	var many []found
	for i := range 3 * maxEvents {
		many = append(many, found{eventKey{EventSilent, strings.Repeat("x", i)}, "c"})
	}
	e.take(now, many)
	if len(e.open) > maxEvents {
		t.Errorf("%d events are open", len(e.open))
	}
}
