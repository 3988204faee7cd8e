package calendar

import "testing"

// TestMarks checks the properties that differ from the defaults of JSCalendar.
func TestMarks(t *testing.T) {
	names := []string{"freeBusyStatus", "privacy", "color", "keywords"}
	for _, x := range []struct {
		lines []string
		want  string
	}{
		{[]string{"TRANSP:OPAQUE", "CLASS:PUBLIC"}, `[{}]`},
		{[]string{"TRANSP:TRANSPARENT", "CLASS:CONFIDENTIAL", "COLOR:teal"},
			`[{"freeBusyStatus":"free","privacy":"secret","color":"teal"}]`},
		{[]string{"CLASS:X-OURS", `CATEGORIES:Work\, home,Trip`, "CATEGORIES:Trip,,", `CATEGORIES:"x":{`,
			`CATEGORIES:End\`},
			`[{"privacy":"private","keywords":{"\"x\":{":true,"End\\":true,"Trip":true,"Work, home":true}}]`},
	} {
		lines := append([]string{"BEGIN:VCALENDAR", "BEGIN:VEVENT"}, x.lines...)
		got, ok := AppendEvents(nil, parse(t, append(lines, "END:VEVENT", "END:VCALENDAR")...), names)
		if !ok || !same(t, got, []byte(x.want)) {
			t.Errorf("%q: %v %s", x.lines, ok, got)
		}
	}
}
