package davd

import (
	"strings"
	"testing"
	"time"
)

// TestFreeFromReplica checks that busy times from a replica say that the server of the primary is away: in the answer
// of the outbox, and in that of a calendar.
//
// Implements: RFC 5545 §3.8.1.4 COMMENT in VFREEBUSY
func TestFreeFromReplica(t *testing.T) {
	t.Parallel()
	w := openWorld(t, 0)
	w.do("bob", "PUT", "/dav/calendars/bob@example.com/calendar/a.ics", event("a", "DURATION:PT1H\n"))
	ask := func() string {
		return strings.ReplaceAll(w.do("alice", "POST", home+"outbox/", "BEGIN:VCALENDAR\r\nVERSION:2.0\r\n"+
			"METHOD:REQUEST\r\nBEGIN:VFREEBUSY\r\nUID:f\r\nDTSTAMP:20260101T000000Z\r\nDTSTART:20260105T000000Z\r\n"+
			"DTEND:20260206T000000Z\r\nORGANIZER:mailto:alice@example.com\r\nATTENDEE:mailto:bob@example.com\r\n"+
			"END:VFREEBUSY\r\nEND:VCALENDAR\r\n", "Content-Type: text/calendar").Body.String(), "\r\n ", "") +
			w.do("bob", "REPORT", "/dav/calendars/bob@example.com/calendar/", `<C:free-busy-query xmlns:C="`+nsCalDAV+
				`"><C:time-range start="20260105T000000Z" end="20260206T000000Z"/></C:free-busy-query>`).Body.String()
	}
	if got := ask(); strings.Count(got, "FREEBUSY;FBTYPE=BUSY") != 2 || strings.Contains(got, "COMMENT") {
		t.Error(got)
	}
	at := time.Date(2026, 1, 5, 14, 3, 0, 0, time.UTC)
	w.others.at = &at
	if got := ask(); strings.Count(got, "FREEBUSY;FBTYPE=BUSY") != 2 || strings.Count(got,
		`COMMENT:As of 2026-01-05T14:03:00Z\; the server of this calendar is away.`) != 2 {
		t.Error(got)
	}
}
