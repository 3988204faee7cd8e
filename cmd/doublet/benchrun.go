package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

// parseSteps reads "400", or "200..1000" with a step.
func parseSteps(users string, step int) ([]int, error) {
	lo, hi, ranged := strings.Cut(users, "..")
	if !ranged {
		hi = lo
	}
	from, err1 := strconv.Atoi(lo)
	to, err2 := strconv.Atoi(hi)
	if err1 != nil || err2 != nil || from < 1 || to < from || to > 1_000_000 {
		return nil, &exitError{exitUsage, fmt.Errorf("--users %s: give a number of people, or a range such as 200..1000", users)}
	}
	if from == to {
		return []int{from}, nil
	}
	if step < 1 {
		return nil, &exitError{exitUsage, errors.New("a range of users needs --step")}
	}
	var out []int
	for n := from; n <= to; n += step {
		out = append(out, n)
	}
	return out, nil
}

// threshold is a --fail-if.
type threshold struct {
	text   string
	exceed func(*record.Total) bool
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
		}
		if t.exceed == nil {
			return nil, &exitError{exitUsage, fmt.Errorf("--fail-if %q: give p99>50ms, avg>1s, errors>0 or missed>0", text)}
		}
		out = append(out, t)
	}
	return out, nil
}

// createRun makes the run file.
func createRun(dir, name string, now time.Time) (string, *os.File, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", nil, err
	}
	path := filepath.Join(dir, name+"-"+now.UTC().Format("20060102-150405")+".run")
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	return path, f, err
}

func benchHeader(o *benchOptions, w *workload.Workload, set map[string]int, protocol string, world *drive.World, id string, now time.Time) record.Header {
	h := record.Header{
		ID: id, Label: o.label, Started: now, Build: version(), Seed: o.seed, Speed: o.speed, InitScale: o.initScale, Agents: 1,
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
	mark(o.keep, "mailboxes not made fresh")
	cycle := w.Cycle(set, o.speed)
	mark(o.window < cycle, "the window is shorter than a round of the workload (%v)", cycle.Round(time.Second))
	mark(len(h.Workload.Left) > 0, "left out: %s", strings.Join(h.Workload.Left, ", "))
	for name, n := range set {
		mark(true, "%s = %d", name, n)
	}
	return h
}

// told is how often progress is told where nobody sits at a terminal.
const told = time.Minute

// benchProgress shows where a run stands: on a terminal in a block that is written over, one for each step;
// elsewhere in a line for each phase and each minute.
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

// progressBlock says where a run stands in lines that fit a terminal of 80 columns; there are always as many.
func progressBlock(p benchrun.Progress) []string {
	left := ""
	if p.Left > 0 {
		left = fmt.Sprintf(", at most %v left", p.Left.Round(time.Second))
	}
	return []string{
		fmt.Sprintf("step %d of %d: %s%s", p.Step+1, p.Steps, p.Phase, left),
		fmt.Sprintf("%d of %d users, %.1f actions/s", p.Active, p.Users, p.Rate),
		fmt.Sprintf("p50 %v, p99 %v, %d errors, %d missed", p.P50.Round(10*time.Microsecond), p.P99.Round(10*time.Microsecond), p.Errors, p.Missed),
	}
}

// noted writes a line of progress over the one before where somebody sits at a terminal, and only the last one
// elsewhere.
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

// measure carries the plan out into the run file.
func (a *app) measure(ctx context.Context, plan *benchrun.Plan, h record.Header, file *os.File, path string, watch *watch) (err error) {
	defer func() {
		if cerr := file.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			err = fmt.Errorf("%w (what was measured is in %s)", err, path)
		}
	}()
	out := record.NewWriter(file, h)
	defer watch.begin(plan, out)()
	return plan.Run(ctx, out)
}

// concludeBench prints what a run came to, and fails where a threshold was broken.
func (a *app) concludeBench(path string, asJSON bool, thresholds []threshold, search *benchSearch) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	r, err := record.Read(f)
	if err != nil {
		return err
	}
	c := conclude(r, path)
	if search != nil {
		n, capped := search.Found()
		c.Most = &most{Users: n, AtLeast: capped || search.reason != "", Reason: search.reason}
	}
	if asJSON {
		out := json.NewEncoder(a.out)
		out.SetIndent("", "  ")
		err = out.Encode(c)
	} else {
		_, err = io.WriteString(a.out, c.text())
	}
	var broken []string
	for i := range r.Steps {
		s := &r.Steps[i]
		t := r.Total(s.Index, record.All)
		for _, limit := range thresholds {
			if limit.exceed(&t) {
				broken = append(broken, fmt.Sprintf("%s at %d users", limit.text, s.Users))
			}
		}
	}
	if len(broken) > 0 {
		return &exitError{exitFailed, fmt.Errorf("broken: %s", strings.Join(broken, "; "))}
	}
	return err
}
