package recur

import (
	"encoding/json"
	"math/rand/v2"
	"os/exec"
	"strings"
	"testing"
	"time"

	"doublet/test/external"
)

// dateutil prints the first 60 times of each rule, null if it takes more than 100 ms of processor time.
const dateutil = `
import json, signal, sys
from itertools import islice
from datetime import datetime
from dateutil.rrule import rrulestr
class Late(Exception): pass
def late(*_): raise Late()
signal.signal(signal.SIGPROF, late)
out = []
for case in json.load(sys.stdin):
    start = datetime.strptime(case["start"], "%Y%m%dT%H%M%S")
    end = datetime.strptime(case["end"], "%Y%m%dT%H%M%S")
    try:
        rule = rrulestr(case["rule"], dtstart=start)
    except ValueError: # it never comes true
        rule = []
    times = []
    signal.setitimer(signal.ITIMER_PROF, 0.1)
    try:
        for t in islice(rule, 60):
            if t >= end: break
            times.append(t.strftime("%Y%m%dT%H%M%S"))
        out.append(" ".join(times))
    except Late:
        out.append(None)
    signal.setitimer(signal.ITIMER_PROF, 0)
json.dump(out, sys.stdout)
`

// TestDateutil compares random rules with Python's dateutil.
func TestDateutil(t *testing.T) {
	python := external.Need(t, "/usr/bin/python3")[0]
	if out, err := exec.Command(python, "-c", "import dateutil").CombinedOutput(); err != nil {
		external.Missing(t, "the Debian package python3-dateutil", string(out))
	}
	type question struct {
		Rule  string `json:"rule"`
		Start string `json:"start"`
		End   string `json:"end"`
	}
	rnd := rand.New(rand.NewPCG(5, 5545))
	var list []question
	for range 1000 {
		// A start on the first day of a week, so that weeks begin alike.
		start := time.Date(1990+rnd.IntN(50), time.Month(1+rnd.IntN(12)), 1+rnd.IntN(31), rnd.IntN(24), rnd.IntN(60),
			rnd.IntN(60), 0, time.UTC)
		q := question{Rule: randomRule(rnd), Start: start.Format("20060102T150405")}
		// Rules that seldom come true take dateutil too long if they have to go on for ever.
		years := 30
		switch {
		case strings.Contains(q.Rule, "SECONDLY"), strings.Contains(q.Rule, "MINUTELY"):
			years = 0
		case strings.Contains(q.Rule, "HOURLY"):
			years = 2
		}
		end := start.AddDate(years, 0, 3)
		q.End = end.Format("20060102T150405")
		if !strings.Contains(q.Rule, "COUNT=") {
			q.Rule += ";UNTIL=" + q.End
		} else if years < 30 {
			continue
		}
		list = append(list, q)
	}
	asked, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(python, "-c", dateutil)
	cmd.Stdin = strings.NewReader(string(asked))
	var complaint strings.Builder
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err, complaint.String())
	}
	var theirs []*string
	if err := json.Unmarshal(out, &theirs); err != nil || len(theirs) != len(list) {
		t.Fatal(err, len(theirs))
	}
	times, skipped := 0, 0
	for i, q := range list {
		if theirs[i] == nil {
			skipped++
			continue
		}
		r, err := Parse(q.Rule)
		if err != nil {
			t.Fatal(err)
		}
		var ours []string
		err = r.Between(wall(t, q.Start), wall(t, q.Start), wall(t, q.End), func(at time.Time) bool {
			ours = append(ours, at.Format("20060102T150405"))
			return len(ours) < 60
		})
		if got := strings.Join(ours, " "); err != nil || got != *theirs[i] {
			t.Errorf("%s from %s to %s: %v\nours   %s\ntheirs %s", q.Rule, q.Start, q.End, err, got, *theirs[i])
		}
		times += len(ours)
	}
	t.Logf("%d rules, %d times; %d rules took dateutil too long", len(list), times, skipped)
	if times < 10_000 || skipped > len(list)/10 {
		t.Errorf("only %d times of %d rules were compared", times, len(list)-skipped)
	}
}
