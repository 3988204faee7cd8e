package calendar

import (
	"strings"
	"testing"
	"time"

	"doublet/wire/ical"
)

func TestRings(t *testing.T) {
	t.Parallel()
	object := func(lines ...string) *Object {
		kind := Event
		if lines[0] == Task {
			kind, lines = Task, lines[1:]
		}
		o, err := ReadObject([]byte("BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:x\r\nBEGIN:" + kind + "\r\nUID:a\r\n" +
			"DTSTAMP:20260101T000000Z\r\n" + strings.Join(lines, "\r\n") + "\r\nEND:" + kind + "\r\nEND:VCALENDAR\r\n"))
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	alarm := func(action, trigger string) string {
		return "BEGIN:VALARM\r\nACTION:" + action + "\r\nTRIGGER" + trigger + "\r\nEND:VALARM"
	}
	for _, c := range []struct {
		lines []string
		want  string // of the week from Monday, 2026-03-02
	}{
		{[]string{"DTSTART:20260303T100000Z", "DURATION:PT1H", alarm("EMAIL", ":-PT15M")}, "03 09:45"},
		{[]string{"DTSTART:20260303T100000Z", "DURATION:PT1H", alarm("EMAIL", ";RELATED=END:PT5M")}, "03 11:05"},
		{[]string{"DTSTART:20260303T100000Z", "DURATION:PT1H", alarm("DISPLAY", ":-PT15M")}, ""},
		{[]string{"DTSTART:20260312T100000Z", "DURATION:PT1H", alarm("EMAIL", ":-P1W")}, "05 10:00"},
		{[]string{"DTSTART:20260312T100000Z", alarm("EMAIL", ";VALUE=DATE-TIME:20260304T070000Z")}, "04 07:00"},
		{[]string{"DTSTART:20260301T100000Z", "DURATION:PT1H", "RRULE:FREQ=DAILY;COUNT=4", "EXDATE:20260303T100000Z",
			alarm("email", ":-PT15M"), alarm("EMAIL", ":PT0S")}, "02 09:45,04 09:45,02 10:00,04 10:00"},
		{[]string{"DTSTART;TZID=Europe/Berlin:20260303T100000", "DURATION:PT1H", alarm("EMAIL", ":-PT1H")}, "03 08:00"},
		{[]string{"DTSTART;VALUE=DATE:20260303", alarm("EMAIL", ":-PT12H")}, "02 11:00"}, // of Berlin's midnight
		{[]string{"DTSTART:20260309T001000Z", "DURATION:PT1H", alarm("EMAIL", ":-PT10M")}, "09 00:00"},
		{[]string{"DTSTART:20260302T001000Z", "DURATION:PT1H", alarm("EMAIL", ":-PT10M")}, ""}, // not after from
		{[]string{"DTSTART:20260303T100000Z", alarm("EMAIL", ":nonsense")}, ""},
		{[]string{Task, "DUE:20260303T100000Z", alarm("EMAIL", ";RELATED=END:-PT15M")}, "03 09:45"},
		{[]string{Task, "DUE:20260303T100000Z", alarm("EMAIL", ":-PT15M")}, "03 09:45"}, // a task without a start
		{[]string{Task, "DTSTART:20260303T100000Z", "DUE:20260304T100000Z", alarm("EMAIL", ";RELATED=END:-P1D"),
			alarm("EMAIL", ":PT5M")}, "03 10:00,03 10:05"},
		{[]string{Task, "DUE;VALUE=DATE:20260303", alarm("EMAIL", ";RELATED=END:PT9H")}, "03 08:00"}, // in Berlin
		{[]string{Task, "DTSTART:20260302T100000Z", "DUE:20260302T100000Z", "RRULE:FREQ=DAILY;COUNT=3",
			alarm("EMAIL", ";RELATED=END:-PT1H")}, "02 09:00,03 09:00,04 09:00"},
		{[]string{Task, alarm("EMAIL", ":-PT15M")}, ""}, // it is never due
	} {
		o := object(c.lines...)
		from := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
		list, err := o.Rings("EMAIL", from, from.AddDate(0, 0, 7), ical.Named("Europe/Berlin"))
		var got []string
		for _, r := range list {
			got = append(got, r.At.UTC().Format("02 15:04"))
		}
		if strings.Join(got, ",") != c.want || err != nil {
			t.Errorf("%v: %v %v, want %s", c.lines, got, err, c.want)
		}
	}
}
