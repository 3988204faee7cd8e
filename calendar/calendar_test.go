package calendar

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"doublet/wire/ical"
)

// TestEvents compares testdata/*.ics with the events in the .json beside.
func TestEvents(t *testing.T) {
	files, err := filepath.Glob("testdata/*.ics")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, name := range files {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		object, err := ical.Parse(raw, ical.DefaultLimits)
		if err != nil {
			t.Fatal(name, err)
		}
		got, ok := AppendEvents(nil, object, Properties(Event))
		if !ok {
			t.Error(name)
		}
		golden(t, strings.TrimSuffix(name, ".ics")+".json", got)
	}
}

func same(t *testing.T, a, b []byte) bool {
	t.Helper()
	var x, y any
	if err := json.Unmarshal(a, &x); err != nil {
		t.Errorf("%v: %s", err, a)
	}
	if err := json.Unmarshal(b, &y); err != nil {
		t.Error(err)
	}
	return reflect.DeepEqual(x, y)
}

func parse(t *testing.T, lines ...string) *ical.Component {
	t.Helper()
	c, err := ical.Parse([]byte(strings.Join(lines, "\n")), ical.DefaultLimits)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestBounds checks that objects without events, or with too much, are no calendars, and that named properties alone
// are printed.
func TestBounds(t *testing.T) {
	event := func(more ...string) []string {
		return append(append([]string{"BEGIN:VEVENT", "UID:1"}, more...), "END:VEVENT")
	}
	object := func(lines ...string) *ical.Component {
		return parse(t, append(append([]string{"BEGIN:VCALENDAR"}, lines...), "END:VCALENDAR")...)
	}
	var many, people []string
	for i := range maxEvents + 1 {
		many = append(many, event()...)
		people = append(people, fmt.Sprintf("ATTENDEE:mailto:%d@x", i), fmt.Sprintf("ATTENDEE:mailto:%d@y", i))
	}
	for name, c := range map[string]*ical.Component{
		"nothing": object(), "a task": object("BEGIN:VTODO", "END:VTODO"),
		"another object": parse(t, "BEGIN:VCARD", "END:VCARD"),
		"501 events":     object(many...), "1,002 attendees": object(event(people...)...),
	} {
		if out, ok := AppendEvents([]byte("x"), c, Properties(Event)); ok || string(out) != "x" {
			t.Errorf("%s: %.100s", name, out)
		}
	}
	got, ok := AppendEvents(nil, object(event("SUMMARY:x", "DTSTART:20260101T000000Z")...), []string{"uid", "utcStart"})
	if !ok || string(got) != `[{"uid":"1","utcStart":"2026-01-01T00:00:00Z"}]` {
		t.Errorf("%s", got)
	}
}

func TestLength(t *testing.T) {
	for lines, want := range map[string]string{
		"DTSTART:20260101T100000\nDTEND:20260101T113001":                                       "PT1H30M1S",
		"DTSTART:20260101T100000\nDTEND:20260101T090000":                                       "PT0S",
		"DTSTART:20260101T100000\nDURATION:P1W":                                                "PT168H",
		"DTSTART:20260101T100000":                                                              "PT0S",
		"DTSTART;VALUE=DATE:20260101":                                                          "P1D",
		"DTSTART;VALUE=DATE:20260328\nDTEND;VALUE=DATE:20260330":                               "P2D",
		"DTSTART;TZID=Europe/Berlin:20260329T013000\nDTEND;TZID=Europe/Berlin:20260329T033000": "PT1H",
		"DTSTART;TZID=Europe/Berlin:20260101T100000\nDTEND;TZID=Asia/Tokyo:20260101T190000":    "PT1H",
	} {
		c := parse(t, "BEGIN:VCALENDAR", "BEGIN:VEVENT", lines, "END:VEVENT", "END:VCALENDAR")
		if got, _ := AppendEvents(nil, c, []string{"duration"}); string(got) != `[{"duration":"`+want+`"}]` {
			t.Errorf("%s: %s, want %s", lines, got, want)
		}
	}
}

func FuzzEvents(f *testing.F) {
	f.Add("BEGIN:VCALENDAR\nBEGIN:VEVENT\nDTSTART:20260101T100000Z\nRRULE:FREQ=DAILY;UNTIL=20260301T000000Z;" +
		"BYDAY=1MO,x,SU;BYMONTH=1,x\nATTENDEE;RSVP=TRUE:mailto:a@b\nORGANIZER;CN=x:mailto:A@B\nEND:VEVENT\n" +
		"END:VCALENDAR")
	f.Fuzz(func(t *testing.T, s string) {
		c, err := ical.Parse([]byte(s), ical.Limits{Size: 1 << 16, Lines: 1000, Depth: 8})
		if err != nil {
			return
		}
		if out, ok := AppendEvents(nil, c, Properties(Event)); ok && !json.Valid(out) {
			t.Fatalf("%q: %s", s, out)
		}
	})
}
