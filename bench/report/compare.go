package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"doublet/bench/record"
)

// Comparison is the documents' table "resource usage at a number of users, comparing A to B".
type Comparison struct {
	A      string        `json:"a"`
	B      string        `json:"b"`
	Users  int           `json:"users"`
	Rows   []ComparedRow `json:"rows"`
	Marks  []string      `json:"marks,omitempty"`
	Repeat [2]int        `json:"runs"` // number of runs of each side
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
		"change_pct": known(r.Change), "noise_pct": known(r.Noise), "exceeds": r.Exceeds})
}

// ComparedRow is the comparison of one resource.
type ComparedRow struct {
	Resource, Unit string
	A, B           float64
	// Change is the change from A to B in percent; NaN if A is 0.
	Change float64
	// Noise is the spread of repeated runs of one side, in percent of their mean; NaN if no side was repeated. Exceeds
	// means that the change is larger than the noise.
	Noise   float64
	Exceeds bool
}

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

// summed returns a function that sums a value over all disks, or over all groups of processes.
func summed(value string, per float64, disks bool) func(*record.Run, *record.Step) (float64, bool) {
	return func(r *record.Run, s *record.Step) (total float64, ok bool) {
		seen := map[string]bool{}
		for i := range r.Samples {
			g := r.Samples[i].Group
			if r.Samples[i].Host != "server" || g == "" || seen[g] || strings.HasPrefix(g, "disk:") != disks {
				continue
			}
			seen[g] = true
			if v, n := r.Mean(s, "server", g, value); n > 0 {
				total, ok = total+v/per, true
			}
		}
		return total, ok
	}
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
	{"Processors, server's processes", "cores", summed("cpu", 1, false)},
	{"Processor seconds per 1,000 actions", "s", func(r *record.Run, s *record.Step) (float64, bool) {
		cpu, ok := summed("cpu", 1, false)(r, s)
		tpm := r.TPM(s)
		return cpu * 60 / tpm * 1000, ok && tpm > 0
	}},
	{"Memory, server's processes (PSS)", "MB", summed("pss", 1e6, false)},
	{"Disk reads", "1/s", summed("reads", 1, true)},
	{"Disk writes", "1/s", summed("writes", 1, true)},
	{"Disk flushes", "1/s", summed("flushes", 1, true)},
	{"Disk megabytes", "MB/s", func(r *record.Run, s *record.Step) (float64, bool) {
		in, ok := summed("read_bytes", 1e6, true)(r, s)
		out, _ := summed("write_bytes", 1e6, true)(r, s)
		return in + out, ok
	}},
	{"Bytes a program sends for an action", "KB", perAction(func(t *record.Total) uint64 { return t.Sent })},
	{"Bytes a program gets for an action", "KB", perAction(func(t *record.Total) uint64 { return t.Received })},
	{"Network in", "KB/s", machine("net_in", 1e3)},
	{"Network out", "KB/s", machine("net_out", 1e3)},
	{"Errors", "", func(r *record.Run, s *record.Step) (float64, bool) {
		t := r.Total(s.Index, record.All)
		return float64(t.Failed), true
	}},
	{"Missed", "", func(r *record.Run, s *record.Step) (float64, bool) {
		t := r.Total(s.Index, record.All)
		return float64(t.Missed), true
	}},
}

// Compare returns the tables for all numbers of users that both sides measured. Each side can have several runs of the
// same thing: their means are compared, and their spread is the noise. Compare rejects runs of different workloads,
// protocols, hosts, speeds or mailboxes, unless anyway is set.
func Compare(a, b []*record.Run, anyway bool) ([]Comparison, error) {
	if len(a) == 0 || len(b) == 0 {
		return nil, fmt.Errorf("%w: each side needs a run", ErrCompare)
	}
	var marks []string
	for _, r := range append(slices.Clone(a), b...) {
		for _, why := range differences(&a[0].Header, &r.Header) {
			if !anyway {
				return nil, fmt.Errorf("%w: %s (say so anyway to see them side by side)", ErrCompare, why)
			}
			if !slices.Contains(marks, why) {
				marks = append(marks, why)
			}
		}
	}
	var out []Comparison
	for _, users := range common(a, b) {
		c := Comparison{A: name(a[0], b[0]), B: name(b[0], a[0]), Users: users, Marks: marks,
			Repeat: [2]int{len(a), len(b)}}
		for i := range resources {
			if row, ok := compare(&resources[i], a, b, users); ok {
				c.Rows = append(c.Rows, row)
			}
		}
		out = append(out, c)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%w: no number of users was measured on both sides", ErrCompare)
	}
	return out, nil
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

// differences returns the reasons why two runs do not measure the same.
func differences(a, b *record.Header) []string {
	var out []string
	differ := func(what string, x, y any) {
		if x != y {
			out = append(out, fmt.Sprintf("they differ in %s: %v and %v", what, x, y))
		}
	}
	differ("workload", a.Workload.Name+" "+a.Workload.Hash, b.Workload.Name+" "+b.Workload.Hash)
	differ("protocol", a.Workload.Protocol, b.Workload.Protocol)
	differ("what is left out", leftOut(a), leftOut(b))
	differ("speed", a.Speed, b.Speed)
	differ("how far mailboxes were filled", a.InitScale, b.InitScale)
	if a.Server != nil && b.Server != nil {
		differ("the server's machine", a.Server.Name, b.Server.Name)
	}
	differ("the driver's machine", a.Driver.Name, b.Driver.Name)
	return out
}

func leftOut(h *record.Header) string {
	if len(h.Workload.Left) == 0 {
		return "nothing"
	}
	return strings.Join(h.Workload.Left, ", ")
}

// common returns the numbers of users that every run measured.
func common(a, b []*record.Run) []int {
	count := map[int]int{}
	for _, r := range append(slices.Clone(a), b...) {
		for i := range r.Steps {
			if r.Steps[i].Outcome == record.Measured {
				count[r.Steps[i].Users]++
			}
		}
	}
	var out []int
	for users, n := range count {
		if n >= len(a)+len(b) {
			out = append(out, users)
		}
	}
	slices.Sort(out)
	return out
}

func compare(x *resource, a, b []*record.Run, users int) (ComparedRow, bool) {
	row := ComparedRow{Resource: x.name, Unit: x.unit, Noise: math.NaN(), Change: math.NaN()}
	var spread [2]float64
	for side, runs := range [][]*record.Run{a, b} {
		var values []float64
		for _, r := range runs {
			for i := range r.Steps {
				if s := &r.Steps[i]; s.Users == users && s.Outcome == record.Measured {
					if v, ok := x.of(r, s); ok {
						values = append(values, v)
					}
				}
			}
		}
		if len(values) == 0 {
			return row, false
		}
		mean := 0.0
		for _, v := range values {
			mean += v / float64(len(values))
		}
		if side == 0 {
			row.A = mean
		} else {
			row.B = mean
		}
		spread[side] = math.NaN()
		if len(values) > 1 && mean != 0 {
			spread[side] = (slices.Max(values) - slices.Min(values)) / mean * 100
		}
	}
	for _, s := range spread {
		if !math.IsNaN(s) && !(row.Noise > s) {
			row.Noise = s
		}
	}
	if row.A != 0 {
		row.Change = (row.B - row.A) / row.A * 100
	}
	row.Exceeds = !math.IsNaN(row.Noise) && math.Abs(row.Change) > row.Noise
	return row, true
}

// Text returns the table as text.
func (c *Comparison) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Resource usage at %s users comparing %s to %s\n", group(int64(c.Users)), c.A, c.B)
	for _, m := range c.Marks {
		fmt.Fprintf(&b, "  marked: %s\n", m)
	}
	fmt.Fprintf(&b, "%-38s %12s %12s %10s  %s\n", "", "A", "B", "% change", "against the noise of repeated runs")
	for _, r := range c.Rows {
		change, verdict := "–", "not known: no side was repeated"
		if !math.IsNaN(r.Change) {
			change = fmt.Sprintf("%+.1f", r.Change)
		}
		switch {
		case !math.IsNaN(r.Noise) && r.Exceeds:
			verdict = fmt.Sprintf("exceeds %.1f %%", r.Noise)
		case !math.IsNaN(r.Noise):
			verdict = fmt.Sprintf("within %.1f %%", r.Noise)
		}
		label := r.Resource
		if r.Unit != "" {
			label += ", " + r.Unit
		}
		fmt.Fprintf(&b, "%-38s %12s %12s %10s  %s\n", label, number(r.A), number(r.B), change, verdict)
	}
	return b.String()
}
