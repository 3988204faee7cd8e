package result

import (
	"strings"
	"testing"
	"time"

	"doublet/bench/record"
	"doublet/bench/report"
)

// TestResult checks that the table shows the probe, the errors, and the result of bench max.
func TestResult(t *testing.T) {
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
	c := Of(r, "x.run")
	c.Most = &Most{Users: 7, AtLeast: true, Reason: "why"}
	s := c.Steps[0]
	if s.Probe != 2 || s.DriverCores != 0.75 || s.Cores["g"] != 1.5 || s.Errors != 3 || s.Missed != 2 || s.TPM != 1 {
		t.Errorf("%+v", s)
	}
	text := c.Text()
	for _, want := range []string{"2.0 ms", "g 1.50, driver 0.75", "3 × NO full", "at least 7 users",
		"ended early: why", "measured"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
}

// TestThresholds checks which thresholds are accepted, and which a run exceeds.
func TestThresholds(t *testing.T) {
	t.Parallel()
	r := &record.Run{Steps: []record.Step{{Users: 7, To: record.Duration(time.Minute), Outcome: record.Measured}},
		Verdicts: []record.Verdict{{Server: "one", Lost: 1}}}
	x := record.Interval{Phase: record.Measure, Action: "read", To: record.Duration(time.Minute),
		Errors: map[string]uint64{"NO full": 3}, Missed: 2}
	x.Latency.Add(10 * time.Millisecond)
	r.Intervals = append(r.Intervals, x)
	for text, want := range map[string]string{
		"p99>5ms": "p99>5ms at 7 users", "p99>20ms": "", "avg > 9ms": "avg > 9ms at 7 users", "avg>1s": "",
		"errors>2": "errors>2 at 7 users", "errors>3": "", "missed>1": "missed>1 at 7 users", "lost>0": "lost>0 on one",
		"doubled>0": "", "resurrected>0": "",
	} {
		limits, err := ParseThresholds([]string{text})
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := strings.Join(limits.broken(r), "; "); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	// A run that does not have what a threshold is about does not keep it.
	empty := &record.Run{Steps: []record.Step{{Users: 7, To: record.Duration(time.Minute)}}}
	failed := &record.Run{Steps: empty.Steps, Intervals: []record.Interval{{Phase: record.Measure, Action: "read",
		Errors: map[string]uint64{"NO full": 1}}}}
	for _, c := range []struct {
		run        *record.Run
		text, want string
	}{
		{empty, "p99>5ms", "p99>5ms at 7 users: no action was answered"},
		{empty, "errors>0", "errors>0 at 7 users: no action was answered"},
		{empty, "lost>0", "lost>0 at 7 users: no ledger was compared"},
		{failed, "avg>5ms", "avg>5ms at 7 users: no action was answered"},
		{failed, "errors>1", ""}, {failed, "errors>0", "errors>0 at 7 users"},
		{&record.Run{}, "p99>5ms", "p99>5ms: no step was measured"},
	} {
		limits, err := ParseThresholds([]string{c.text})
		if got := strings.Join(limits.broken(c.run), "; "); err != nil || got != c.want {
			t.Errorf("%s: %q, %v, want %q", c.text, got, err, c.want)
		}
	}
	for _, bad := range []string{"p99", "p0>1s", "p101>1s", "pNaN>1s", "px>1s", "avg>5", "errors>1s", "lost>x", "x>1s",
		""} {
		if _, err := ParseThresholds([]string{bad}); err == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}

// TestBusiestNotMetered checks that no processor use is told where the busiest server may not have been metered.
func TestBusiestNotMetered(t *testing.T) {
	t.Parallel()
	one := func(metered bool) *Result {
		return &Result{Steps: []Step{{TPM: 6000, Servers: []report.Server{{Name: "one", Metered: true, Cores: 0.2},
			{Name: "two", Metered: metered, Cores: 0.4}}}}}
	}
	s := NewSeries([]*Result{one(true), one(false)})
	if s.PerServer[0] != 4 || s.PerServer[1] != 0 || s.Ratio[1] != 0 {
		t.Errorf("%+v", s)
	}
	if text := one(false).Text(); !strings.Contains(text, "not metered") {
		t.Error(text)
	}
}
