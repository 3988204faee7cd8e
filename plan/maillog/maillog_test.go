package maillog

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
)

// now is a Thursday.
var now = time.Date(2026, 11, 26, 18, 0, 0, 0, time.UTC)

// day has the lines of two people on one day, of Dovecot 2.3 and Postfix 3.7 as they write them.
func day(stamp string) string {
	return strings.ReplaceAll(`STAMP imap(ann@x.example)<13132><rUc0/i1hZJJ/AAAB>: Info: Disconnected: Logged out in=356156 out=899671 deleted=6 expunged=8 trashed=0 hdr_count=160 hdr_bytes=9 body_count=40 body_bytes=833500
STAMP mail dovecot: imap(bob@x.example)<13153><uDY8/i1hgJJ/AAAB>: Disconnected: Connection closed (FETCH finished 0.064 secs ago) in=1309 out=134869 deleted=2 expunged=0 trashed=0 hdr_count=0 hdr_bytes=0 body_count=24 body_bytes=0
STAMP mail postfix/submission/smtpd[13163]: C470A9AC309: client=localhost[127.0.0.1], sasl_method=PLAIN, sasl_username=ann@x.example
STAMP mail postfix/qmgr[13075]: C470A9AC309: from=<ann@x.example>, size=10443, nrcpt=3 (queue active)
STAMP mail postfix/qmgr[13075]: C470A9AC309: from=<ann@x.example>, size=10443, nrcpt=2 (queue active)
STAMP mail postfix/smtpd[13163]: AB12: client=localhost[127.0.0.1], sasl_method=PLAIN, sasl_username=bob@x.example, sasl_sender=b
STAMP mail postfix/qmgr[13075]: AB12: from=<bob@x.example>, size=2500, nrcpt=1 (queue active)
STAMP mail postfix/smtpd[13163]: CD34: client=mx.example.org[192.0.2.1]
STAMP mail postfix/qmgr[13075]: CD34: from=<a@example.org>, size=999999, nrcpt=1 (queue active)
STAMP mail postfix/qmgr[13075]: CD34: removed
`, "STAMP", stamp)
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
	if got, expect := fmt.Sprintf("%+v", *c), fmt.Sprintf("%+v", want); got != expect || sizes != "[10443 2500 10443 2500]" {
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
		got += (float64(s.body) + float64(s.attachment)*4/3 + 500) / parts
	}
	if math.Abs(got-want) > 0.01*want {
		t.Errorf("mean of %g bytes, want %g", got, want)
	}
	if one := (&Counts{sizes: []int64{300}}).profile(); len(one) != parts || one[9].body != 100 {
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
		"no message of Postfix": strings.Join(lines[:2], ""), "(0 lines without a time, 4 at weekends)": day("Nov 22 10:00:00")} {
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
		if text := c.Workload(Options{Name: "x", Hours: 8, Messages: 10}); strings.Contains(text, "NaN") ||
			strings.Contains(text, "= -") {
			t.Fatal(text)
		}
	})
}
