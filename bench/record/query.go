package record

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// All is the action that stands for all actions together.
const All = ""

// Total sums up an action, or All, in the measured part of a step.
type Total struct {
	Action         string
	Latency        Histogram
	Service        Histogram
	Errors         map[string]uint64
	Failed, Missed uint64
	// Pending is the number of actions in Latency that were without an answer at the end (Interval.Pending).
	Pending uint64
	// Nothing is the number of actions for which there was nothing to do.
	Nothing        uint64
	Sent, Received uint64
}

// Actions returns the actions of a run, sorted by name.
func (r *Run) Actions() []string {
	seen := make(map[string]bool)
	for i := range r.Intervals {
		seen[r.Intervals[i].Action] = true
	}
	return slices.Sorted(maps.Keys(seen))
}

// Total adds up the measured intervals of a step. The result is shared; the caller must not change it.
func (r *Run) Total(step int, action string) Total {
	key := totalKey{step, action}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.totals == nil || r.totalled != len(r.Intervals) {
		r.totals, r.totalled = make(map[totalKey]Total), len(r.Intervals)
	}
	t, ok := r.totals[key]
	if !ok {
		t = r.total(step, action)
		r.totals[key] = t
	}
	return t
}

type totalKey struct {
	step   int
	action string
}

func (r *Run) total(step int, action string) Total {
	t := Total{Action: action}
	var latency, service sum
	for k := range r.Intervals {
		if i := &r.Intervals[k]; i.Step == step && i.Phase == Measure && (action == All || i.Action == action) {
			if t.times(i) {
				latency.add(&i.Latency)
				service.add(&i.Service)
			}
			t.count(i)
		}
	}
	t.Latency, t.Service = latency.histogram(), service.histogram()
	return t
}

// Add adds an interval.
func (t *Total) Add(i *Interval) {
	if t.times(i) {
		t.Latency.Merge(&i.Latency)
		t.Service.Merge(&i.Service)
	}
	t.count(i)
}

// times reports whether the latencies of an interval count in the total. Those of Sync count only in the total of Sync.
func (t *Total) times(i *Interval) bool { return i.Action != Sync || t.Action == Sync }

func (t *Total) count(i *Interval) {
	if len(i.Errors) > 0 && t.Errors == nil {
		t.Errors = make(map[string]uint64)
	}
	for kind, n := range i.Errors {
		t.Errors[kind] += n
		t.Failed += n
	}
	t.Missed += i.Missed
	t.Nothing += i.Nothing
	if t.times(i) {
		t.Pending += i.Pending
	}
	t.Sent += i.Sent
	t.Received += i.Received
}

// Completed returns the number of answered actions.
func (t *Total) Completed() int64 { return t.Latency.Count() - int64(t.Pending) }

// TPM returns the user actions completed per minute in the measured part of a step, which is the figure that NotesBench
// reports. ETR is TPM/60.
func (r *Run) TPM(s *Step) float64 {
	length := time.Duration(s.To - s.From).Minutes()
	if length <= 0 {
		return 0
	}
	t := r.Total(s.Index, All)
	return float64(t.Completed()) / length
}

// Mean returns the average of a value over the samples of a host and group in the measured part of a step, and the
// number of those samples.
func (r *Run) Mean(s *Step, host, group, value string) (mean float64, n int) {
	for k := range r.Samples {
		x := &r.Samples[k]
		v, ok := x.Values[value]
		if ok && x.Host == host && x.Group == group && x.At >= s.From && x.At <= s.To {
			mean += v
			n++
		}
	}
	if n > 0 {
		mean /= float64(n)
	}
	return mean, n
}

// Along returns the average over time and the maximum, in the measured part of a step, of a value that is sampled only
// when it changes; ok is false if there is no sample.
func (r *Run) Along(s *Step, host, group, value string) (mean, most float64, ok bool) {
	var now, sum float64
	at := s.From
	for k := range r.Samples {
		x := &r.Samples[k]
		v, has := x.Values[value]
		if !has || x.Host != host || x.Group != group || x.At > s.To {
			continue
		}
		if x.At > s.From {
			sum += now * (x.At - at).Seconds()
			at = x.At
		}
		if x.At <= s.From {
			most = 0
		}
		now, ok = v, true
		most = max(most, v)
	}
	if length := (s.To - s.From).Seconds(); length > 0 {
		mean = (sum + now*(s.To-at).Seconds()) / length
	}
	return mean, most, ok
}

// Groups returns the groups in the samples of a host, except disks, sorted by name.
func (r *Run) Groups(host string) []string {
	seen := make(map[string]bool)
	for i := range r.Samples {
		if x := &r.Samples[i]; x.Host == host && x.Group != "" && !strings.HasPrefix(x.Group, "disk:") {
			seen[x.Group] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// ErrMerge means that runs are not parts of one run.
var ErrMerge = errors.New("record: these are not parts of one run")

// Merge returns one run from those that several drivers measured at the same time. Histograms and counts add up;
// samples and events are kept side by side. The steps have the times of the first run; a step with another outcome than
// Measured in any run has that outcome.
func Merge(parts ...*Run) (*Run, error) {
	if len(parts) == 0 {
		return nil, fmt.Errorf("%w: no records", ErrMerge)
	}
	out := &Run{Header: parts[0].Header, Steps: slices.Clone(parts[0].Steps), End: parts[0].End}
	out.Header.Agents = 0
	for i := range out.Steps {
		out.Steps[i].Users, out.Steps[i].Registered = 0, 0
	}
	for _, p := range parts {
		a, b := &parts[0].Header, &p.Header
		if a.Workload.Hash != b.Workload.Hash || a.Workload.Protocol != b.Workload.Protocol || a.ID != b.ID ||
			len(p.Steps) != len(out.Steps) {
			return nil, fmt.Errorf("%w: run %s of %s has %d steps, run %s of %s has %d", ErrMerge,
				a.ID, a.Workload.Name, len(out.Steps), b.ID, b.Workload.Name, len(p.Steps))
		}
		out.Header.Agents += max(1, b.Agents)
		for i := range p.Steps {
			s := &out.Steps[i]
			s.Users += p.Steps[i].Users
			s.Registered += p.Steps[i].Registered
			if s.Outcome == Measured {
				s.Outcome, s.Reason = p.Steps[i].Outcome, p.Steps[i].Reason
			}
		}
		out.Intervals = append(out.Intervals, p.Intervals...)
		out.Samples = append(out.Samples, p.Samples...)
		out.Events = append(out.Events, p.Events...)
		out.Verdicts = append(out.Verdicts, p.Verdicts...)
		out.Torn = out.Torn || p.Torn
		if p.End == nil {
			out.End = nil
		}
	}
	slices.SortStableFunc(out.Intervals, func(a, b Interval) int { return cmp.Compare(a.From, b.From) })
	slices.SortStableFunc(out.Events, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
	return out, nil
}
