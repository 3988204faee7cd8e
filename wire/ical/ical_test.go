package ical

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

const invitation = "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nMETHOD:REQUEST\r\nX-ODD;A=1,\"b;c\";B=^n^^^':x:y;z\r\n" +
	"BEGIN:VEVENT\r\nitem1.X-GROUPED;A=1:2\r\nUID:1@x\r\n" +
	"SUMMARY:Tea\\, cake\\; and \\\\ more\\nfor all\r\nthis is no line\r\n" +
	"ATTENDEE;CN=\"Hatter, Mad\";PARTSTAT=NEEDS-ACTION:mailto:hatter@example.com\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"

// TestRoundTrip checks that an object prints the text from which it was parsed.
func TestRoundTrip(t *testing.T) {
	c, err := Parse([]byte(invitation), DefaultLimits)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(Append(nil, c)); got != invitation {
		t.Errorf("%s", got)
	}
	odd := c.Get("X-ODD")
	want := []Param{{"A", []string{"1", "b;c"}}, {"B", []string{"\n^\""}}}
	if !reflect.DeepEqual(odd.Params, want) || odd.Value != "x:y;z" || odd.Param("A") != "1" || odd.Param("C") != "" {
		t.Errorf("%+v", odd)
	}
	e := c.Children[0]
	if got := e.Text("SUMMARY"); got != "Tea, cake; and \\ more\nfor all" {
		t.Errorf("%q", got)
	}
	if got := e.Get("ATTENDEE").Param("CN"); got != "Hatter, Mad" || e.Text("LOCATION") != "" {
		t.Errorf("%q", got)
	}
	if p := e.Properties[0]; p.Group != "item1" || p.Name != "X-GROUPED" {
		t.Errorf("%+v", p)
	}
	if p := e.Properties[3]; p.Name != "" || p.Value != "this is no line" {
		t.Errorf("%+v", p)
	}
}

// TestParseAll checks that every object of a text is found, within the limits of all together.
func TestParseAll(t *testing.T) {
	const two = "BEGIN:VCARD\r\nFN:A\r\nEND:VCARD\r\n\r\nBEGIN:VCARD\r\nFN:B\r\nEND:VCARD\r\n\r\n"
	all, err := ParseAll([]byte(two), DefaultLimits)
	if err != nil || len(all) != 2 || all[1].Text("FN") != "B" {
		t.Fatal(all, err)
	}
	if _, err := ParseAll([]byte(two), Limits{Size: 100, Lines: 6, Depth: 1}); !errors.Is(err, ErrTooLarge) {
		t.Error(err)
	}
	for text, want := range map[string]string{two + "rest": "ical: line 9: expected BEGIN", "\n": "",
		two + "BEGIN:X": "ical: line 0: the text ends before the object"} {
		if _, err := ParseAll([]byte(text), DefaultLimits); want == "" && err != nil || want != "" && (err == nil ||
			err.Error() != want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestFolding checks folds of any sort, and that printed lines are of 75 bytes at most and cut no character.
func TestFolding(t *testing.T) {
	c, err := Parse([]byte("\ufeffBEGIN:vcalendar\nX:a\n b\n\tc\n\n \nEND:VCALENDAR\nBEGIN:X\n"), DefaultLimits)
	if err != nil || c.Name != "VCALENDAR" || c.Text("X") != "abc" {
		t.Fatal(c, err)
	}
	long := strings.Repeat("日本語é", 60)
	c.Properties[0].Value = long
	text := Append(nil, c)
	for line := range strings.SplitSeq(string(text), "\r\n") {
		if len(line) > maxLine || !utf8.ValidString(line) {
			t.Errorf("%d bytes: %q", len(line), line)
		}
	}
	if again, err := Parse(text, DefaultLimits); err != nil || again.Text("X") != long {
		t.Error(again, err)
	}
}

func TestBroken(t *testing.T) {
	small := Limits{Size: 100, Lines: 5, Depth: 2}
	for text, want := range map[string]string{
		"":                                    "ical: line 0: the text ends before the object",
		"hello":                               "ical: line 1: expected BEGIN",
		"END:VCALENDAR":                       "ical: line 1: expected BEGIN",
		"BEGIN:A\nEND:B\n":                    "ical: line 2: END of another component",
		"BEGIN:A\nX:1\n":                      "ical: line 0: the text ends before the object",
		"BEGIN:\n":                            "ical: line 1: a component without a name",
		"BEGIN:A\nBEGIN:B\nBEGIN:C\n":         "ical: too large",
		"BEGIN:A\n1\n2\n3\n4\nEND:A":          "ical: too large",
		"BEGIN:A\n" + strings.Repeat("x", 99): "ical: too large",
	} {
		if _, err := Parse([]byte(text), small); err == nil || err.Error() != want {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	var syntax *SyntaxError
	if _, err := Parse([]byte("x"), DefaultLimits); !errors.As(err, &syntax) || syntax.Line != 1 {
		t.Error(err)
	}
	// Lines that are none are kept as they are.
	for _, line := range []string{".X:1", "a.:1", "a.b.X:1", "X;A:1", "X;A=\"b:1", "X;A=\"b\"c:1",
		"X;A=b", "X;A=b\"c:1", "X Y:1",
		":1",
		"X;=1:2"} {
		c, err := Parse([]byte("BEGIN:A\n"+line+"\nEND:A"), DefaultLimits)
		if err != nil || c.Properties[0].Name != "" || c.Properties[0].Value != line {
			t.Errorf("%q: %+v %v", line, c, err)
		}
	}
}

func TestMoment(t *testing.T) {
	for line, want := range map[string]Moment{
		"X:20260102T030405Z":                 {Wall: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Zone: "UTC"},
		"X;TZID=Europe/Rome:20260102T030405": {Wall: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Zone: "Europe/Rome"},
		"X;VALUE=DATE:20260102":              {Wall: time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC), Day: true},
		"X:20260102T030405":                  {Wall: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)},
		"X:":                                 {}, "X:20261302": {}, "X:20260102T250000": {}, "X:today": {},
	} {
		p := property(line)
		if got, ok := p.Moment(); ok != !want.Wall.IsZero() || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v %v", line, got, ok)
		}
	}
	if _, ok := (*Property)(nil).Moment(); ok {
		t.Error("a moment of nothing")
	}
	for s, want := range map[string]time.Duration{
		"PT15M": 15 * time.Minute, "-P1DT2H3S": -(26*time.Hour + 3*time.Second), "+P2W": 14 * 24 * time.Hour, "PT0S": 0,
	} {
		if got, ok := Duration(s); !ok || got != want {
			t.Errorf("%s: %v %v", s, got, ok)
		}
	}
	for _, s := range []string{"", "P", "1D", "PD", "P1H", "PT1D", "P1", "P99999999999D", "P99999W", "PT1HT1M",
		"P1D "} {
		if got, ok := Duration(s); ok {
			t.Errorf("%q: %v", s, got)
		}
	}
}

// zoneText has the rules of zones as programs write them, under names that are of no database.
const zoneText = `BEGIN:VCALENDAR
BEGIN:VTIMEZONE
TZID:Ours
BEGIN:STANDARD
DTSTART:19701025T030000
TZOFFSETFROM:+0200
TZOFFSETTO:+0100
RRULE:FREQ=YEARLY;BYMONTH=10;BYDAY=-1SU
END:STANDARD
BEGIN:DAYLIGHT
DTSTART:19700329T020000
TZOFFSETFROM:+0100
TZOFFSETTO:+0200
RRULE:FREQ=YEARLY;BYMONTH=3;BYDAY=-1SU
END:DAYLIGHT
END:VTIMEZONE
BEGIN:VTIMEZONE
TZID:Theirs
BEGIN:DAYLIGHT
DTSTART:20070311T020000
TZOFFSETFROM:-0500
TZOFFSETTO:-0400
RRULE:FREQ=YEARLY;BYMONTH=3;BYDAY=2SU
END:DAYLIGHT
BEGIN:STANDARD
DTSTART:20071104T020000
TZOFFSETFROM:-0400
TZOFFSETTO:-0500
RRULE:FREQ=YEARLY;BYMONTH=11;BYDAY=1SU
END:STANDARD
END:VTIMEZONE
BEGIN:VTIMEZONE
TZID:Fixed
BEGIN:STANDARD
DTSTART:16010101T000000
TZOFFSETFROM:+0545
TZOFFSETTO:+0545
END:STANDARD
END:VTIMEZONE
BEGIN:VTIMEZONE
TZID:Named
X-LIC-LOCATION:Asia/Tokyo
END:VTIMEZONE
BEGIN:VTIMEZONE
TZID:Empty
END:VTIMEZONE
END:VCALENDAR
`

// TestZoneRules compares the rules of a VTIMEZONE with the database, at half past noon and midnight of ten years.
func TestZoneRules(t *testing.T) {
	c, err := Parse([]byte(zoneText), DefaultLimits)
	if err != nil {
		t.Fatal(err)
	}
	for tzid, same := range map[string]string{"Ours": "Europe/Berlin", "Theirs": "America/New_York",
		"Fixed": "Asia/Kathmandu"} {
		at, err := time.LoadLocation(same)
		if err != nil {
			t.Fatal(err)
		}
		for wall := time.Date(2017, 1, 1, 0, 30, 0, 0, time.UTC); wall.Year() < 2027; wall = wall.Add(12 * time.Hour) {
			zone := c.Zone(tzid)
			if zone == nil || zone.Name != "" {
				t.Fatal(tzid, zone)
			}
			want := time.Date(wall.Year(), wall.Month(), wall.Day(), wall.Hour(), 30, 0, 0, at)
			if got := zone.At(wall); !got.Equal(want) || !zone.Wall(got).Equal(wall) {
				t.Fatalf("%s at %s: %s, want %s; there it is %s", tzid, wall, got, want.UTC(), zone.Wall(got))
			}
		}
	}
	for tzid, want := range map[string]string{
		"Named": "Asia/Tokyo", "Europe/Berlin": "Europe/Berlin", "W. Europe Standard Time": "Europe/Berlin",
		"/freeassociation.sourceforge.net/America/Argentina/Ushuaia": "America/Argentina/Ushuaia",
		"/citadel.org/20210210_1/Europe/Paris":                       "Europe/Paris",
	} {
		if zone := c.Zone(tzid); zone == nil || zone.Name != want {
			t.Errorf("%q: %+v", tzid, zone)
		}
	}
	for _, tzid := range []string{"Empty", "Nowhere", "", "Local", "Europe/..", "../../etc/passwd"} {
		if zone := c.Zone(tzid); zone != nil {
			t.Errorf("%q: %+v", tzid, zone)
		}
	}
	for name, other := range windows {
		if _, err := time.LoadLocation(other); err != nil {
			t.Error(name, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(invitation)
	f.Add(zoneText)
	f.Add("BEGIN:A\nDTSTART;TZID=Ours:20260102T030405\nDURATION:-P1DT2H\nRRULE:FREQ=YEARLY;BYDAY=-1SU;UNTIL=2\nEND:A")
	f.Fuzz(func(t *testing.T, s string) {
		c, err := Parse([]byte(s), Limits{Size: 1 << 16, Lines: 1000, Depth: 8})
		if err != nil {
			return
		}
		text := Append(nil, c)
		again, err := Parse(text, Limits{Size: 1 << 20, Lines: 1000, Depth: 8})
		if err != nil || !reflect.DeepEqual(c, again) {
			t.Fatalf("%q printed as %q: %v\n%+v\n%+v", s, text, err, c, again)
		}
		var walk func(*Component)
		walk = func(x *Component) {
			for i := range x.Properties {
				p := &x.Properties[i]
				if m, ok := p.Moment(); ok {
					if zone := c.Zone(m.Zone); zone != nil {
						zone.Wall(zone.At(m.Wall))
					}
				}
				_, _ = Duration(p.Value)
				p.Text()
			}
			for _, child := range x.Children {
				if zone := c.Zone(child.Text("TZID")); zone != nil {
					zone.Wall(zone.At(time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC)))
				}
				walk(child)
			}
		}
		walk(c)
	})
}
