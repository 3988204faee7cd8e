// Package result sums up runs for scripts and for a reader at a terminal, and compares them with thresholds.
package result

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"doublet/bench/record"
	"doublet/bench/report"
	"doublet/bench/run"
)

// Result is the result of a run, as --json prints it. Times are in milliseconds.
type Result struct {
	File     string   `json:"file"`
	Workload string   `json:"workload"`
	Protocol string   `json:"protocol"`
	Target   string   `json:"target"`
	Marks    []string `json:"marks,omitempty"`
	Steps    []Step   `json:"steps"`
	// Ledger compares the mail on each live server with the acknowledged mail, if a ledger was kept.
	Ledger []record.Verdict `json:"ledger,omitempty"`
	// Broken describes the exceeded thresholds.
	Broken []string `json:"broken,omitempty"`
	// Most is the result of bench max.
	Most *Most `json:"most,omitempty"`
}

// Step holds the figures of a step.
type Step struct {
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
	// Pending counts the actions without an answer at the end, Nothing those for which there was nothing to do.
	Pending uint64 `json:"pending,omitempty"`
	Nothing uint64 `json:"nothing,omitempty"`
	// Kinds counts the errors by the server's reply.
	Kinds map[string]uint64 `json:"error_kinds,omitempty"`
	// Probe is the median of the probe's medians. Cores is the processor use of each group of the server's processes.
	Probe       float64            `json:"probe_ms,omitempty"`
	Cores       map[string]float64 `json:"cores,omitempty"`
	DriverCores float64            `json:"driver_cores"`
	// Servers are the figures of each server of a lab.
	Servers []report.Server `json:"servers,omitempty"`
	// Failover is the time that users of a failed server needed to sign in at another one.
	Failover *Failover `json:"failover,omitempty"`
}

// Failover holds the times that users of a failed server needed to sign in at another one.
type Failover struct {
	People int64   `json:"people"`
	P50    float64 `json:"p50_ms"`
	P99    float64 `json:"p99_ms"`
	Max    float64 `json:"max_ms"`
	Failed uint64  `json:"failed"`
}

// Most is the largest number of users that a server serves well: the result of bench max.
type Most struct {
	Users int `json:"users"`
	// AtLeast means that the true number may be higher: no step was bad, or the search ended early for Reason.
	AtLeast bool   `json:"at_least,omitempty"`
	Reason  string `json:"reason,omitempty"`
}

// Read reads a run file and returns its result, with the thresholds that it exceeds.
func Read(path string, limits Thresholds) (*Result, error) {
	r, err := record.ReadFile(path)
	if err != nil {
		return nil, err
	}
	c := Of(r, path)
	c.Broken = limits.broken(r)
	return c, nil
}

// Of returns the result of a run that was read from the file path.
func Of(r *record.Run, path string) *Result {
	h := &r.Header
	c := &Result{File: path, Workload: h.Workload.Name, Protocol: h.Workload.Protocol, Target: h.Target.Name,
		Marks: h.Marks, Ledger: r.Verdicts}
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	for i := range r.Steps {
		s := &r.Steps[i]
		t := r.Total(s.Index, record.All)
		x := Step{
			Users: s.Users, Outcome: s.Outcome, Reason: s.Reason, TPM: r.TPM(s), Completed: t.Completed(),
			Average: ms(t.Latency.Mean()), P50: ms(t.Latency.Percentile(50)),
			P90: ms(t.Latency.Percentile(90)), P99: ms(t.Latency.Percentile(99)), Max: ms(t.Latency.Max()),
			Errors: t.Failed, Missed: t.Missed, Pending: t.Pending, Nothing: t.Nothing,
			Kinds: t.Errors, Cores: map[string]float64{},
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
		x.Servers = report.Servers(r, s)
		if t := r.Total(s.Index, run.Failover); t.Latency.Count() > 0 || t.Failed > 0 {
			x.Failover = &Failover{t.Latency.Count(), ms(t.Latency.Percentile(50)), ms(t.Latency.Percentile(99)),
				ms(t.Latency.Max()), t.Failed}
		}
		c.Steps = append(c.Steps, x)
	}
	return c
}

// Text returns the result as a table.
func (c *Result) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s over %s against %s: %s\n", c.Workload, c.Protocol, c.Target, c.File)
	for _, m := range c.Marks {
		fmt.Fprintf(&b, "  marked: %s\n", m)
	}
	const row = "%7s  %-12s %9s %10s %10s %10s %10s %10s %7s %7s  %s\n"
	fmt.Fprintf(&b, row, "users", "outcome", "TPM", "average", "p50", "p99", "longest", "probe", "errors",
		"missed", "cores")
	ms := func(v float64) string { return strconv.FormatFloat(v, 'f', 1, 64) + " ms" }
	for i := range c.Steps {
		s := &c.Steps[i]
		probe := "–"
		if s.Probe > 0 {
			probe = ms(s.Probe)
		}
		var cores []string
		for _, g := range slices.Sorted(maps.Keys(s.Cores)) {
			cores = append(cores, g+" "+strconv.FormatFloat(s.Cores[g], 'f', 2, 64))
		}
		cores = append(cores, "driver "+strconv.FormatFloat(s.DriverCores, 'f', 2, 64))
		fmt.Fprintf(&b, row, strconv.Itoa(s.Users), s.Outcome, strconv.FormatFloat(s.TPM, 'f', 0, 64), ms(s.Average),
			ms(s.P50), ms(s.P99), ms(s.Max), probe,
			strconv.FormatUint(s.Errors, 10), strconv.FormatUint(s.Missed, 10), strings.Join(cores, ", "))
		if s.Reason != "" {
			fmt.Fprintf(&b, "         %s\n", s.Reason)
		}
		for _, k := range slices.Sorted(maps.Keys(s.Kinds)) {
			fmt.Fprintf(&b, "         %d × %s\n", s.Kinds[k], k)
		}
		if s.Pending > 0 {
			fmt.Fprintf(&b, "         %d without an answer at the end\n", s.Pending)
		}
		if s.Nothing > 0 {
			fmt.Fprintf(&b, "         %d with nothing to do, such as to read in an empty folder\n", s.Nothing)
		}
		for _, v := range s.Servers {
			used := "not metered"
			if v.Metered {
				used = fmt.Sprintf("%.2f cores, %.0f MB, %.2f MB/s written", v.Cores, v.Memory, v.Writes)
			}
			fmt.Fprintf(&b, "         %-6s %s; work queue %.1f databases, at most %.0f, %.3f s on it, at most %.3f s\n",
				v.Name, used, v.Queue, v.QueueMax, v.Seconds, v.SecondsMax)
		}
		if f := s.Failover; f != nil {
			fmt.Fprintf(&b, "         failover of %d people: p50 %s, p99 %s, longest %s, %d failed\n", f.People,
				ms(f.P50), ms(f.P99), ms(f.Max), f.Failed)
		}
	}
	for i := range c.Ledger {
		v := &c.Ledger[i]
		fmt.Fprintf(&b, "ledger at %s: %d acknowledged", v.Server, v.Acknowledged)
		if v.Invitations+v.Answers > 0 {
			fmt.Fprintf(&b, ", with %d invitations and %d answers", v.Invitations, v.Answers)
		}
		fmt.Fprintf(&b, "; lost %d, doubled %d, resurrected %d\n", v.Lost, v.Doubled, v.Resurrected)
		for _, n := range v.Named {
			fmt.Fprintf(&b, "  %s\n", n)
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

// Fails returns an error if a threshold was exceeded.
func (c *Result) Fails() error {
	if len(c.Broken) == 0 {
		return nil
	}
	return fmt.Errorf("broken: %s", strings.Join(c.Broken, "; "))
}
