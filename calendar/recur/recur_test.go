package recur

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// wall parses a time in the form of iCalendar.
func wall(t testing.TB, s string) time.Time {
	t.Helper()
	at, err := time.Parse("20060102T150405", s)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// first returns the first n times of a rule, joined.
func first(t testing.TB, rule, start string, n int) string {
	t.Helper()
	r, err := Parse(rule)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	err = r.Between(wall(t, start), wall(t, start), wall(t, "99991231T000000"), func(at time.Time) bool {
		out = append(out, at.Format("20060102T150405"))
		return len(out) < n
	})
	if err != nil {
		out = append(out, err.Error())
	}
	return strings.ReplaceAll(strings.Join(out, " "), start[8:], "")
}

// TestExamples has the examples of RFC 5545 section 3.8.5.3. A time of day is left out where it is that of the start.
func TestExamples(t *testing.T) {
	const start = "19970902T090000"
	for _, c := range []struct {
		rule, start string
		want        string
	}{
		{"FREQ=DAILY;INTERVAL=10;COUNT=5", start, "19970902 19970912 19970922 19971002 19971012"},
		{"FREQ=WEEKLY;INTERVAL=2;COUNT=8;WKST=SU;BYDAY=TU,TH", start,
			"19970902 19970904 19970916 19970918 19970930 19971002 19971014 19971016"},
		{"FREQ=MONTHLY;COUNT=10;BYDAY=1FR", "19970905T090000",
			"19970905 19971003 19971107 19971205 19980102 19980206 19980306 19980403 19980501 19980605"},
		{"FREQ=MONTHLY;INTERVAL=2;COUNT=4;BYDAY=1SU,-1SU", "19970907T090000", "19970907 19970928 19971102 19971130"},
		{"FREQ=MONTHLY;COUNT=6;BYDAY=-2MO", "19970922T090000", "19970922 19971020 19971117 19971222 19980119 19980216"},
		{"FREQ=MONTHLY;BYMONTHDAY=-3", "19970928T090000", "19970928 19971029 19971128 19971229"},
		{"FREQ=MONTHLY;COUNT=10;BYMONTHDAY=1,-1", "19970930T090000",
			"19970930 19971001 19971031 19971101 19971130 19971201 19971231 19980101 19980131 19980201"},
		{"FREQ=YEARLY;INTERVAL=2;COUNT=5;BYMONTH=1,2,3", "19970310T090000",
			"19970310 19990110 19990210 19990310 20010110"},
		{"FREQ=YEARLY;INTERVAL=3;COUNT=10;BYYEARDAY=1,100,200", "19970101T090000",
			"19970101 19970410 19970719 20000101 20000409 20000718 20030101 20030410 20030719 20060101"},
		{"FREQ=YEARLY;BYDAY=20MO", "19970519T090000", "19970519 19980518 19990517"},
		{"FREQ=YEARLY;BYWEEKNO=20;BYDAY=MO", "19970512T090000", "19970512 19980511 19990517"},
		{"FREQ=YEARLY;BYWEEKNO=20", "19970512T090000", "19970512 19980511 19990517"},
		{"FREQ=YEARLY;BYMONTH=3;BYDAY=TH", "19970313T090000", "19970313 19970320 19970327 19980305"},
		{"FREQ=MONTHLY;BYDAY=FR;BYMONTHDAY=13", start, "19980213 19980313 19981113 19990813 20001013"},
		{"FREQ=MONTHLY;BYDAY=SA;BYMONTHDAY=7,8,9,10,11,12,13", "19970913T090000", "19970913 19971011 19971108"},
		{"FREQ=YEARLY;INTERVAL=4;BYMONTH=11;BYDAY=TU;BYMONTHDAY=2,3,4,5,6,7,8", "19961105T090000",
			"19961105 20001107 20041102"},
		{"FREQ=MONTHLY;COUNT=3;BYDAY=TU,WE,TH;BYSETPOS=3", "19970904T090000", "19970904 19971007 19971106"},
		{"FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-2", "19970929T090000",
			"19970929 19971030 19971127 19971230 19980129"},
		{"FREQ=HOURLY;INTERVAL=3;COUNT=3", start, "19970902 19970902T120000 19970902T150000"},
		{"FREQ=MINUTELY;INTERVAL=90;COUNT=4", start, "19970902 19970902T103000 19970902T120000 19970902T133000"},
		{"FREQ=DAILY;BYHOUR=9,10;BYMINUTE=0,40;COUNT=4", start,
			"19970902 19970902T094000 19970902T100000 19970902T104000"},
		{"FREQ=WEEKLY;INTERVAL=2;COUNT=4;BYDAY=TU,SU;WKST=MO", "19970805T090000",
			"19970805 19970810 19970819 19970824"},
		{"FREQ=WEEKLY;INTERVAL=2;COUNT=4;BYDAY=TU,SU;WKST=SU", "19970805T090000",
			"19970805 19970817 19970819 19970831"},
		{"FREQ=MONTHLY;BYMONTHDAY=15,30;COUNT=5", "20070115T090000", "20070115 20070130 20070215 20070315 20070330"},
		{"FREQ=MONTHLY", "20260131T090000", "20260131 20260331 20260531"},
		{"FREQ=YEARLY", "20240229T090000", "20240229 20280229 20320229"},
		{"FREQ=SECONDLY;INTERVAL=30;COUNT=3", start, "19970902 19970902T090030 19970902T090100"},
		{"FREQ=SECONDLY;BYMONTH=1;BYMONTHDAY=1;BYHOUR=0;BYMINUTE=0;BYSECOND=7;COUNT=2", start,
			"19980101T000007 19990101T000007"},
		// 8,000 years without such a day are soon read.
		{"FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30", start, ""},
		{"FREQ=SECONDLY;BYMONTH=2;BYMONTHDAY=30", start, ""},
		{"FREQ=SECONDLY;BYSECOND=1;BYSETPOS=2", start, ErrSteps.Error()},
	} {
		n := max(1, len(strings.Fields(c.want)))
		if got := first(t, c.rule, c.start, n); got != c.want {
			t.Errorf("%s from %s:\n%s\nwant\n%s", c.rule, c.start, got, c.want)
		}
	}
}

func TestParseErrors(t *testing.T) {
	for _, s := range []string{"", "COUNT=1", "FREQ=OFTEN", "FREQ=DAILY;COUNT=0", "FREQ=DAILY;COUNT=x", "FREQ",
		"FREQ=DAILY;INTERVAL=0", "FREQ=DAILY;INTERVAL=99999999999", "FREQ=DAILY;FREQ=DAILY", "FREQ=DAILY;BYDAY=XX",
		"FREQ=DAILY;BYDAY=M", "FREQ=DAILY;BYDAY=0MO", "FREQ=DAILY;BYDAY=54MO", "FREQ=DAILY;BYMONTH=13",
		"FREQ=DAILY;BYMONTH=-1", "FREQ=DAILY;BYHOUR=24", "FREQ=DAILY;UNTIL=now", "FREQ=DAILY;WKST=1",
		"FREQ=DAILY;BYSETPOS=1", "FREQ=DAILY;RSCALE=HEBREW", "FREQ=DAILY;BYSETPOS=0;BYDAY=MO",
		"FREQ=DAILY;BYDAY=" + strings.Repeat("MO,", 4000)} {
		if r, err := Parse(s); !errors.Is(err, ErrRule) {
			t.Errorf("%q: %+v %v", s, r, err)
		}
	}
	r, err := Parse(" freq=weekly;until=20260102T030405Z;X-OTHER=1;rscale=gregorian;byday=-1mo,+2TU,-1MO;")
	if err != nil || !r.UntilUTC || r.UntilDay || r.Until != time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) ||
		!slices.Equal(r.Days, []NDay{{-1, time.Monday}, {2, time.Tuesday}}) {
		t.Errorf("%+v %v", r, err)
	}
	if r, err := Parse("FREQ=DAILY;UNTIL=20260102"); err != nil || !r.UntilDay || r.UntilUTC {
		t.Errorf("%+v %v", r, err)
	}
}

// randomRule returns a rule that comes true now and then, and is in the part of the language in which programs agree:
// a numbered day only in months and years, no position in weeks (the first one counts from DTSTART for some), and a day
// of the week beside each week's number, counted from the first.
func randomRule(rnd *rand.Rand) string {
	some := func(n, lo, hi int, negative bool) string {
		var out []string
		for range n {
			x := lo + rnd.IntN(hi-lo+1)
			if negative && rnd.IntN(3) == 0 {
				x = -x
			}
			out = append(out, fmt.Sprint(x))
		}
		return strings.Join(out, ",")
	}
	f := Frequency(rnd.IntN(7))
	rule := "FREQ=" + frequencies[f]
	add := func(chance int, part string) bool {
		if rnd.IntN(chance) > 0 {
			return false
		}
		rule += ";" + part
		return true
	}
	add(2, "INTERVAL="+fmt.Sprint(1+rnd.IntN(5)))
	add(3, "COUNT="+fmt.Sprint(1+rnd.IntN(40)))
	add(4, "WKST="+weekdays[rnd.IntN(7)])
	lists := add(3, "BYMONTH="+some(1+rnd.IntN(4), 1, 12, false))
	lists = add(3, "BYMONTHDAY="+some(1+rnd.IntN(6), 1, 28, true)) || lists
	weeks := f == Yearly && add(4, "BYWEEKNO="+some(1+rnd.IntN(10), 1, 52, false))
	if weeks || rnd.IntN(2) == 0 {
		var list []string
		for range 1 + rnd.IntN(3) {
			d := weekdays[rnd.IntN(7)]
			if f <= Monthly && !weeks && strings.Contains(rule, "WKST=") {
				d = fmt.Sprint([]int{1, 2, 3, 4, -1, -2}[rnd.IntN(6)]) + d
			}
			list = append(list, d)
		}
		rule, lists = rule+";BYDAY="+strings.Join(list, ","), true
	} else if f == Yearly || f >= Hourly {
		lists = add(4, "BYYEARDAY="+some(1+rnd.IntN(50), 1, 365, true)) || lists
	}
	lists = add(3, "BYHOUR="+some(1+rnd.IntN(3), 0, 23, false)) || lists
	lists = add(3, "BYMINUTE="+some(1+rnd.IntN(3), 0, 59, false)) || lists
	lists = add(4, "BYSECOND="+some(1+rnd.IntN(3), 0, 59, false)) || lists
	if lists && f != Weekly {
		add(4, "BYSETPOS="+some(1+rnd.IntN(3), 1, 5, true))
	}
	return rule
}

// TestSkip compares windows of random rules with the whole of them: what is skipped must not be missing.
func TestSkip(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	start := time.Date(2019, 2, 27, 22, 10, 5, 0, time.UTC)
	for range 3000 {
		text := randomRule(rnd)
		r, err := Parse(text)
		if err != nil {
			t.Fatal(text, err)
		}
		var all []time.Time
		end := start.AddDate(4, 0, 0)
		if r.Frequency >= Hourly {
			end = start.AddDate(0, 2, 0)
		}
		if r.Frequency == Secondly {
			end = start.AddDate(0, 0, 1)
		}
		err = r.Between(start, start, end, func(at time.Time) bool { all = append(all, at); return true })
		if errors.Is(err, ErrSteps) {
			continue
		}
		from := start.Add(time.Duration(rnd.Int64N(int64(end.Sub(start)))))
		to := from.Add(time.Duration(rnd.Int64N(int64(end.Sub(from)) + 1)))
		var want, got []time.Time
		for _, at := range all {
			if !at.Before(from.Truncate(time.Second)) && at.Before(to.Truncate(time.Second)) {
				want = append(want, at)
			}
		}
		err = r.Between(start, from.Truncate(time.Second), to.Truncate(time.Second), func(at time.Time) bool {
			got = append(got, at)
			return true
		})
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("%s from %s to %s: %v\n%v\nwant\n%v", text, from, to, err, got, want)
		}
	}
}

func FuzzRule(f *testing.F) {
	f.Add("FREQ=YEARLY;BYMONTH=3;BYDAY=-1SU;UNTIL=20300101T000000Z", int64(0), int64(1<<31))
	f.Add("FREQ=SECONDLY;BYSETPOS=-1;BYSECOND=60;COUNT=3;INTERVAL=1073741824", int64(1<<40), int64(1<<41))
	f.Add("FREQ=MONTHLY;BYWEEKNO=53,-53;BYYEARDAY=366,-366", int64(-1<<33), int64(1<<33))
	f.Fuzz(func(t *testing.T, text string, from, to int64) {
		r, err := Parse(text)
		if err != nil {
			return
		}
		start := time.Unix(min(max(from, -1<<36), 1<<37), 0).UTC()
		last := start.Add(-time.Second)
		n := 0
		err = r.Between(start, start, time.Unix(min(to, 1<<38), 0), func(at time.Time) bool {
			if !at.After(last) {
				t.Fatalf("%s: %s after %s", text, at, last)
			}
			last, n = at, n+1
			return true
		})
		if err != nil && !errors.Is(err, ErrSteps) || n > maxSteps || r.Count > 0 && n > r.Count {
			t.Fatal(err, n)
		}
	})
}

func BenchmarkWindow(b *testing.B) {
	r, err := Parse("FREQ=WEEKLY;BYDAY=MO,WE,FR")
	if err != nil {
		b.Fatal(err)
	}
	start, from := wall(b, "20150105T090000"), wall(b, "20260301T000000")
	for b.Loop() {
		n := 0
		_ = r.Between(start, from, from.AddDate(0, 1, 0), func(time.Time) bool { n++; return true })
		if n != 13 {
			b.Fatal(n)
		}
	}
}

// TestLast compares the last time of rules with the one that an expansion ends with.
func TestLast(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	parts := []string{"", ";BYDAY=MO", ";BYDAY=TU,FR", ";BYDAY=WE;BYHOUR=7", ";BYMONTH=3,5", ";BYDAY=MO,TU;BYSETPOS=1"}
	found := 0
	for range 2000 {
		text := fmt.Sprintf("FREQ=%s;INTERVAL=%d;COUNT=%d%s", frequencies[2+r.IntN(2)], 1+r.IntN(5), 1+r.IntN(60),
			parts[r.IntN(len(parts))])
		rule, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Date(2026, 1, 1+r.IntN(28), 9, 30, 0, 0, time.UTC)
		want, times := start, 0
		err = rule.Between(start, start, start.AddDate(200, 0, 0), func(at time.Time) bool {
			want = at
			times++
			return true
		})
		last, ok := rule.Last(start)
		if err == nil && times == rule.Count && (!ok || !last.Equal(want)) {
			t.Errorf("%s from %s: %s %v, want %s", text, start, last, ok, want)
		}
		if ok {
			found++
		}
	}
	if found < 1000 {
		t.Errorf("only %d rules have a last time", found)
	}
	never := &Rule{Frequency: Weekly, Interval: 1 << 30, Count: 1 << 30}
	if last, ok := never.Last(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)); ok {
		t.Errorf("the last time is %s", last)
	}
}
