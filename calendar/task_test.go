package calendar

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"doublet/wire/ical"
	"doublet/wire/jmap"
)

// aTask returns a task that recurs each Monday.
func aTask(t testing.TB) *Object {
	t.Helper()
	v, err := jmap.Parse(`{"title":"Water","start":"2026-11-02T08:00:00","due":"2026-11-03T18:00:00",
		"timeZone":"Europe/Berlin","priority":1,"percentComplete":50,"estimatedDuration":"PT2H",
		"recurrenceRules":[{"@type":"RecurrenceRule","frequency":"weekly"}]}`, jmap.Bounds{})
	if err != nil {
		t.Fatal(err)
	}
	o, err := New(Task, "x", then).Edit(v)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// TestTask checks which lines of a VTODO stand for which properties of a Task (RFC 8984 section 5.2), both ways.
func TestTask(t *testing.T) {
	o := aTask(t)
	for _, want := range []string{"DTSTART;TZID=Europe/Berlin:20261102T080000",
		"DUE;TZID=Europe/Berlin:20261103T180000",
		"PRIORITY:1", "PERCENT-COMPLETE:50", "RRULE:FREQ=WEEKLY", "BEGIN:VTODO"} {
		if !slices.Contains(lines(o), want) {
			t.Errorf("no %s:\n%s", want, o.Text())
		}
	}
	want := object(t, `{"@type":"Task","title":"Water","start":"2026-11-02T08:00:00","due":"2026-11-03T18:00:00",
		"timeZone":"Europe/Berlin","showWithoutTime":false,"estimatedDuration":"PT2H","percentComplete":50,"utcDue":
		"2026-11-03T17:00:00Z","progress":"needs-action","progressUpdated":null}`)
	names := make([]string, want.Len())
	for i := range names {
		names[i] = want.Name(i)
	}
	if got := object(t, string(shown(o, &View{Properties: names}))); !contains(want, got) {
		t.Errorf("%s", got.Append(nil))
	}
	done, err := o.Edit(object(t, `{"progress":"completed","due":null,"updated":"2026-11-05T00:00:00Z"}`))
	if err != nil {
		t.Fatal(err)
	}
	text := lines(done)
	if !slices.Contains(text, "STATUS:COMPLETED") || !slices.Contains(text, "COMPLETED:20261105T000000Z") ||
		slices.ContainsFunc(text, func(s string) bool { return strings.HasPrefix(s, "DUE") }) {
		t.Errorf("%s", done.Text())
	}
	open, err := done.Edit(object(t, `{"progress":null}`))
	if err != nil {
		t.Fatal(err)
	}
	if s := string(open.Text()); strings.Contains(s, "COMPLETED") {
		t.Error(s)
	}
}

// TestForeignTask reads tasks as other programs write them: a due day without a start, a length, a time of completion
// alone, and times on several clocks.
func TestForeignTask(t *testing.T) {
	for _, x := range []struct{ lines, want string }{
		{"DUE;VALUE=DATE:20261127", `{"due":"2026-11-27T00:00:00","timeZone":null,"showWithoutTime":true}`},
		{"DTSTART:20261127T080000Z|DURATION:P1DT2H", `{"start":"2026-11-27T08:00:00","due":"2026-11-28T10:00:00",
			"timeZone":"Etc/UTC"}`},
		{"COMPLETED:20261127T080000Z", `{"progress":"completed","progressUpdated":"2026-11-27T08:00:00Z"}`},
		{"STATUS:IN-PROCESS|PERCENT-COMPLETE:101", `{"progress":"in-process"}`},
		{"DTSTART;TZID=Europe/Berlin:20261127T080000|DUE:20261127T090000Z", `{"due":"2026-11-27T10:00:00"}`},
	} {
		text := "BEGIN:VCALENDAR|VERSION:2.0|BEGIN:VTODO|UID:x|DTSTAMP:20260101T000000Z|" + x.lines +
			"|END:VTODO|END:VCALENDAR|"
		o, err := ReadObject([]byte(strings.ReplaceAll(text, "|", "\r\n")))
		if err != nil {
			t.Fatal(x.lines, err)
		}
		if got := object(t, string(shown(o, &View{}))); !contains(object(t, x.want), got) {
			t.Errorf("%s: %s", x.lines, got.Append(nil))
		}
	}
}

// TestTaskInstances completes single instances of a task that recurs; the due time of each moves with its start, also
// where clocks change between them.
func TestTaskInstances(t *testing.T) {
	o := aTask(t)
	at, _ := ParseLocal("2027-03-29T08:00:00") // the first one of summer
	x, ok := o.Instance(at)
	if !ok {
		t.Fatal("no instance")
	}
	w := jmap.NewWriter(nil)
	o.AppendInstance(&w, x, &View{Properties: []string{"start", "due", "utcDue"}})
	want := object(t, `{"start":"2027-03-29T08:00:00","due":"2027-03-30T18:00:00","utcDue":"2027-03-30T16:00:00Z"}`)
	if got := object(t, string(w.End())); !contains(want, got) {
		t.Errorf("%s", got.Append(nil))
	}
	o, err := o.EditInstance(x, object(t, `{"progress":"completed"}`), object(t, `{"updated":"2027-03-30T00:00:00Z"}`))
	if err != nil {
		t.Fatal(err)
	}
	if o, err = ReadObject(o.Text()); err != nil {
		t.Fatal(err)
	}
	got := object(t, string(shown(o, &View{}))).Get("recurrenceOverrides")
	if patch := got.Get("2027-03-29T08:00:00"); got.Len() != 1 || patch.Get("due") != nil || patch.Get("start") != nil {
		t.Errorf("%s\n%s", got.Append(nil), o.Text())
	}
	open := 0
	err = o.Series.Between(at.AddDate(0, 0, -8), at.AddDate(0, 0, 8), ical.UTC, func(x Occurrence) bool {
		if o.Parts[x.Part].Text("STATUS") != "COMPLETED" {
			open++
		}
		return true
	})
	if err != nil || open != 2 {
		t.Error(open, err)
	}
}

// TestTaskWithoutStart prints the instances of a foreign task of which one differs, though there is no start from which
// others follow.
func TestTaskWithoutStart(t *testing.T) {
	part := func(lines string) string {
		return "BEGIN:VTODO|UID:x|DTSTAMP:20260101T000000Z|" + lines + "|END:VTODO|"
	}
	text := "BEGIN:VCALENDAR|VERSION:2.0|" + part("DUE:20261127T100000Z") +
		part("RECURRENCE-ID:20261128T100000Z|DUE:20261129T100000Z") + "END:VCALENDAR|"
	o, err := ReadObject([]byte(strings.ReplaceAll(text, "|", "\r\n")))
	if err != nil {
		t.Fatal(err)
	}
	var due []string
	err = o.Series.Between(time.Unix(-1<<40, 0), time.Unix(1<<40, 0), ical.UTC, func(x Occurrence) bool {
		w := jmap.NewWriter(nil)
		o.AppendInstance(&w, x, &View{})
		s, _ := object(t, string(w.End())).Get("due").Text()
		due = append(due, s)
		return true
	})
	slices.Sort(due)
	if want := []string{"2026-11-27T10:00:00", "2026-11-29T10:00:00"}; err != nil || !slices.Equal(due, want) {
		t.Error(due, err)
	}
}

// TestTaskRefused checks what a Task cannot have, and that it changes nothing.
func TestTaskRefused(t *testing.T) {
	for patch, want := range map[string]string{
		`{"duration":"PT1H"}`: "duration", `{"status":"confirmed"}`: "status",
		`{"freeBusyStatus":"free"}`:     "freeBusyStatus",
		`{"due":"2026-11-01T00:00:00"}`: "due", `{"due":"soon"}`: "due", `{"start":null}`: "start",
		`{"progress":"later"}`: "progress", `{"progressUpdated":"x"}`: "progressUpdated",
		`{"percentComplete":101}`: "percentComplete", `{"timeZone":"Mars/Olympus"}`: "timeZone",
		`{"showWithoutTime":1}`: "showWithoutTime", `{"utcDue":"2026-11-01T00:00:00Z"}`: "utcDue",
		`{"recurrenceOverrides":{"2026-11-09T08:00:00":{"duration":"PT1H"}}}`: "duration",
	} {
		_, err := aTask(t).Edit(object(t, patch))
		var bad *InvalidError
		if !errors.As(err, &bad) || !slices.Contains(bad.Properties, want) {
			t.Errorf("%s: %v", patch, err)
		}
	}
	if _, err := New(Event, "x", then).Edit(object(t, `{"due":"2026-11-27T00:00:00"}`)); err == nil {
		t.Error("an event with a due time")
	}
}

// TestTaskModel changes a task at random, and compares what the object says with a model that is JSON alone.
func TestTaskModel(t *testing.T) {
	pick := func(r *rand.Rand, list ...string) string { return list[r.IntN(len(list))] }
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 2))
		o, model := New(Task, "x", then), object(t, `{}`)
		for range 20 {
			change := object(t, pick(r, `{"title":"A"}`, `{"description":"B, c\nd"}`, `{"priority":5}`,
				`{"due":"2026-12-24T18:00:00","start":null,"timeZone":"Europe/Berlin","showWithoutTime":false}`,
				`{"due":"2026-12-24T00:00:00","start":null,"timeZone":null,"showWithoutTime":true}`,
				`{"start":"2026-12-01T09:00:00","due":"2026-12-01T09:00:00","timeZone":"America/New_York",
				"showWithoutTime":false}`, `{"due":null,"start":null,"timeZone":null,"showWithoutTime":null}`,
				`{"progress":"completed","progressUpdated":"2026-12-01T00:00:00Z"}`,
				`{"progress":"in-process","progressUpdated":null}`, `{"percentComplete":75}`,
				`{"keywords":{"home":true}}`, `{"estimatedDuration":"PT45M"}`,
				`{"links":{"m":{"@type":"Link","href":"mid:a%40b","rel":"related"}}}`))
			var err error
			if o, err = o.Edit(change); err != nil {
				t.Fatalf("seed %d: %s: %v", seed, change.Append(nil), err)
			}
			if o, err = ReadObject(o.Text()); err != nil {
				t.Fatal(err)
			}
			for i := range change.Len() {
				next := model.With(change.Name(i), *change.At(i))
				model = &next
			}
			if got := object(t, string(shown(o, &View{}))); !contains(model, got) {
				t.Fatalf("seed %d: after %s:\n%s\nwant\n%s\n%s", seed, change.Append(nil), got.Append(nil),
					model.Append(nil), o.Text())
			}
		}
	}
}
