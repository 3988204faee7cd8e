package groupware

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"doublet/calendar"
	"doublet/note"
)

// TestSpanText checks that spans survive their text, which sorts as they do.
func TestSpanText(t *testing.T) {
	t.Parallel()
	list := []span{{-calendar.Always, calendar.Always}, {-5e9, -1}, {-1, 0}, {0, 1}, {1, 5e9}, {5e9, calendar.Always}}
	last := ""
	for _, x := range list {
		text := x.text()
		if got, ok := parseSpan([]byte("t" + text)); !ok || got != x || text <= last {
			t.Errorf("%v: %q, %v %v", x, text, got, ok)
		}
		last = text
	}
	for _, bad := range []string{"", "t", "t" + last[1:], "u" + last, "t" + last[:31] + "g", "t" + last + "0"} {
		if x, ok := parseSpan([]byte(bad)); ok {
			t.Errorf("%q is the span %v", bad, x)
		}
	}
}

// between returns the names of the entries that a search by time finds.
func (w *world) between(from, to time.Time) (names []string) {
	w.t.Helper()
	w.must(w.file().Between(context.Background(), DefaultCalendar, Range{From: from, To: to}, false,
		func(e *Entry) bool { names = append(names, e.Name); return true }))
	slices.Sort(names)
	return names
}

// read returns the entries of the agenda, and the number of those whose times were read.
func (w *world) read() (entries, read int) {
	a := w.svc.agendas.of(w.db)
	return len(a.slots), a.read
}

// TestSpans checks that a search reads the entries near it alone, and finds those without a span too, as releases
// wrote them that kept none.
func TestSpans(t *testing.T) {
	w := newWorld(t, 0)
	w.put("near.ics", event("near", "20260105T090000Z", ""))
	w.put("far.ics", event("far", "20260705T090000Z", ""))
	w.put("ended.ics", event("ended", "20250105T090000Z", "RRULE:FREQ=WEEKLY;COUNT=10\r\n"))
	w.put("older.ics", event("older", "20260106T090000Z", ""))
	w.must(w.file().Change(context.Background(), func(c *Changing) error {
		h, err := c.find(Calendar, DefaultCalendar, note.Write)
		if err != nil {
			return err
		}
		e, err := c.named(h, "older.ics", false)
		if err != nil {
			return err
		}
		content, err := c.r.Content(e.id)
		if err != nil {
			return err
		}
		older := content.Content
		older.Items = older.Items.With(itemSpan, note.Text(""))
		return c.write().Rewrite(e.id, older)
	}))
	w.svc = New(w.s, w.fix.Env, Options{})
	week := time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)
	equal(t, w.between(week, week.AddDate(0, 0, 7)), []string{"near.ics", "older.ics"})
	entries, read := w.read()
	equal(t, []int{entries, read}, []int{4, 2})
	w.put("far.ics", event("far", "20260107T090000Z", ""))
	equal(t, w.between(week, week.AddDate(0, 0, 7)), []string{"far.ics", "near.ics", "older.ics"})
	err := w.file().Remove(context.Background(), Calendar, DefaultCalendar, "near.ics", Condition{})
	w.must(err)
	equal(t, w.between(week, week.AddDate(0, 0, 7)), []string{"far.ics", "older.ics"})
}

// TestAgendaModel compares searches in an agenda that follows random changes with those in one that was just built.
func TestAgendaModel(t *testing.T) {
	w := newWorld(t, 0)
	r := rand.New(rand.NewPCG(1, 2))
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	rules := []string{"", "", "RRULE:FREQ=DAILY;COUNT=5\r\n", "RRULE:FREQ=WEEKLY\r\n", "RRULE:FREQ=MONTHLY;COUNT=3\r\n"}
	there := map[string]bool{}
	for range 200 {
		name := fmt.Sprint(r.IntN(20), ".ics")
		if there[name] && r.IntN(3) == 0 {
			err := w.file().Remove(context.Background(), Calendar, DefaultCalendar, name, Condition{})
			w.must(err)
			delete(there, name)
		} else {
			at := begin.Add(time.Duration(r.IntN(365*24)) * time.Hour)
			w.put(name, event(name, at.Format("20060102T150405"), rules[r.IntN(len(rules))]))
			there[name] = true
		}
		from := begin.AddDate(0, 0, r.IntN(400)-20)
		to := from.AddDate(0, 0, 1+r.IntN(30))
		got := w.between(from, to)
		kept := w.svc
		w.svc = New(w.s, w.fix.Env, Options{})
		if want := w.between(from, to); !slices.Equal(got, want) {
			t.Fatalf("%s to %s: %v, in a new agenda %v", from, to, got, want)
		}
		w.svc = kept
	}
}
