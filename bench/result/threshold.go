package result

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"doublet/bench"
	"doublet/bench/record"
)

// Thresholds are limits that a run must not exceed, as --fail-if sets them.
type Thresholds []threshold

// threshold is one limit: on the figures of a step, or on what the ledger found at a server. One of step and verdict is
// nil. timed means that the limit is on latency, which a step without an answer does not have.
type threshold struct {
	text    string
	timed   bool
	step    func(*record.Total) bool
	verdict func(*record.Verdict) bool
}

// ParseThresholds parses thresholds such as p99>50ms, avg>1s, errors>0, lost>0.
func ParseThresholds(list []string) (out Thresholds, err error) {
	for _, text := range list {
		name, value, _ := strings.Cut(strings.ReplaceAll(text, " ", ""), ">")
		t := threshold{text: text, step: limitOfTime(name, value)}
		t.timed = t.step != nil
		if n, err := strconv.ParseUint(value, 10, 64); err == nil {
			t.count(name, n)
		}
		if t.step == nil && t.verdict == nil {
			return nil, bench.Usage("--fail-if %q: want p99>50ms, avg>1s, errors>0, missed>0, lost>0, doubled>0 or "+
				"resurrected>0", text)
		}
		out = append(out, t)
	}
	return out, nil
}

// limitOfTime returns the check of a limit on latency, nil if it is not one.
func limitOfTime(name, value string) func(*record.Total) bool {
	limit, err := time.ParseDuration(value)
	if err != nil {
		return nil
	}
	if name == "avg" {
		return func(x *record.Total) bool { return x.Latency.Mean() > limit }
	}
	if percent, ok := strings.CutPrefix(name, "p"); ok {
		if p, err := strconv.ParseFloat(percent, 64); err == nil && p > 0 && p <= 100 {
			return func(x *record.Total) bool { return x.Latency.Percentile(p) > limit }
		}
	}
	return nil
}

// count sets the check of a limit on a number.
func (t *threshold) count(name string, n uint64) {
	switch name {
	case "errors":
		t.step = func(x *record.Total) bool { return x.Failed > n }
	case "missed":
		t.step = func(x *record.Total) bool { return x.Missed > n }
	case "lost":
		t.verdict = func(v *record.Verdict) bool { return v.Lost > int(n) }
	case "doubled":
		t.verdict = func(v *record.Verdict) bool { return v.Doubled > int(n) }
	case "resurrected":
		t.verdict = func(v *record.Verdict) bool { return v.Resurrected > int(n) }
	}
}

// Ledger returns a threshold that is on what a ledger finds, "" if none is.
func (l Thresholds) Ledger() string {
	for _, t := range l {
		if t.verdict != nil {
			return t.text
		}
	}
	return ""
}

// broken describes the thresholds that a run exceeds, or of which it does not show that it keeps them: a step without
// the measurement that a threshold needs breaks it.
func (l Thresholds) broken(r *record.Run) (out []string) {
	for _, t := range l {
		if len(r.Steps) == 0 {
			out = append(out, t.text+": no step was measured")
		}
		for i := range r.Steps {
			if t.verdict != nil {
				out = append(out, t.brokenVerdicts(r, &r.Steps[i])...)
			} else if why := t.brokenStep(r, &r.Steps[i]); why != "" {
				out = append(out, why)
			}
		}
	}
	return out
}

// brokenStep describes how a step breaks the threshold, "" if it keeps it.
func (t *threshold) brokenStep(r *record.Run, s *record.Step) string {
	total := r.Total(s.Index, record.All)
	answered := total.Latency.Count() > 0
	switch {
	case !answered && (t.timed || total.Failed+total.Missed == 0):
		return fmt.Sprintf("%s at %d users: no action was answered", t.text, s.Users)
	case t.step(&total):
		return fmt.Sprintf("%s at %d users", t.text, s.Users)
	}
	return ""
}

// brokenVerdicts describes the servers whose mail after a step breaks the threshold.
func (t *threshold) brokenVerdicts(r *record.Run, s *record.Step) (out []string) {
	kept := false
	for i := range r.Verdicts {
		if v := &r.Verdicts[i]; v.Step == s.Index {
			kept = true
			if t.verdict(v) {
				out = append(out, fmt.Sprintf("%s on %s", t.text, v.Server))
			}
		}
	}
	if !kept {
		return []string{fmt.Sprintf("%s at %d users: no ledger was compared", t.text, s.Users)}
	}
	return out
}
