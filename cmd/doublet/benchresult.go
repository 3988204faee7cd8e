package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"doublet/bench/record"
)

// conclusion is what a run came to, as --json prints it. Times are in milliseconds.
type conclusion struct {
	File     string       `json:"file"`
	Workload string       `json:"workload"`
	Protocol string       `json:"protocol"`
	Target   string       `json:"target"`
	Marks    []string     `json:"marks,omitempty"`
	Steps    []stepResult `json:"steps"`
	// Most is what bench max found.
	Most *most `json:"most,omitempty"`
}

// stepResult is a step in numbers.
type stepResult struct {
	Users     int            `json:"users"`
	Outcome   record.Outcome `json:"outcome"`
	Reason    string         `json:"reason,omitempty"`
	TPM       float64        `json:"tpm"`
	Completed int64          `json:"completed"`
	Average   float64        `json:"average_ms"`
	P50       float64        `json:"p50_ms"`
	P90       float64        `json:"p90_ms"`
	P99       float64        `json:"p99_ms"`
	Max       float64        `json:"max_ms"`
	Errors    uint64         `json:"errors"`
	Missed    uint64         `json:"missed"`
	// Kinds are the errors by what the server said.
	Kinds map[string]uint64 `json:"error_kinds,omitempty"`
	// Probe is the median of the probe's medians, Cores what each group of the server's processes used.
	Probe       float64            `json:"probe_ms,omitempty"`
	Cores       map[string]float64 `json:"cores,omitempty"`
	DriverCores float64            `json:"driver_cores"`
}

// most is the answer of bench max.
type most struct {
	Users int `json:"users"`
	// AtLeast says that nothing bad was seen, or that the search ended early, and why.
	AtLeast bool   `json:"at_least,omitempty"`
	Reason  string `json:"reason,omitempty"`
}

func conclude(r *record.Run, path string) *conclusion {
	h := &r.Header
	c := &conclusion{File: path, Workload: h.Workload.Name, Protocol: h.Workload.Protocol, Target: h.Target.Name, Marks: h.Marks}
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	for i := range r.Steps {
		s := &r.Steps[i]
		t := r.Total(s.Index, record.All)
		x := stepResult{
			Users: s.Users, Outcome: s.Outcome, Reason: s.Reason, TPM: r.TPM(s), Completed: t.Latency.Count(), Average: ms(t.Latency.Mean()), P50: ms(t.Latency.Percentile(50)),
			P90: ms(t.Latency.Percentile(90)), P99: ms(t.Latency.Percentile(99)), Max: ms(t.Latency.Max()), Errors: t.Failed, Missed: t.Missed, Kinds: t.Errors, Cores: map[string]float64{},
		}
		for _, g := range r.Groups("server") {
			if cpu, n := r.Mean(s, "server", g, "cpu"); n > 0 {
				x.Cores[g] = cpu
			}
		}
		for _, g := range append(r.Groups("driver"), "") {
			cpu, _ := r.Mean(s, "driver", g, "cpu")
			x.DriverCores += cpu
		}
		if p, n := r.Mean(s, "probe", "", "p50"); n > 0 {
			x.Probe = p * 1000
		}
		c.Steps = append(c.Steps, x)
	}
	return c
}

// text is the table for people.
func (c *conclusion) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s over %s against %s: %s\n", c.Workload, c.Protocol, c.Target, c.File)
	for _, m := range c.Marks {
		fmt.Fprintf(&b, "  marked: %s\n", m)
	}
	const row = "%7s  %-12s %9s %10s %10s %10s %10s %10s %7s %7s  %s\n"
	fmt.Fprintf(&b, row, "users", "outcome", "TPM", "average", "p50", "p99", "longest", "probe", "errors", "missed", "cores")
	ms := func(v float64) string { return strconv.FormatFloat(v, 'f', 1, 64) + " ms" }
	for i := range c.Steps {
		s := &c.Steps[i]
		probe := "–"
		if s.Probe > 0 {
			probe = ms(s.Probe)
		}
		var cores []string
		for _, g := range sortedKeys(s.Cores) {
			cores = append(cores, g+" "+strconv.FormatFloat(s.Cores[g], 'f', 2, 64))
		}
		cores = append(cores, "driver "+strconv.FormatFloat(s.DriverCores, 'f', 2, 64))
		fmt.Fprintf(&b, row, strconv.Itoa(s.Users), s.Outcome, strconv.FormatFloat(s.TPM, 'f', 0, 64), ms(s.Average), ms(s.P50), ms(s.P99), ms(s.Max), probe,
			strconv.FormatUint(s.Errors, 10), strconv.FormatUint(s.Missed, 10), strings.Join(cores, ", "))
		if s.Reason != "" {
			fmt.Fprintf(&b, "         %s\n", s.Reason)
		}
		for _, k := range sortedKeys(s.Kinds) {
			fmt.Fprintf(&b, "         %d × %s\n", s.Kinds[k], k)
		}
	}
	if m := c.Most; m != nil {
		atLeast := ""
		if m.AtLeast {
			atLeast = "at least "
		}
		fmt.Fprintf(&b, "the most that it serves well: %s%d users\n", atLeast, m.Users)
		if m.Reason != "" {
			fmt.Fprintf(&b, "  the search ended early: %s\n", m.Reason)
		}
	}
	return b.String()
}
