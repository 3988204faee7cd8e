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

// threshold is one limit: on the figures of a step, or on what the ledger found at a server. One of the two is nil.
type threshold struct {
	text    string
	step    func(*record.Total) bool
	verdict func(*record.Verdict) bool
}

// ParseThresholds parses thresholds such as p99>50ms, avg>1s, errors>0, lost>0.
func ParseThresholds(list []string) (out Thresholds, err error) {
	for _, text := range list {
		name, value, _ := strings.Cut(strings.ReplaceAll(text, " ", ""), ">")
		t := threshold{text: text, step: limitOfTime(name, value)}
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

// broken describes the thresholds that a run exceeds.
func (l Thresholds) broken(r *record.Run) (out []string) {
	for i := range r.Steps {
		total := r.Total(r.Steps[i].Index, record.All)
		for _, t := range l {
			if t.step != nil && t.step(&total) {
				out = append(out, fmt.Sprintf("%s at %d users", t.text, r.Steps[i].Users))
			}
		}
	}
	for i := range r.Verdicts {
		for _, t := range l {
			if t.verdict != nil && t.verdict(&r.Verdicts[i]) {
				out = append(out, fmt.Sprintf("%s on %s", t.text, r.Verdicts[i].Server))
			}
		}
	}
	return out
}
