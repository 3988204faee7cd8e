package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"doublet/bench/drive"
	"doublet/bench/meter"
	"doublet/bench/record"
	benchrun "doublet/bench/run"
	"doublet/bench/workload"
)

// parseSteps parses "400", or "200..1000" with a step.
func parseSteps(users string, step int) ([]int, error) {
	lo, hi, ranged := strings.Cut(users, "..")
	if !ranged {
		hi = lo
	}
	from, err1 := strconv.Atoi(lo)
	to, err2 := strconv.Atoi(hi)
	if err1 != nil || err2 != nil || from < 1 || to < from || to > 1_000_000 {
		return nil, &exitError{exitUsage,
			fmt.Errorf("--users %s: give a number of people, or a range such as 200..1000", users)}
	}
	if from == to {
		return []int{from}, nil
	}
	if step < 1 {
		return nil, &exitError{exitUsage, errors.New("range of users needs --step")}
	}
	var out []int
	for n := from; n <= to; n += step {
		out = append(out, n)
	}
	return out, nil
}

// threshold is a parsed --fail-if.
type threshold struct {
	text   string
	exceed func(*record.Total) bool
	// against is set for thresholds on the ledger.
	against func(*record.Verdict) bool
}

func parseThresholds(list []string) ([]threshold, error) {
	var out []threshold
	for _, text := range list {
		name, value, ok := strings.Cut(strings.ReplaceAll(text, " ", ""), ">")
		limit, derr := time.ParseDuration(value)
		number, nerr := strconv.ParseUint(value, 10, 64)
		t := threshold{text: text}
		switch {
		case !ok:
		case name == "avg" && derr == nil:
			t.exceed = func(x *record.Total) bool { return x.Latency.Mean() > limit }
		case strings.HasPrefix(name, "p") && derr == nil:
			if p, err := strconv.ParseFloat(name[1:], 64); err == nil && p > 0 && p <= 100 {
				t.exceed = func(x *record.Total) bool { return x.Latency.Percentile(p) > limit }
			}
		case name == "errors" && nerr == nil:
			t.exceed = func(x *record.Total) bool { return x.Failed > number }
		case name == "missed" && nerr == nil:
			t.exceed = func(x *record.Total) bool { return x.Missed > number }
		case name == "lost" && nerr == nil:
			t.against = func(v *record.Verdict) bool { return v.Lost > int(number) }
		case name == "doubled" && nerr == nil:
			t.against = func(v *record.Verdict) bool { return v.Doubled > int(number) }
		case name == "resurrected" && nerr == nil:
			t.against = func(v *record.Verdict) bool { return v.Resurrected > int(number) }
		}
		if t.exceed == nil && t.against == nil {
			return nil,
				&exitError{exitUsage,
					fmt.Errorf("--fail-if %q: want p99>50ms, avg>1s, errors>0, missed>0, lost>0, doubled>0 or "+
						"resurrected>0", text)}
		}
		out = append(out, t)
	}
	return out, nil
}

// createRun creates the run file.
func createRun(dir, name string, now time.Time) (string, *os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", nil, err
	}
	path := filepath.Join(dir, name+"-"+now.UTC().Format("20060102-150405")+".run")
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	return path, f, err
}

func benchHeader(o *benchOptions, w *workload.Workload, set map[string]int, protocol string, world *drive.World,
	id string, now time.Time) record.Header {
	h := record.Header{
		ID: id, Label: o.label, Started: now, Build: version(), Seed: o.seed, Speed: o.speed,
		InitScale: o.initScale, Agents: 1,
		Workload: record.Workload{
			Name: w.Name, Hash: w.Hash(), Protocol: protocol, Own: w.Protocol, Left: w.Left(protocol),
			Loop: record.Duration((w.Loop.Min + w.Loop.Max) / 2), Actions: w.PerHour(set),
		},
		Target: record.Target{Name: o.name, Doors: world.Target.Doors},
		Driver: meter.Host(""),
	}
	mark := func(when bool, format string, args ...any) {
		if when {
			h.Marks = append(h.Marks, fmt.Sprintf(format, args...))
		}
	}
	mark(o.window < time.Hour, "window of %v", o.window)
	mark(o.speed != 1, "%g times the speed", o.speed)
	mark(o.initScale != 1 && w.Mailbox.Messages > 0, "mailboxes filled to %g %%", o.initScale*100)
	mark(o.cold, "every browser began with nothing of the client")
	mark(o.keep, "mailboxes not made fresh")
	cycle := w.Cycle(set, o.speed)
	mark(o.window < cycle, "the window is shorter than a round of the workload (%v)", cycle.Round(time.Second))
	mark(len(h.Workload.Left) > 0, "left out: %s", strings.Join(h.Workload.Left, ", "))
	for name, n := range set {
		mark(true, "%s = %d", name, n)
	}
	return h
}

// told is the interval between lines of progress if the output is not a terminal.
const told = time.Minute

// benchProgress returns a function that shows progress. On a terminal it rewrites one block for each step; elsewhere it
// writes a line for each phase and each minute.
func (a *app) benchProgress() func(benchrun.Progress) {
	f, ok := a.err.(*os.File)
	terminal := ok && isTerminal(f)
	var last time.Time
	before := benchrun.Progress{Step: -1}
	return func(p benchrun.Progress) {
		block := progressBlock(p)
		switch now := time.Now(); {
		case terminal:
			if p.Step == before.Step {
				fmt.Fprintf(a.err, "\x1b[%dA", len(block))
			}
			for _, l := range block {
				fmt.Fprintf(a.err, "\r\x1b[K%s\n", l)
			}
		case p.Phase != before.Phase || p.Step != before.Step || now.Sub(last) >= told:
			last = now
			fmt.Fprintln(a.err, strings.Join(block, "; "))
		}
		before = p
	}
}

// progressBlock describes the state of a run in lines of at most 80 columns. The number of lines is constant.
func progressBlock(p benchrun.Progress) []string {
	left := ""
	if p.Left > 0 {
		left = fmt.Sprintf(", at most %v left", p.Left.Round(time.Second))
	}
	return []string{
		fmt.Sprintf("step %d of %d: %s%s", p.Step+1, p.Steps, p.Phase, left),
		fmt.Sprintf("%d of %d users, %.1f actions/s", p.Active, p.Users, p.Rate),
		fmt.Sprintf("p50 %v, p99 %v, %d errors, %d missed", p.P50.Round(10*time.Microsecond),
			p.P99.Round(10*time.Microsecond), p.Errors, p.Missed),
	}
}

// noted writes a line of progress. On a terminal each line replaces the one before; elsewhere only the last is written.
func (a *app) noted(last bool, format string, args ...any) {
	f, ok := a.err.(*os.File)
	switch text := fmt.Sprintf(format, args...); {
	case ok && isTerminal(f) && last:
		fmt.Fprintf(a.err, "\r\x1b[K%s\n", text)
	case ok && isTerminal(f):
		fmt.Fprintf(a.err, "\r\x1b[K%s", text)
	case last:
		fmt.Fprintln(a.err, text)
	}
}

// measure runs the plan and writes the run file.
func (a *app) measure(ctx context.Context, plan *benchrun.Plan, h record.Header, file *os.File, path string,
	watch *watch) (err error) {
	defer func() {
		if cerr := file.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			err = fmt.Errorf("%w (measurements are in %s)", err, path)
		}
	}()
	out := record.NewWriter(file, h)
	defer watch.begin(plan, out)()
	return plan.Run(ctx, out)
}

// concludeBench reads the run file and returns the figures and the exceeded thresholds.
func concludeBench(path string, thresholds []threshold, search *benchSearch) (*conclusion, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r, err := record.Read(f)
	if err != nil {
		return nil, err
	}
	c := conclude(r, path)
	if search != nil {
		n, capped := search.Found()
		c.Most = &most{Users: n, AtLeast: capped || search.reason != "", Reason: search.reason}
	}
	for i := range r.Steps {
		s := &r.Steps[i]
		t := r.Total(s.Index, record.All)
		for _, limit := range thresholds {
			if limit.exceed != nil && limit.exceed(&t) {
				c.Broken = append(c.Broken, fmt.Sprintf("%s at %d users", limit.text, s.Users))
			}
		}
	}
	for i := range r.Verdicts {
		for _, limit := range thresholds {
			if limit.against != nil && limit.against(&r.Verdicts[i]) {
				c.Broken = append(c.Broken, fmt.Sprintf("%s on %s", limit.text, r.Verdicts[i].Server))
			}
		}
	}
	return c, nil
}

// fails returns an error if a threshold was exceeded.
func (c *conclusion) fails() error {
	if len(c.Broken) == 0 {
		return nil
	}
	return &exitError{exitFailed, fmt.Errorf("broken: %s", strings.Join(c.Broken, "; "))}
}

func (a *app) printJSON(v any) error {
	out := json.NewEncoder(a.out)
	out.SetIndent("", "  ")
	return out.Encode(v)
}
