// Package report turns run files into reports: a page that opens from disk without a network, the documents' figures as
// pictures, tables as CSV, and the documents' comparison of two runs.
package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"doublet/bench/record"
	"doublet/stat/chart"
)

//go:embed page.html
var pageHTML string

var page = template.Must(template.New("page").Parse(pageHTML))

// maxOverTime limits the points of a line over time, and with them the size of the page.
const maxOverTime = 400

// Report is the report of one run.
type Report struct {
	Run     *record.Run
	Steps   []StepRow
	Figures []*Chart
	// Actions holds the actions of each step.
	Actions []StepActions
	Facts   [][2]string
	// Statistics are the server's own statistics that changed in the last step with a complete measurement.
	// StatisticsOf is that step's number of users.
	Statistics   []Statistic
	StatisticsOf int
	Style        template.CSS
}

// StepRow holds the figures of a step.
type StepRow struct {
	record.Step
	Counts                      bool // measured, and so compared
	TPM, ETR, ITR, CPU          float64
	Average, P50, P90, P99, Max string
	Errors, Missed              uint64
	Cores                       []string
	DriverCPU, Probe            string
}

// StepActions holds the figures of each action of a step.
type StepActions struct {
	Users int
	Rows  []ActionRow
}

// Statistic is one of the server's own statistics, before and after a step.
type Statistic struct {
	Name                               string
	Before, After, Change, PerThousand float64
}

// maxStatistics limits the rows of their table.
const maxStatistics = 500

// statistics compares a server's own statistics before and after a step; the samples hold only changed values.
func (r *Report) statistics() {
	var s *record.Step
	for i := range r.Run.Steps {
		if x := &r.Run.Steps[i]; x.To > x.From && x.Outcome != record.Interrupted {
			s = x
		}
	}
	if s == nil {
		return
	}
	before, after := map[string]float64{}, map[string]float64{}
	for i := range r.Run.Samples {
		x := &r.Run.Samples[i]
		if x.Host != record.Statistics {
			continue
		}
		for name, v := range x.Values {
			if x.Group != "" {
				name = x.Group + ": " + name
			}
			if _, known := before[name]; !known || x.At <= s.From {
				before[name] = v
			}
			if x.At <= s.To {
				after[name] = v
			}
		}
	}
	t := r.Run.Total(s.Index, record.All)
	thousands := float64(t.Latency.Count()) / 1000
	for _, name := range slices.Sorted(maps.Keys(after)) {
		x := Statistic{Name: name, Before: before[name], After: after[name]}
		if x.Change = x.After - x.Before; x.Change == 0 || len(r.Statistics) >= maxStatistics {
			continue
		}
		if thousands > 0 {
			x.PerThousand = x.Change / thousands
		}
		r.Statistics, r.StatisticsOf = append(r.Statistics, x), s.Users
	}
}

// ActionRow holds the figures of one action of a step.
type ActionRow struct {
	Action                           string
	Count                            string
	PerMinute                        string
	Average, P50, P90, P95, P99, Max string
	Errors, Missed                   string
	Sent, Received                   string
	Kinds                            []string
}

// Of returns the report of a run.
func Of(run *record.Run) *Report {
	r := &Report{Run: run, Style: chart.Style()}
	r.facts()
	for i := range run.Steps {
		s := &run.Steps[i]
		all := run.Total(s.Index, record.All)
		row := StepRow{
			Step: *s, Counts: s.Outcome == record.Measured, TPM: run.TPM(s), Average: ms(all.Latency.Mean()),
			P50: ms(all.Latency.Percentile(50)),
			P90: ms(all.Latency.Percentile(90)), P99: ms(all.Latency.Percentile(99)), Max: ms(all.Latency.Max()),
			Errors: all.Failed, Missed: all.Missed,
		}
		row.ETR = row.TPM / 60
		if pct, known := serverBusy(run, s); known {
			row.CPU = pct
			if pct > 0 {
				row.ITR = row.ETR / pct * 100
			}
		}
		for _, g := range r.groups() {
			if cpu, n := run.Mean(s, "server", g, "cpu"); n > 0 {
				row.Cores = append(row.Cores, g+" "+number(cpu))
			}
		}
		if cpu, known := driver(run, s); known {
			row.DriverCPU = number(cpu)
		}
		if p, n := run.Mean(s, "probe", "", "p50"); n > 0 {
			row.Probe = number(p*1000) + " ms"
		}
		r.Steps = append(r.Steps, row)
		r.Actions = append(r.Actions, r.actions(s))
	}
	r.figures()
	r.statistics()
	return r
}

// serverBusy returns the share of its processors that the server used, in percent: that of its groups of processes, or,
// without groups, that of the machine without a driver on it.
func serverBusy(run *record.Run, s *record.Step) (pct float64, known bool) {
	if h := run.Header.Server; h != nil && h.CPUs > 0 {
		if cores, ok := Processes(run, s, "cpu"); ok {
			return cores / float64(h.Processors()) * 100, true
		}
	}
	pct, n := run.Mean(s, "server", "", "cpu_pct")
	if h := run.Header.Server; run.Header.Shared() && h.CPUs > 0 {
		cores, _ := driver(run, s)
		pct = max(pct-cores/float64(h.CPUs)*100, 0)
	}
	return pct, n > 0
}

// ms formats a latency.
func ms(d time.Duration) string {
	v := float64(d.Microseconds()) / 1000
	if v >= 1000 {
		return number(v/1000) + " s"
	}
	return number(v) + " ms"
}

func inBytes(n float64) string {
	for _, unit := range []string{"B", "KB", "MB", "GB"} {
		if n < 1000 || unit == "GB" {
			return number(n) + " " + unit
		}
		n /= 1000
	}
	return ""
}

// groups returns the metered groups of processes.
func (r *Report) groups() []string { return r.Run.Groups("server") }

// disks returns the devices that had any activity.
func (r *Report) disks() []string { return disksOf(r.Run) }

func disksOf(run *record.Run) []string {
	seen := map[string]bool{}
	for i := range run.Samples {
		x := &run.Samples[i]
		if x.Host == "server" && strings.HasPrefix(x.Group, "disk:") && x.Values["reads"]+x.Values["writes"] > 0 {
			seen[x.Group] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

func (r *Report) facts() {
	h := &r.Run.Header
	add := func(name, value string) {
		if value != "" {
			r.Facts = append(r.Facts, [2]string{name, value})
		}
	}
	add("Workload", fmt.Sprintf("%s (%s)", h.Workload.Name, h.Workload.Hash))
	carried := h.Workload.Protocol
	if h.Workload.Own != carried {
		carried += ", written for " + h.Workload.Own
	}
	add("Carried by", carried)
	add("Left out", strings.Join(h.Workload.Left, ", "))
	add("Begun", h.Started.UTC().Format("2 January 2006, 15:04 UTC"))
	var doors []string
	for _, name := range slices.Sorted(maps.Keys(h.Target.Doors)) {
		doors = append(doors, name+" "+h.Target.Doors[name])
	}
	add("Doors", strings.Join(doors, ", "))
	if h.Server != nil {
		add("Server machine", describe(h.Server))
	}
	add("Driver machine", describe(&h.Driver))
	for i := range h.Drivers {
		add(fmt.Sprintf("Agent %d", i+1), describe(&h.Drivers[i]))
	}
	add("Driver", fmt.Sprintf("doublet %s, %d process(es), seed %d", h.Build, max(1, h.Agents), h.Seed))
	if r.Run.End != nil {
		add("Ended", r.Run.End.Reason+" after "+time.Duration(r.Run.End.At).Round(time.Second).String())
	} else {
		add("Ended", "cut off: the driver did not write its end")
	}
}

func describe(h *record.Host) string {
	parts := []string{h.Name, h.OS}
	if h.Kernel != "" {
		parts = append(parts, "Linux "+h.Kernel)
	}
	cpu := fmt.Sprintf("%d processors", h.CPUs)
	if h.Allowed > 0 {
		cpu += fmt.Sprintf(", %d of them the server's", h.Allowed)
	}
	if h.CPU != "" {
		cpu += " (" + h.CPU + ")"
	}
	parts = append(parts, cpu)
	if h.Memory > 0 {
		parts = append(parts, inBytes(float64(h.Memory))+" memory")
	}
	if h.Disk != "" {
		parts = append(parts, h.Disk)
	}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), ", ")
}

func (r *Report) actions(s *record.Step) StepActions {
	out := StepActions{Users: s.Users}
	minutes := time.Duration(s.To - s.From).Minutes()
	for _, name := range append([]string{record.All}, r.Run.Actions()...) {
		t := r.Run.Total(s.Index, name)
		if t.Latency.Count() == 0 && t.Failed+t.Missed+t.Nothing == 0 {
			continue
		}
		row := ActionRow{
			Action: name, Count: group(t.Completed()), Average: ms(t.Latency.Mean()),
			P50: ms(t.Latency.Percentile(50)), P90: ms(t.Latency.Percentile(90)),
			P95: ms(t.Latency.Percentile(95)), P99: ms(t.Latency.Percentile(99)), Max: ms(t.Latency.Max()),
			Errors: group(int64(t.Failed)), Missed: group(int64(t.Missed)),
			Sent: inBytes(float64(t.Sent)), Received: inBytes(float64(t.Received)),
		}
		if minutes > 0 {
			row.PerMinute = number(float64(t.Completed()) / minutes)
		}
		if name == record.All {
			row.Action = "all actions"
		} else {
			for _, k := range slices.Sorted(maps.Keys(t.Errors)) {
				row.Kinds = append(row.Kinds, fmt.Sprintf("%s × %s", group(int64(t.Errors[k])), k))
			}
			if t.Pending > 0 {
				row.Kinds = append(row.Kinds, group(int64(t.Pending))+" without an answer at the end")
			}
			if t.Nothing > 0 {
				row.Kinds = append(row.Kinds, group(int64(t.Nothing))+" × nothing to do")
			}
		}
		out.Rows = append(out.Rows, row)
	}
	return out
}

// HTML writes the page.
func (r *Report) HTML(w io.Writer) error {
	if err := page.Execute(w, r); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// Style returns the style sheet, which the live page shares.
func Style() template.CSS { return chart.Style() }

// Number formats a value with two or three significant digits, from 1,000 to a million as a whole number.
func Number(v float64) string { return number(v) }

// Milliseconds formats a latency.
func Milliseconds(d time.Duration) string { return ms(d) }

// Best returns the measured step with the most users, nil if no step was measured.
func (r *Report) Best() *StepRow {
	var best *StepRow
	for i := range r.Steps {
		if s := &r.Steps[i]; s.Counts && (best == nil || s.Users > best.Users) {
			best = s
		}
	}
	return best
}

// Number formats a value for the page.
func (r *Report) Number(v float64) string { return number(v) }

// Minutes formats a time of the run for the page.
func (r *Report) Minutes(d record.Duration) string {
	return time.Duration(d).Round(time.Second).String()
}
