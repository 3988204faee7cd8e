package maillog

import (
	_ "embed"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
)

// now is a Thursday.
var now = time.Date(2026, 11, 26, 18, 0, 0, 0, time.UTC)

//go:embed testdata/day.log
var dayLog string

// day has the lines of two people on one day, of Dovecot 2.3 and Postfix 3.7 as they write them.
func day(stamp string) string {
	return strings.ReplaceAll(dayLog, "STAMP", stamp)
}

func counted(t testing.TB, text string) *Counts {
	t.Helper()
	r := New(now)
	if err := r.Read(strings.NewReader(text), "mail.log"); err != nil {
		t.Fatal(err)
	}
	c, err := r.Counts()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestCounts counts two working days and a weekend: mail of strangers, retries and weekends do not count.
func TestCounts(t *testing.T) {
	t.Parallel()
	c := counted(t, day("Nov 25 13:34:03")+day("2026-11-26T23:30:00.123456+01:00")+day("Nov 22 10:00:00")+
		strings.Repeat("x", 3*maxLine)+"\n"+day("no time at all"))
	want := Counts{Days: 2, PersonDays: 4, Sessions: 4, Bodies: 128, Headers: 320, Deleted: 16, Expunged: 16, Single: 2,
		Several: 2, SeveralTo: 6, Skipped: 4, Unread: 4}
	sizes := fmt.Sprint(c.sizes)
	c.sizes = nil
	got, expect := fmt.Sprintf("%+v", *c), fmt.Sprintf("%+v", want)
	if got != expect || sizes != "[10443 2500 10443 2500]" {
		t.Errorf("%s %s, want %s", got, sizes, expect)
	}
}

// TestActions checks that a user is asked what the logs say of a person.
func TestActions(t *testing.T) {
	t.Parallel()
	c := counted(t, day("Nov 25 13:34:03")+day("Nov 26 13:34:03"))
	for _, hours := range []float64{2, 8} {
		rates := map[string]float64{}
		for _, a := range c.Actions(hours) {
			rates[a.Do] += a.Hour
		}
		// In a day a person reads 32, has 4 pages listed, deletes 4, and sends one message.
		for do, day := range map[string]float64{"read": 32, "scroll": 4, "delete": 4, "send": 1} {
			if got := rates[do]; math.Abs(got-day/hours) > 1e-9 {
				t.Errorf("%g hours: %s %g an hour, want %g", hours, do, got, day/hours)
			}
		}
	}
}

// TestProfile checks that the sizes keep the mean, with attachments as they travel.
func TestProfile(t *testing.T) {
	t.Parallel()
	c := &Counts{}
	want := 0.0
	for i := range 1000 {
		n := int64(1000 + 10*i)
		if i%100 == 0 {
			n = 10_000_000
		}
		c.sizes = append(c.sizes, n)
		want += float64(n) / 1000
	}
	got := 0.0
	for _, s := range c.profile() {
		got += (float64(s.Body) + float64(s.Attachment)*4/3 + 500) / parts
	}
	if math.Abs(got-want) > 0.01*want {
		t.Errorf("mean of %g bytes, want %g", got, want)
	}
	if one := (&Counts{sizes: []int64{300}}).profile(); len(one) != parts || one[9].Body != 100 {
		t.Errorf("%+v", one)
	}
}

// TestOften checks the numbers of times and loops: within 2 % where it is more than a few times a day.
func TestOften(t *testing.T) {
	t.Parallel()
	for _, hour := range []float64{0.5, 1, 2.3, 3.7, 8, 28.4, 100.1} {
		times, per := often(hour)
		if got := float64(times) / float64(per) * loops; math.Abs(got-hour) > 0.021*hour {
			t.Errorf("%g an hour became %d in %d loops", hour, times, per)
		}
	}
	if times, _ := often(0.01); times != 0 {
		t.Errorf("once in twelve days became %d", times)
	}
}

// TestNoWorkload checks the errors of logs that carry no workload.
func TestNoWorkload(t *testing.T) {
	t.Parallel()
	lines := strings.SplitAfter(day("Nov 25 13:34:03"), "\n")
	for want, text := range map[string]string{"no session of Dovecot": strings.Join(lines[2:], ""),
		"no message of Postfix":                 strings.Join(lines[:2], ""),
		"0 lines without a time, 4 at weekends": day("Nov 22 10:00:00")} {
		r := New(now)
		if err := r.Read(strings.NewReader(text), "mail.log"); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Counts(); !errors.Is(err, ErrLog) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// FuzzRead checks that no log ends the program, and that what is counted has no figure below 0.
func FuzzRead(f *testing.F) {
	f.Add(day("Nov 25 13:34:03"))
	f.Add(day("Feb 29 00:00:00"))
	f.Add(strings.ReplaceAll(day("2026-11-25T00:00:00Z"), "0", "99999999"))
	f.Fuzz(func(t *testing.T, text string) {
		r := New(now)
		if err := r.Read(strings.NewReader(text), "x"); err != nil {
			return
		}
		c, err := r.Counts()
		if err != nil {
			return
		}
		text, err = c.Workload(Options{Name: "x", Hours: 8, Messages: 10})
		if err != nil || strings.Contains(text, "NaN") || strings.Contains(text, "= -") {
			t.Fatal(err, text)
		}
	})
}
