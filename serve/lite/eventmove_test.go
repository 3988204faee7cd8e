package lite

import (
	"strings"
	"testing"

	"doublet/calendar"
)

// TestMovedRule checks the rules of series that move to another day.
func TestMovedRule(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ rule, was, is, want string }{ // want is "" if the rule cannot follow
		{`"frequency":"yearly","byMonth":["5"],"byMonthDay":[5]`, "2026-05-05", "2026-06-07",
			`"frequency":"yearly","byMonth":["6"],"byMonthDay":[7]`},
		{`"frequency":"yearly","byMonth":["5"],"byDay":[{"day":"su","nthOfPeriod":2}]`, "2026-05-10", "2026-06-15",
			`"frequency":"yearly","byMonth":["6"],"byDay":[{"day":"mo","nthOfPeriod":3}]`},
		{`"frequency":"monthly","byMonth":["3","9"],"byMonthDay":[5]`, "2026-03-05", "2026-03-06",
			`"frequency":"monthly","byMonth":["3","9"],"byMonthDay":[6]`},
		{`"frequency":"monthly","byMonth":["3","9"],"byMonthDay":[5]`, "2026-03-05", "2026-04-05", ""},
		{`"frequency":"monthly","byMonthDay":[1,15]`, "2026-03-01", "2026-03-02", ""},
		{`"frequency":"monthly","byDay":[{"day":"mo","nthOfPeriod":1},{"day":"mo","nthOfPeriod":3}]`, "2026-03-02",
			"2026-03-10", ""},
		{`"frequency":"yearly","byDay":[{"day":"mo","nthOfPeriod":20}]`, "2026-05-18", "2026-05-19", ""},
		{`"frequency":"monthly","byDay":[{"day":"mo"},{"day":"tu"}],"bySetPosition":[-1]`, "2026-03-31", "2026-03-30",
			""},
		{`"frequency":"yearly","byYearDay":[100]`, "2026-04-10", "2026-04-11", ""},
		{`"frequency":"weekly","byDay":[{"day":"mo"},{"day":"sa"}]`, "2026-03-02", "2026-03-04",
			`"frequency":"weekly","byDay":[{"day":"we"},{"day":"mo"}]`},
		{`"frequency":"monthly","byDay":[{"day":"mo","nthOfPeriod":-1}]`, "2026-03-30", "2026-03-31",
			`"frequency":"monthly","byDay":[{"day":"tu","nthOfPeriod":-1}]`},
		{`"frequency":"monthly","byDay":[{"day":"mo","nthOfPeriod":-1}]`, "2026-03-30", "2026-04-01",
			`"frequency":"monthly","byDay":[{"day":"we","nthOfPeriod":1}]`},
		{`"frequency":"monthly","byDay":[{"day":"mo","nthOfPeriod":4}]`, "2026-03-23", "2026-03-30",
			`"frequency":"monthly","byDay":[{"day":"mo","nthOfPeriod":-1}]`},
		{`"frequency":"monthly","byDay":[{"day":"mo","nthOfPeriod":1},{"day":"mo","nthOfPeriod":3}],` +
			`"until":"2026-12-31T10:00:00"`, "2026-03-02", "2026-03-02",
			`"frequency":"monthly","byDay":[{"day":"mo","nthOfPeriod":1},{"day":"mo","nthOfPeriod":3}],` +
				`"until":"2026-12-31T11:00:00"`},
	} {
		was, ok1 := calendar.ParseLocal(c.was + "T10:00:00")
		is, ok2 := calendar.ParseLocal(c.is + "T11:00:00")
		got, err := movedRule(mustJSON("{"+c.rule+"}"), was, is)
		switch want := mustJSON("{" + c.want + "}"); {
		case !ok1 || !ok2:
			t.Fatal(c)
		case c.want == "" && err == nil, c.want != "" && (err != nil || !got.Equal(want)):
			t.Errorf("%s from %s to %s: %s, %v", c.rule, c.was, c.is, got.Append(nil), err)
		}
	}
}

// TestSeriesMoved checks that a series moves with its rule, and that its form is refused if the rule would not follow.
func TestSeriesMoved(t *testing.T) {
	t.Parallel()
	w := open(t, 0)
	w.putEvent("alice", "year", "SUMMARY:Birthday", "DTSTART;VALUE=DATE:20260505", "RRULE:FREQ=YEARLY;BYMONTH=5;"+
		"BYMONTHDAY=5")
	w.putEvent("alice", "twice", "SUMMARY:Club", "DTSTART;TZID=Europe/Berlin:20260504T080000", "DURATION:PT1H",
		"RRULE:FREQ=MONTHLY;BYDAY=1MO,3MO")
	b := w.signed("alice").berlin()
	edit := func(day, title string) {
		t.Helper()
		b.get(pathCalendar + "?view=day&day=" + day)
		b.follow(title)
		b.follow("Edit all events")
		b.want(200, "As before")
	}
	edit("2027-05-05", "Birthday")
	b.send(`name="title"`, nil, "first", "2026-06-05", "last", "2026-06-05", "do", "save")
	b.want(200, "Event saved")
	edit("2027-06-05", "Birthday")
	b.get(pathCalendar + "?view=day&day=2027-05-05")
	b.lacks("Birthday")

	edit("2026-05-18", "Club")
	b.send(`name="title"`, nil, "first", "2026-05-12", "last", "2026-05-12", "do", "save")
	b.want(400, "cannot be moved to another day", `value="2026-05-12"`)
	edit("2026-05-18", "Club")
	b.send(`name="title"`, nil, "until", "2026-12-31", "do", "save")
	b.want(400, "The last day cannot be changed", `value="2026-12-31"`)
	b.send(`name="title"`, nil, "until", "", "title", "Club of old", "from", "09:00", "to", "10:00", "do", "save")
	b.want(200, "Event saved")
	got := w.texts("alice")
	for _, want := range []string{"RRULE:FREQ=YEARLY;BYMONTH=6;BYMONTHDAY=5\r\n", "SUMMARY:Club of old",
		"RRULE:FREQ=MONTHLY;BYDAY=1MO,3MO\r\n", "DTSTART;TZID=Europe/Berlin:20260504T090000"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
}
