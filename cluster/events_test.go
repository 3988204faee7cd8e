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

// TestEvents checks that an event has the latest cause, lasts over a short time without it, and ends when it was not
// found for a while. The number of events is limited.
func TestEvents(t *testing.T) {
	t.Parallel()
	var e events
	now := time.Date(2026, 5, 1, 10, 0, 0, 0, time.UTC)
	lag := func(cause string) []found { return []found{{eventKey{EventLag, "two"}, cause}} }
	e.take(now, lag("a"))
	if list := e.list(); len(list) != 1 || list[0].Cause != "a" || !list[0].Since.Equal(now) {
		t.Fatalf("%v", list)
	}
	e.take(now.Add(time.Second), lag("b"))
	if list := e.list(); len(list) != 1 || list[0].Cause != "b" || !list[0].Since.Equal(now) {
		t.Fatalf("%v", list)
	}
	e.take(now.Add(3*time.Second), nil)
	if e.count(EventLag) != 1 || e.count("") != 1 {
		t.Fatal("a short time without it ended the event")
	}
	e.take(now.Add(7*time.Second), nil)
	if len(e.list()) != 0 || e.count("") != 0 {
		t.Fatalf("%v", e.list())
	}
	var many []found
	for i := range 3 * maxEvents {
		many = append(many, found{eventKey{EventSilent, strings.Repeat("x", i)}, "c"})
	}
	e.take(now, many)
	if e.count("") > maxEvents {
		t.Errorf("%d events are open", e.count(""))
	}
}
