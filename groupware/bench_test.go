//go:build unix

package groupware

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"doublet/env"
	"doublet/mailbox"
	"doublet/note"
	"doublet/store"
)

// calendars returns the groupware of new mail files in one store, each with a calendar of n events over ten years, a
// tenth of them recurring.
func calendars(b *testing.B, files, n int) (list []*File) {
	b.Helper()
	fix := env.TestRealTime(b)
	s, err := store.Open(fix.Env, "data", store.Options{FloorBytes: -1, Ballast: -1, Indexes: Indexes()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	svc, boxes := New(s, fix.Env, Options{}), mailbox.New(s, fix.Env, mailbox.Options{})
	for i := range files {
		who := note.Who{Person: note.UNID{1, byte(i)}}
		db, err := boxes.Make(context.Background(), who.Person, "mail", 0, 0)
		if err != nil {
			b.Fatal(err)
		}
		f := svc.File(who, db)
		if err := f.Ensure(context.Background(), "Europe/Berlin"); err != nil {
			b.Fatal(err)
		}
		for first := 0; first < n; first += 500 {
			err := f.Change(context.Background(), func(c *Changing) error {
				for i := first; i < min(n, first+500); i++ {
					if err := putEvent(c, i, 10*365*24*time.Hour/time.Duration(n)); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				b.Fatal(err)
			}
		}
		list = append(list, f)
	}
	return list
}

// putEvent writes event i of a calendar whose events begin apart from each other; each tenth recurs.
func putEvent(c *Changing, i int, apart time.Duration) error {
	more := "DESCRIPTION:An event of a large calendar\r\n"
	if i%10 == 0 {
		more += "RRULE:FREQ=WEEKLY;COUNT=400\r\n"
	}
	start := time.Date(2020, 1, 1, 8, 0, 0, 0, time.UTC).Add(time.Duration(i) * apart)
	p, err := parse(Calendar, event(fmt.Sprint("e", i), start.Format("20060102T150405Z"), more))
	if err == nil {
		_, _, err = c.Put(Calendar, DefaultCalendar, fmt.Sprint(i, ".ics"), p, Condition{})
	}
	return err
}

// large returns a calendar of 20,000 events, 2,000 of them recurring, over ten years.
func large(b *testing.B) *File { return calendars(b, 1, 20_000)[0] }

// loop repeats fn, and reports the processor time besides: beside other work it says more than the time.
func loop(b *testing.B, fn func()) {
	used := func() int64 {
		var u syscall.Rusage
		_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
		return u.Utime.Nano() + u.Stime.Nano()
	}
	before := used()
	for b.Loop() {
		fn()
	}
	b.ReportMetric(float64(used()-before)/float64(b.N)/1e6, "cpu-ms/op")
}

// BenchmarkMonth finds the events of a month with their texts, when the agenda is in memory and when it is not.
func BenchmarkMonth(b *testing.B) {
	f := large(b)
	from := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	month := func(b *testing.B) {
		n := 0
		err := f.Between(context.Background(), DefaultCalendar, Range{From: from, To: from.AddDate(0, 1, 0)}, true,
			func(*Entry) bool { n++; return true })
		if err != nil || n < 150 {
			b.Fatal(n, err)
		}
		b.ReportMetric(float64(n), "events")
	}
	b.Run("warm", func(b *testing.B) {
		loop(b, func() { month(b) })
	})
	b.Run("cold", func(b *testing.B) {
		loop(b, func() {
			f = New(f.svc.store, f.svc.env, Options{}).File(f.who, f.db)
			month(b)
		})
	})
}

// BenchmarkBusy merges the busy times of two weeks of one person.
func BenchmarkBusy(b *testing.B) {
	f := large(b)
	from := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	loop(b, func() {
		if list, err := f.Busy(context.Background(), "", from, from.AddDate(0, 0, 14)); err != nil || len(list) == 0 {
			b.Fatal(list, err)
		}
	})
}

// BenchmarkUnchanged synchronizes a client that has everything.
func BenchmarkUnchanged(b *testing.B) {
	f := large(b)
	c, err := f.Collection(context.Background(), Calendar, DefaultCalendar)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if x, err := f.Changes(context.Background(), Calendar, DefaultCalendar, c.Token, 0); err != nil ||
			len(x.Changed) != 0 {
			b.Fatal(x, err)
		}
	}
}

// BenchmarkBusyOf50 merges the busy times of two weeks of 50 people with 1,000 events each, 100 of them recurring.
func BenchmarkBusyOf50(b *testing.B) {
	list := calendars(b, 50, 1000)
	from := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	all := func(b *testing.B, svc *Service) {
		for _, f := range list {
			periods, err := svc.File(f.who, f.db).Busy(context.Background(), "", from, from.AddDate(0, 0, 14))
			if err != nil || len(periods) == 0 {
				b.Fatal(periods, err)
			}
		}
	}
	b.Run("warm", func(b *testing.B) {
		loop(b, func() { all(b, list[0].svc) })
	})
	b.Run("cold", func(b *testing.B) {
		loop(b, func() { all(b, New(list[0].svc.store, list[0].svc.env, Options{})) })
	})
}
