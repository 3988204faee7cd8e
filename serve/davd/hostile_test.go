package davd

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
)

func event(uid, more string) string {
	return strings.ReplaceAll("BEGIN:VCALENDAR\nVERSION:2.0\nPRODID:x\nBEGIN:VEVENT\nUID:"+uid+
		"\nDTSTAMP:20260101T000000Z\nDTSTART:20260105T090000Z\n"+more+"END:VEVENT\nEND:VCALENDAR\n", "\n", "\r\n")
}

// TestOneWins checks that of many changes with the same entity tag one succeeds, and that the others change nothing.
func TestOneWins(t *testing.T) {
	t.Parallel()
	w := openWorld(t, 0)
	path := home + "calendar/a.ics"
	etag := w.do("alice", "PUT", path, event("a", "")).Header().Get("ETag")
	codes := make([]int, 20)
	var all sync.WaitGroup
	for i := range codes {
		all.Go(func() {
			switch i % 4 {
			case 0:
				codes[i] = w.do("alice", "DELETE", path, "", "If-Match: "+etag).Code
			case 1:
				codes[i] = w.do("alice", "MOVE", path, "", "If-Match: "+etag,
					fmt.Sprintf("Destination: %scalendar/m%d.ics", home, i)).Code
			default:
				codes[i] = w.do("alice", "PUT", path, event("a", fmt.Sprintf("SUMMARY:%d\n", i)),
					"If-Match: "+etag).Code
			}
		})
	}
	all.Wait()
	won := 0
	for i, c := range codes {
		switch c {
		case http.StatusNoContent, http.StatusCreated:
			won++
		case http.StatusPreconditionFailed, http.StatusNotFound:
		default:
			t.Errorf("change %d: status %d", i, c)
		}
	}
	if won != 1 {
		t.Errorf("%d changes succeeded: %v", won, codes)
	}
}

// TestPropertiesTogether checks that changes of different properties at the same time are all kept.
func TestPropertiesTogether(t *testing.T) {
	t.Parallel()
	w := openWorld(t, 0)
	w.do("alice", "PROPFIND", home, "", "Depth: 0")
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			out := w.do("alice", "PROPPATCH", home+"calendar/", fmt.Sprintf(`<propertyupdate xmlns="DAV:"><set><prop>`+
				`<p%d xmlns="urn:x">v</p%d></prop></set></propertyupdate>`, i, i))
			if out.Code != http.StatusMultiStatus || !strings.Contains(out.Body.String(), "200 OK") {
				t.Errorf("%d %s", out.Code, out.Body)
			}
		})
	}
	all.Wait()
	got := w.do("alice", "PROPFIND", home+"calendar/", "", "Depth: 0").Body.String()
	for i := range 20 {
		if !strings.Contains(got, fmt.Sprintf(`<p%d xmlns="urn:x">v</p%d>`, i, i)) {
			t.Errorf("property %d is lost", i)
		}
	}
}

func many(format string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// TestMuchFromLittle checks that small requests do not make the server do or answer much.
func TestMuchFromLittle(t *testing.T) {
	t.Parallel()
	w := openWorld(t, 0)
	w.do("alice", "PUT", home+"calendar/a.ics",
		event("a", "RRULE:FREQ=DAILY\nDESCRIPTION:"+strings.Repeat("x", 900_000)+"\n"))
	report := func(inner string) string {
		return `<C:calendar-multiget xmlns:C="` + nsCalDAV + `" xmlns="DAV:">` + inner + `</C:calendar-multiget>`
	}
	ref := "<href>" + home + "calendar/a.ics</href>"
	for name, c := range map[string]struct {
		method, path, body string
		status             int
	}{
		"4,000 instances of 900 KB": {"REPORT", home + "calendar/", report(
			`<prop><C:calendar-data><C:expand start="20260106T000000Z" end="20360106T000000Z"/></C:calendar-data>` +
				`</prop>` + ref), 507},
		"one entry 9,000 times": {"REPORT", home + "calendar/", report(`<prop><C:calendar-data/></prop>` +
			strings.Repeat(ref, 9000)), 207},
		"one entry in many forms": {"REPORT", home + "calendar/", report(`<prop><C:calendar-data/></prop>` +
			strings.Repeat(strings.Replace(ref, "a.ics", "%61.ics", 1)+ref, 4000)), 207},
		"too many addresses": {"REPORT", home + "calendar/", report(`<prop><getetag/></prop>` +
			strings.Repeat(ref, 10_001)), 507},
		"long name": {"MKCALENDAR", home + "long/", `<C:mkcalendar xmlns:C="` + nsCalDAV + `" xmlns="DAV:"><set>` +
			`<prop><displayname>` + strings.Repeat("x", 2000) + `</displayname></prop></set></C:mkcalendar>`, 507},
		"many properties": {"PROPPATCH", home + "calendar/", `<propertyupdate xmlns="DAV:" xmlns:x="urn:x">` +
			`<set><prop>` + many("<x:a%d/>", 30_000) + `</prop></set></propertyupdate>`, 207},
		"many new properties": {"MKCOL", home + "long/", `<mkcol xmlns="DAV:" xmlns:x="urn:x"><set><prop>` +
			many("<x:a%d/>", 30_000) + `</prop></set></mkcol>`, 507},
		"many names": {"PROPFIND", home, `<propfind xmlns="DAV:"><prop>` + many("<a%d/>", 40_000) +
			`</prop></propfind>`, 400},
		"many parts": {"REPORT", home + "calendar/", report(`<prop><C:calendar-data><C:comp name="VCALENDAR">` +
			many(`<C:prop name="a%d"/>`, 40_000) + `</C:comp></C:calendar-data></prop>` + ref), 400},
		"expanded twice": {"REPORT", home + "calendar/", report(`<prop><C:calendar-data>` +
			strings.Repeat(`<C:expand start="20260106T000000Z" end="20260107T000000Z"/>`, 2) +
			`</C:calendar-data></prop>` + ref), 400},
		"many expansions": {"REPORT", home + "calendar/", `<expand-property xmlns="DAV:">` +
			strings.Repeat(`<property name="owner"><property name="displayname"/></property>`, 600) +
			`</expand-property>`, 507},
	} {
		out := w.do("alice", c.method, c.path, c.body)
		if out.Code != c.status || out.Body.Len() > 2<<20 {
			t.Errorf("%s: status %d with %d bytes, want %d: %.200s", name, out.Code, out.Body.Len(), c.status, out.Body)
		}
	}
	if out := w.do("alice", "PROPFIND", home+"long/", "", "Depth: 0"); out.Code != 404 {
		t.Errorf("the collection exists: %d", out.Code)
	}
}
