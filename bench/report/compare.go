package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"doublet/bench/record"
	"doublet/stat/repeats"
)

// Comparison is the documents' table "resource usage at a number of users, comparing A to B".
type Comparison struct {
	A     string        `json:"a"`
	B     string        `json:"b"`
	Users int           `json:"users"`
	Rows  []ComparedRow `json:"rows"`
	// Marks are the differences of the runs.
	Marks []string `json:"marks,omitempty"`
	// Runs are the runs of side A, then those of side B.
	Runs []ComparedRun `json:"runs"`
	// Measured is the number of measured steps on each side.
	Measured [2]int `json:"measured"`
}

// ComparedRun is a run of a comparison, with its own marks.
type ComparedRun struct {
	Side  string   `json:"side"`
	ID    string   `json:"id"`
	Marks []string `json:"marks,omitempty"`
}

// MarshalJSON implements json.Marshaler. Unknown values are null.
func (r ComparedRow) MarshalJSON() ([]byte, error) {
	known := func(v float64) *float64 {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil
		}
		return &v
	}
	return json.Marshal(map[string]any{"resource": r.Resource, "unit": r.Unit, "a": known(r.A), "b": known(r.B),
		"a_low": known(r.RangeA[0]), "a_high": known(r.RangeA[1]), "b_low": known(r.RangeB[0]),
		"b_high": known(r.RangeB[1]), "change_pct": known(r.Change), "low_pct": known(r.Low),
		"high_pct": known(r.High), "differs": r.Differs()})
}

// ComparedRow is the comparison of one resource.
type ComparedRow struct {
	Resource, Unit string
	A, B           float64
	// RangeA and RangeB bound the intervals of A and B, NaN for a side that was not repeated.
	RangeA, RangeB [2]float64
	// Change is the change from A to B in percent, NaN if A is 0. Low and High bound its interval of 95 % confidence;
	// NaN if no side was repeated.
	Change, Low, High float64
}

// Differs reports whether the interval of the change excludes 0.
func (r *ComparedRow) Differs() bool { return r.Low > 0 || r.High < 0 }

// ErrCompare means that runs should not be compared.
var ErrCompare = errors.New("these runs cannot be compared")

// resource computes the value of a row from one run.
type resource struct {
	name, unit string
	of         func(*record.Run, *record.Step) (float64, bool)
}

func latencyOf(p float64) func(*record.Run, *record.Step) (float64, bool) {
	return func(r *record.Run, s *record.Step) (float64, bool) {
		t := r.Total(s.Index, record.All)
		if p == 0 {
			return t.Latency.Mean().Seconds() * 1000, t.Latency.Count() > 0
		}
		return t.Latency.Percentile(p).Seconds() * 1000, t.Latency.Count() > 0
	}
}

func machine(value string, per float64) func(*record.Run, *record.Step) (float64, bool) {
	return func(r *record.Run, s *record.Step) (float64, bool) {
		v, n := r.Mean(s, "server", "", value)
		return v / per, n > 0
	}
}

// Processes returns the sum of a sampled value over the groups of the server's processes, in the measured part of a
// step. ok is false if one of them was not sampled: the sum of the others would be too small.
func Processes(r *record.Run, s *record.Step, value string) (sum float64, ok bool) {
	return summedOver(r, s, r.Groups("server"), value)
}

// Disks returns the sum over the server's disks, as [Processes] does over its processes.
func Disks(r *record.Run, s *record.Step, value string) (sum float64, ok bool) {
	var disks []string // those without a transfer too, which have a sum of 0
	for i := range r.Samples {
		if x := &r.Samples[i]; x.Host == "server" && strings.HasPrefix(x.Group, "disk:") &&
			!slices.Contains(disks, x.Group) {
			disks = append(disks, x.Group)
		}
	}
	return summedOver(r, s, disks, value)
}

func summedOver(r *record.Run, s *record.Step, groups []string, value string) (sum float64, ok bool) {
	for _, g := range groups {
		v, n := r.Mean(s, "server", g, value)
		if n == 0 {
			return 0, false
		}
		sum += v
	}
	return sum, len(groups) > 0
}

// Busiest returns the largest mean of a sampled value among the disks.
func Busiest(r *record.Run, s *record.Step, value string) (most float64, ok bool) {
	for _, d := range disksOf(r) {
		if v, n := r.Mean(s, "server", d, value); n > 0 {
			most, ok = max(most, v), true
		}
	}
	return most, ok
}

// valueOf returns the function of a resource that of computes, in units of per.
func valueOf(of func(*record.Run, *record.Step, string) (float64, bool), value string,
	per float64) func(*record.Run, *record.Step) (float64, bool) {
	return func(r *record.Run, s *record.Step) (float64, bool) {
		v, ok := of(r, s, value)
		return v / per, ok
	}
}

// driver returns the processor use of the drivers, in cores.
func driver(r *record.Run, s *record.Step) (cores float64, ok bool) {
	for _, g := range append(r.Groups("driver"), "") {
		if v, n := r.Mean(s, "driver", g, "cpu"); n > 0 {
			cores, ok = cores+v, true
		}
	}
	return cores, ok
}

// Strangers returns the share of the server's machine that was used by programs that are neither the server nor a
// driver on the same machine, in the measured part of a step; ok is false if the machine or the server was not metered.
func Strangers(r *record.Run, s *record.Step) (share float64, ok bool) {
	h := r.Header.Server
	busy, n := r.Mean(s, "server", "", "cpu")
	own, has := Processes(r, s, "cpu")
	if h == nil || h.CPUs < 1 || n == 0 || !has {
		return 0, false
	}
	if r.Header.Shared() {
		cores, _ := driver(r, s)
		own += cores
	}
	return max(0, busy-own) / float64(h.CPUs), true
}

// perAction returns a function that divides the programs' bytes by the number of user actions, in KB. The bytes include
// those of Sync.
func perAction(of func(*record.Total) uint64) func(*record.Run, *record.Step) (float64, bool) {
	return func(r *record.Run, s *record.Step) (float64, bool) {
		t := r.Total(s.Index, record.All)
		n := t.Latency.Count()
		return float64(of(&t)) / float64(max(n, 1)) / 1e3, n > 0
	}
}

var resources = []resource{
	{"Throughput (TPM)", "actions/min", func(r *record.Run, s *record.Step) (float64, bool) { return r.TPM(s), true }},
	{"Average response", "ms", latencyOf(0)},
	{"p50 response", "ms", latencyOf(50)},
	{"p99 response", "ms", latencyOf(99)},
	{"Processor busy, machine", "%", machine("cpu_pct", 1)},
	{"Processors, server's processes", "cores", valueOf(Processes, "cpu", 1)},
	{"Processor seconds per 1,000 actions", "s", func(r *record.Run, s *record.Step) (float64, bool) {
		cpu, ok := Processes(r, s, "cpu")
		tpm := r.TPM(s)
		return cpu * 60 / tpm * 1000, ok && tpm > 0
	}},
	{"Waiting for disks", "%", machine("iowait_pct", 1)},
	{"Processors, driver", "cores", driver},
	{"Memory, server's processes (PSS)", "MB", valueOf(Processes, "pss", 1e6)},
	{"Page faults, server's processes", "1/s", valueOf(Processes, "faults", 1)},
	{"Open files, server's processes", "", valueOf(Processes, "handles", 1)},
	{"Disk reads, server's processes", "MB/s", valueOf(Processes, "read_bytes", 1e6)},
	{"Disk writes, server's processes", "MB/s", valueOf(Processes, "write_bytes", 1e6)},
	{"Disk reads", "1/s", valueOf(Disks, "reads", 1)},
	{"Disk writes", "1/s", valueOf(Disks, "writes", 1)},
	{"Disk flushes", "1/s", valueOf(Disks, "flushes", 1)},
	{"Disk queue", "requests", valueOf(Disks, "queue", 1)},
	{"Disk response", "ms", valueOf(Busiest, "response_ms", 1)},
	{"Disk busy", "%", valueOf(Busiest, "busy_pct", 1)},
	{"Disk megabytes", "MB/s", func(r *record.Run, s *record.Step) (float64, bool) {
		in, ok := Disks(r, s, "read_bytes")
		out, has := Disks(r, s, "write_bytes")
		return (in + out) / 1e6, ok && has
	}},
	{"Bytes a program sends for an action", "KB", perAction(func(t *record.Total) uint64 { return t.Sent })},
	{"Bytes a program gets for an action", "KB", perAction(func(t *record.Total) uint64 { return t.Received })},
	{"Network in", "KB/s", machine("net_in", 1e3)},
	{"Network out", "KB/s", machine("net_out", 1e3)},
	{"Network, loopback", "KB/s", machine("loopback", 1e3)},
	{"Errors", "", func(r *record.Run, s *record.Step) (float64, bool) {
		t := r.Total(s.Index, record.All)
		return float64(t.Failed), true
	}},
	{"Missed", "", func(r *record.Run, s *record.Step) (float64, bool) {
		t := r.Total(s.Index, record.All)
		return float64(t.Missed), true
	}},
}

// Compare returns the tables for all numbers of users that both sides measured. Each side can have several measurements
// of the same thing, in one run or in several: their means are compared. Compare rejects runs that do not measure the
// same, unless anyway is set; then each difference is a mark.
func Compare(a, b []*record.Run, anyway bool) ([]Comparison, error) {
	if len(a) == 0 || len(b) == 0 {
		return nil, fmt.Errorf("%w: each side needs a run", ErrCompare)
	}
	all := append(slices.Clone(a), b...)
	marks, err := agree(all, anyway)
	if err != nil {
		return nil, err
	}
	var compared []ComparedRun
	for i, r := range all {
		side := "A"
		if i >= len(a) {
			side = "B"
		}
		compared = append(compared, ComparedRun{side, r.Header.ID, r.Header.Marks})
	}
	users, left := common(all)
	for _, x := range left {
		marks = append(marks, "left out: "+x)
	}
	var out []Comparison
	for _, users := range users {
		marks, err := registered(all, users, anyway, marks)
		if err != nil {
			return nil, err
		}
		c := Comparison{A: name(a[0], b[0]), B: name(b[0], a[0]), Users: users, Marks: marks, Runs: compared,
			Measured: [2]int{len(steps(a, users)), len(steps(b, users))}}
		for i := range resources {
			if row, ok := compare(&resources[i], a, b, users); ok {
				c.Rows = append(c.Rows, row)
			}
		}
		out = append(out, c)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%w: no number of users was measured on both sides: %s", ErrCompare,
			strings.Join(left, "; "))
	}
	return out, nil
}

// measured is a measured step of a run.
type measured struct {
	run  *record.Run
	step *record.Step
}

// steps returns the measured steps with a number of users.
func steps(runs []*record.Run, users int) (out []measured) {
	for _, r := range runs {
		for i := range r.Steps {
			if s := &r.Steps[i]; s.Users == users && s.Outcome == record.Measured {
				out = append(out, measured{r, s})
			}
		}
	}
	return out
}

// name returns the name of a side: its server, and its workload and protocol if the other side's differ.
func name(r, other *record.Run) string {
	h, o := &r.Header, &other.Header
	out := h.Target.Name
	if h.Workload.Name != o.Workload.Name || h.Workload.Protocol != o.Workload.Protocol {
		out += ", " + h.Workload.Name + " over " + h.Workload.Protocol
	}
	if h.Label != "" {
		out += " (" + h.Label + ")"
	}
	return out
}

// common returns the numbers of users that every run measured, and for each other one the runs that lack it, and why.
func common(all []*record.Run) (users []int, left []string) {
	var some []int
	for _, r := range all {
		for i := range r.Steps {
			if s := &r.Steps[i]; s.Outcome == record.Measured && !slices.Contains(some, s.Users) {
				some = append(some, s.Users)
			}
		}
	}
	slices.Sort(some)
	for _, n := range some {
		before := len(left)
		for _, r := range all {
			if len(steps([]*record.Run{r}, n)) == 0 {
				left = append(left, fmt.Sprintf("%s users: run %s lacks it: %s", group(int64(n)), r.Header.ID,
					lacks(r, n)))
			}
		}
		if len(left) == before {
			users = append(users, n)
		}
	}
	return users, left
}

// lacks returns the reason why a run has no measured step with a number of users.
func lacks(r *record.Run, users int) string {
	for i := range r.Steps {
		if s := &r.Steps[i]; s.Users == users {
			return strings.TrimSuffix(fmt.Sprintf("%s: %s", s.Outcome, s.Reason), ": ")
		}
	}
	return "not measured"
}

func compare(x *resource, a, b []*record.Run, users int) (ComparedRow, bool) {
	row := ComparedRow{Resource: x.name, Unit: x.unit, Change: math.NaN(), Low: math.NaN(), High: math.NaN()}
	var values [2][]float64
	for side, runs := range [][]*record.Run{a, b} {
		for _, m := range steps(runs, users) {
			if v, ok := x.of(m.run, m.step); ok {
				values[side] = append(values[side], v)
			}
		}
		if len(values[side]) == 0 {
			return row, false
		}
	}
	row.A, row.RangeA[0], row.RangeA[1] = repeats.Mean(values[0])
	row.B, row.RangeB[0], row.RangeB[1] = repeats.Mean(values[1])
	if row.A == 0 {
		return row, true
	}
	ratio, low, high := repeats.Quotient(values[0], values[1])
	row.Change, row.Low, row.High = (ratio-1)*100, (low-1)*100, (high-1)*100
	return row, true
}

// Text returns the table as text.
func (c *Comparison) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Resource usage at %s users comparing %s to %s\n", group(int64(c.Users)), c.A, c.B)
	for _, m := range c.Marks {
		fmt.Fprintf(&b, "  marked: %s\n", m)
	}
	for _, r := range c.Runs {
		if len(r.Marks) > 0 {
			fmt.Fprintf(&b, "  %s, run %s: %s\n", r.Side, r.ID, strings.Join(r.Marks, "; "))
		}
	}
	fmt.Fprintf(&b, "%-38s %12s %12s %10s  %s\n", "", "A", "B", "% change", "95 % interval of the change")
	for i := range c.Rows {
		r := &c.Rows[i]
		fmt.Fprintf(&b, "%-38s %12s %12s %10s  %s\n", r.Label(), r.ValueA(), r.ValueB(), r.ChangeText(), r.Interval())
	}
	return b.String()
}

// Label returns the name of the resource with its unit.
func (r *ComparedRow) Label() string {
	if r.Unit == "" {
		return r.Resource
	}
	return r.Resource + ", " + r.Unit
}

// ValueA returns the value of side A as text.
func (r *ComparedRow) ValueA() string { return number(r.A) }

// ValueB returns the value of side B as text.
func (r *ComparedRow) ValueB() string { return number(r.B) }

// ChangeText returns the change in percent as text.
func (r *ComparedRow) ChangeText() string {
	if math.IsNaN(r.Change) {
		return "–"
	}
	return fmt.Sprintf("%+.1f", r.Change)
}

// Interval returns the interval of the change as text.
func (r *ComparedRow) Interval() string {
	if math.IsNaN(r.Low) {
		return "unknown: no side was repeated, or a mean is 0"
	}
	out := fmt.Sprintf("%+.1f to %+.1f", r.Low, r.High)
	if !r.Differs() {
		out += ": no difference shown"
	}
	return out
}
