package main

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"doublet/bench/record"
	benchrun "doublet/bench/run"
)

func TestScrape(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics" {
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, "# HELP a b\n# TYPE a counter\na 5\nb{x=\"y z\",q=\"}\"} 1.5e3 1700000000\nc NaN\n\nd +Inf\n"+
			"no number here\n")
	}))
	defer s.Close()
	got, err := scrape(context.Background(), s.URL+"/metrics")
	if want := map[string]float64{"a": 5, `b{x="y z",q="}"}`: 1500}; err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := scrape(context.Background(), s.URL+"/other"); err == nil {
		t.Error("404 is no error")
	}
}

func TestLoopback(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]bool{"127.0.0.1:5": true, "[::1]:5": true, "localhost:5": true, ":5": false,
		"0.0.0.0:5": false, "10.1.2.3:5": false, "x": false} {
		if loopback(address) != want {
			t.Errorf("%s", address)
		}
	}
}

// TestGoodSteps checks which steps bench max accepts as good.
func TestGoodSteps(t *testing.T) {
	t.Parallel()
	total := func(latency time.Duration, n int, failed, missed uint64) *record.Total {
		t := &record.Total{Failed: failed, Missed: missed}
		for range n {
			t.Latency.Add(latency)
		}
		return t
	}
	for i, c := range []struct {
		outcome record.Outcome
		all     *record.Total
		good    bool
	}{
		{record.Measured, total(40*time.Millisecond, 1000, 5, 4), true},
		{record.Unsteady, total(40*time.Millisecond, 1000, 0, 0), true},
		{record.Discarded, total(40*time.Millisecond, 1000, 0, 0), false},
		{record.Measured, total(60*time.Millisecond, 1000, 0, 0), false},
		{record.Measured, total(40*time.Millisecond, 1000, 20, 0), false},
		{record.Measured, total(40*time.Millisecond, 1000, 0, 20), false},
	} {
		b := &benchSearch{p99: 50 * time.Millisecond}
		if got := b.good(record.Step{Outcome: c.outcome}, c.all); got != c.good {
			t.Errorf("case %d: %v", i, got)
		}
	}
	b := &benchSearch{Search: benchrun.Search{Least: 10, Most: 100}}
	if n := b.next(record.Step{Users: 10, Outcome: record.DriverBound, Reason: "late"},
		total(time.Millisecond, 5, 0, 0)); n != 0 || b.reason != "late" {
		t.Errorf("a driver that is the bottleneck is asked for %d more", n)
	}
}

// TestConclusion checks that the table shows the probe, the errors, and the result of bench max.
func TestConclusion(t *testing.T) {
	t.Parallel()
	r := &record.Run{Header: record.Header{Workload: record.Workload{Name: "n8mail", Protocol: "imap"},
		Target: record.Target{Name: "other"}}}
	x := record.Interval{Phase: record.Measure, Action: "read", To: record.Duration(time.Minute),
		Errors: map[string]uint64{"NO full": 3}, Missed: 2}
	x.Latency.Add(10 * time.Millisecond)
	r.Intervals = append(r.Intervals, x)
	for host, values := range map[string]map[string]float64{"probe": {"p50": 0.002}, "driver": {"cpu": 0.25}} {
		r.Samples = append(r.Samples, record.Sample{At: record.Duration(time.Second), Host: host, Values: values})
	}
	r.Samples = append(r.Samples, record.Sample{At: record.Duration(time.Second), Host: "server", Group: "g",
		Values: map[string]float64{"cpu": 1.5}},
		record.Sample{At: record.Duration(time.Second), Host: "driver", Group: "agent:1",
			Values: map[string]float64{"cpu": 0.5}})
	r.Steps = []record.Step{{Users: 7, To: record.Duration(time.Minute), Outcome: record.Measured}}
	c := conclude(r, "x.run")
	c.Most = &most{Users: 7, AtLeast: true, Reason: "why"}
	s := c.Steps[0]
	if s.Probe != 2 || s.DriverCores != 0.75 || s.Cores["g"] != 1.5 || s.Errors != 3 || s.Missed != 2 || s.TPM != 1 {
		t.Errorf("%+v", s)
	}
	text := c.text()
	for _, want := range []string{"2.0 ms", "g 1.50, driver 0.75", "3 × NO full", "at least 7 users",
		"ended early: why", "measured"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
}

// TestProgress checks that progress is sparse without a terminal, and that its lines fit a terminal.
func TestProgress(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	tell := (&app{streams: streams{err: &out}}).benchProgress()
	for step := range 2 {
		for i := range 50 {
			phase := record.Settle
			if i > 20 {
				phase = record.Measure
			}
			tell(benchrun.Progress{Step: step, Steps: 2, Phase: phase, Users: 1_000_000, Active: 999_999,
				Rate: 123456.7, P50: time.Hour, P99: time.Hour, Errors: 1e9, Missed: 1e9, Left: 999 * time.Hour})
		}
	}
	if n := strings.Count(out.String(), "\n"); n != 4 || strings.Contains(out.String(), "\x1b") {
		t.Errorf("%d lines: %s", n, out.String())
	}
	for _, l := range progressBlock(benchrun.Progress{Steps: 10, Phase: record.Measure, Users: 1_000_000,
		Active: 999_999, Rate: 123456.7, P50: time.Hour, P99: time.Hour, Errors: 1e9, Missed: 1e9,
		Left: 999 * time.Hour}) {
		if len(l) > 79 {
			t.Errorf("%d letters: %s", len(l), l)
		}
	}
}
