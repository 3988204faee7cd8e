// Package run drives simulated people. It signs them in at a rate, waits until the load is steady, measures for a
// window of time, and writes everything into a run file. Every user follows a schedule that was fixed before the run,
// so a slow answer does not delay the schedule. Latency counts from the time at which the user wanted the action, and
// an action that cannot begin before the user's next loop counts as missed.
package run

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"sync"
	"time"

	"doublet/bench/drive"
	"doublet/bench/record"
	"doublet/bench/workload"
	"doublet/env"
)

// Plan describes a run.
type Plan struct {
	Env      *env.Env
	Workload *workload.Workload
	Protocol string
	Seed     uint64
	// Speed is the factor by which times are shortened (default 1).
	Speed float64
	Set   map[string]int
	Users []drive.User
	// Open signs a user in.
	Open func(context.Context, *drive.User) (drive.Session, drive.Traffic, error)
	// Steps are numbers of users, one after the other. After the last one Next is called with its result and returns
	// another number of users, or 0 to end the run. Next may be nil.
	Steps []int
	Next  func(s record.Step, measured *record.Total) int
	// Crews drive the users, who are divided among them; nil means this process alone.
	Crews []Crew
	// LoginRate is the number of users who sign in per minute (default 1,200).
	LoginRate float64
	// Interval is the length of one interval of the record (default 10 s), Window the length of the measurement
	// (default 1 h). MaxSettle is the time limit for a step to become steady after its ramp (default: four loops of the
	// workload).
	Interval, Window, MaxSettle time.Duration
	// Fresh resets the mailboxes of a step's users to their initial state; nil leaves them.
	Fresh func(ctx context.Context, users []drive.User) error
	// MaxFailed is the share of the actions of a step that may fail or be missed. A step with more is discarded.
	MaxFailed float64
	// Failover makes a user whose connection is lost sign in again at once and repeatedly, which is an action of its
	// own ("failover"). He then repeats the interrupted action if that is harmless.
	Failover bool
	// During runs beside the measurement of a step, until it returns or the measurement ends ctx. What it tells is
	// written into the run file: a text, and the mark of the event. It may be nil.
	During func(ctx context.Context, tell func(mark, text string))
	// After runs after the users of a step have ended, unless ctx has; it may be nil.
	After func(ctx context.Context, s record.Step, w *record.Writer) error
	// Self returns the driver's own figures; nil for none. Its value "cpu" is in cores.
	Self func() map[string]float64
	// Cores is the number of the driver's processors.
	Cores int
	// Progress is called at every interval; it may be nil.
	Progress func(Progress)
}

// Progress is the state of a run.
type Progress struct {
	Step, Steps int
	Users       int
	Phase       record.Phase
	// Active is the number of users who are signed in.
	Active int
	// Left is the remaining time of the phase, 0 if unknown.
	Left time.Duration
	// Rate is the number of actions per second in the last interval; P50 and P99 are its latencies.
	Rate           float64
	P50, P99       time.Duration
	Errors, Missed uint64
}

// defaults replaces zero values by the defaults.
func (p *Plan) defaults() {
	if p.Speed <= 0 {
		p.Speed = 1
	}
	if p.LoginRate <= 0 {
		p.LoginRate = 1200
	}
	if p.Interval <= 0 {
		p.Interval = 10 * time.Second
	}
	if p.Window <= 0 {
		p.Window = time.Hour
	}
	if p.MaxSettle <= 0 {
		p.MaxSettle = time.Duration(4 * float64(p.Workload.Loop.Max) / p.Speed)
	}
	p.MaxSettle = max(p.MaxSettle, 4*p.Interval)
}

// Run executes the plan. It returns when everything is measured, when ctx ends (the file holds the measurements so
// far), or when the file cannot be written.
func (p *Plan) Run(ctx context.Context, w *record.Writer) error {
	p.defaults()
	if len(p.Crews) == 0 {
		p.Crews = []Crew{NewLocal(p)}
	}
	started := p.Env.Clock.Now()
	reason := "done"
	var err error
	steps := slices.Clone(p.Steps)
	for i := 0; i < len(steps); i++ {
		users := steps[i]
		if users > len(p.Users) {
			return fmt.Errorf("run: a step of %d users, and %d are registered", users, len(p.Users))
		}
		if p.Fresh != nil {
			if err = p.Fresh(ctx, p.Users[:users]); err != nil {
				break
			}
		}
		s := &step{Plan: p, file: w, started: started, steps: len(steps),
			number: record.Step{Index: i, Users: users, Registered: len(p.Users)}}
		err = s.run(ctx)
		w.Step(s.number)
		if p.After != nil && err == nil && ctx.Err() == nil {
			err = p.After(ctx, s.number, w)
		}
		if err != nil || ctx.Err() != nil || w.Err() != nil {
			break
		}
		if i == len(steps)-1 && p.Next != nil {
			if n := p.Next(s.number, &s.total); n > 0 {
				steps = append(steps, n)
			}
		}
	}
	switch {
	case ctx.Err() != nil:
		reason = "interrupted"
	case err != nil:
		reason = err.Error()
	}
	w.End(record.End{At: record.Duration(p.Env.Clock.Now().Sub(started)), Reason: reason})
	if werr := w.Err(); werr != nil {
		return fmt.Errorf("run: write the run file: %w", werr)
	}
	return err
}

// step is the execution of one step.
type step struct {
	*Plan
	file    *record.Writer
	started time.Time
	number  record.Step

	steps int
	total record.Total // measured
	// loads is the sum over the measured intervals of the largest share of its processors that a crew used.
	loads  float64
	wanted int64 // in the measured part, as happened has it
	active int
	last   record.Duration // the end of the last interval
}

func (s *step) offset() record.Duration { return record.Duration(s.Env.Clock.Now().Sub(s.started)) }

func (s *step) run(ctx context.Context) error {
	s.number.Begin = s.offset()
	s.last = s.number.Begin
	work, stop := context.WithCancel(ctx)
	defer stop()
	for i, c := range s.Crews {
		first, end := s.number.Users*i/len(s.Crews), s.number.Users*(i+1)/len(s.Crews)
		if err := c.Begin(work, Shift{First: first, Count: end - first,
			LoginRate: s.LoginRate / float64(len(s.Crews))}); err != nil {
			s.number.Outcome, s.number.Reason = record.Interrupted, err.Error()
			s.end(i + 1)
			return fmt.Errorf("run: %w", err)
		}
	}
	ramp := time.Duration(float64(s.number.Users) / s.LoginRate * float64(time.Minute))
	var err error
	s.number.Outcome, s.number.Reason, err = s.phases(ctx, ramp)
	stop()
	s.end(len(s.Crews))
	if s.Failover && err == nil && ctx.Err() == nil {
		err = s.shutOut(ctx)
	}
	return err
}

// shutOut records the users who could not sign in before the end of the measurement. Without this record a failover
// that never succeeds would not appear.
func (s *step) shutOut(ctx context.Context) error {
	cuts, err := s.cut(ctx, false)
	for i := range cuts {
		for _, x := range cuts[i].Intervals {
			n := x.Errors[notLetIn]
			if x.Action != Failover || n == 0 {
				continue
			}
			s.total.Failed += n
			s.file.Interval(record.Interval{
				Step: s.number.Index, Phase: record.Measure,
				From: max(s.number.From, s.last-record.Duration(s.Interval)), To: s.last,
				Action: Failover, Errors: map[string]uint64{notLetIn: n},
			})
		}
	}
	return err
}

// end ends the first n crews, concurrently.
func (s *step) end(n int) {
	var all sync.WaitGroup
	for _, c := range s.Crews[:n] {
		all.Add(1)
		s.Env.Go("bench end", func() {
			defer all.Done()
			c.End()
		})
	}
	all.Wait()
}

// phases runs the phases ramp, settle and measure of a step and returns its outcome. An error means that a crew is
// lost.
func (s *step) phases(ctx context.Context, ramp time.Duration) (record.Outcome, string, error) {
	interrupted := func(err error) (record.Outcome, string, error) {
		if err != nil && ctx.Err() == nil {
			return record.Interrupted, err.Error(), err
		}
		return record.Interrupted, "it was stopped before its end", nil
	}
	for left := range s.countdown(ramp) {
		if _, err := s.interval(ctx, record.Ramp, left); err != nil {
			return interrupted(err)
		}
	}
	var steady steadiness
	settled := false
	for left := range s.countdown(s.MaxSettle) {
		if settled {
			break
		}
		all, err := s.interval(ctx, record.Settle, left)
		if err != nil {
			return interrupted(err)
		}
		// Users begin at different times within the stagger. Before it has passed, some have not begun.
		passed := s.MaxSettle - left
		settled = steady.add(&all.Latency, all.answered, all.wanted) &&
			passed >= time.Duration(float64(s.Workload.Stagger.Max)/s.Speed)
	}
	s.number.Steady = s.offset()
	s.number.From = s.number.Steady
	late, n := record.Histogram{}, 0
	s.loads = 0
	defer s.beside(ctx)()
	for left := range s.countdown(s.Window) {
		all, err := s.interval(ctx, record.Measure, left)
		s.total.Latency.Merge(&all.Latency)
		s.total.Failed, s.total.Missed = s.total.Failed+all.Failed, s.total.Missed+all.Missed
		s.wanted += all.wanted
		late.Merge(&all.late)
		n++
		if err != nil {
			s.number.To = s.offset()
			return interrupted(err)
		}
	}
	s.number.To = s.offset()
	outcome, reason := s.judge(&s.total, &late, s.loads/float64(max(n, 1)), settled)
	return outcome, reason, nil
}

// beside starts During; the function that it returns ends it.
func (s *step) beside(ctx context.Context) (end func()) {
	if s.During == nil {
		return func() {}
	}
	ctx, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	s.Env.Go("bench during", func() {
		defer close(done)
		s.During(ctx, func(mark, text string) {
			s.file.Event(record.Event{At: s.offset(), Step: s.number.Index, Text: text, Mark: mark})
		})
	})
	return func() { stop(); <-done }
}

// countdown yields the remaining time at the beginning of each interval. It drops a short interval at the end, which
// would yield no useful rate.
func (s *step) countdown(d time.Duration) iter.Seq[time.Duration] {
	return func(yield func(time.Duration) bool) {
		for left := d; left > s.Interval/2; left -= s.Interval {
			if !yield(left) {
				return
			}
		}
	}
}

// final reports whether the interval with this remaining time at its beginning is the last one of a countdown.
func (s *step) final(left time.Duration) bool { return left-s.Interval <= s.Interval/2 }

// The limits above which the driver itself is the bottleneck.
const (
	maxLag = 20 * time.Millisecond // p99
	maxCPU = 0.85                  // share of its cores
)

func (s *step) judge(total *record.Total, late *record.Histogram, load float64, settled bool) (record.Outcome, string) {
	limit := time.Duration(s.Workload.Limit)
	failed := float64(total.Failed + total.Missed)
	share := failed / max(failed+float64(total.Latency.Count()), 1)
	switch {
	case late.Percentile(99) > maxLag:
		return record.DriverBound, fmt.Sprintf("the driver was late by %v (p99)",
			late.Percentile(99).Round(time.Millisecond))
	case load > maxCPU:
		return record.DriverBound, fmt.Sprintf("the driver used %.0f %% of its processors", load*100)
	case total.Latency.Count() == 0 && s.wanted > 0:
		return record.Discarded, "no action succeeded"
	case total.Latency.Mean() > limit:
		return record.Discarded, fmt.Sprintf("the average response was %v, over %v",
			total.Latency.Mean().Round(time.Millisecond), limit)
	case share > s.MaxFailed:
		return record.Discarded, fmt.Sprintf("%.2g %% of the actions failed or were missed, over %.2g %%", share*100,
			s.MaxFailed*100)
	case !settled:
		return record.Unsteady, fmt.Sprintf("it had not settled after %v", s.MaxSettle)
	}
	return record.Measured, ""
}

// errStopped means that ctx has ended the run.
var errStopped = errors.New("stopped")

// happened holds the results of an interval.
type happened struct {
	record.Total
	late record.Histogram
	// wanted is the number of actions that the users' schedules hold for the interval, answered the number of those
	// actions that ended in it.
	wanted, answered int64
}

// answers adds the actions of an interval that the workload's schedule holds: no sign-in, and nothing that a program
// does by itself.
func (h *happened) answers(w *workload.Workload, i *record.Interval) {
	if !slices.ContainsFunc(w.Actions, func(a workload.Action) bool { return string(a.Do) == i.Action }) {
		return
	}
	h.answered += i.Latency.Count() + int64(i.Missed+i.Nothing)
	for _, n := range i.Errors {
		h.answered += int64(n)
	}
}

// interval waits for one interval, collects the results of all crews, and writes them to the file.
func (s *step) interval(ctx context.Context, phase record.Phase, left time.Duration) (all happened, err error) {
	select {
	case <-ctx.Done():
		err = errStopped
	case <-s.Env.Clock.After(s.Interval):
	}
	cuts, lost := s.cut(ctx, phase == record.Measure && (err != nil || s.final(left)))
	from, to := s.last, s.offset()
	s.last, s.active = to, 0
	most := 0.0
	for i := range cuts {
		c := &cuts[i]
		for k := range c.Intervals {
			x := &c.Intervals[k]
			x.Step, x.Phase, x.From, x.To = s.number.Index, phase, from, to
			s.file.Interval(*x)
			all.Add(x)
			all.answers(s.Workload, x)
		}
		all.wanted += int64(c.Wanted)
		all.late.Merge(&c.Lag)
		s.active += c.Active
		most = max(most, s.self(c, to))
	}
	s.loads += most
	if lost != nil {
		s.file.Event(record.Event{At: to, Step: s.number.Index, Text: lost.Error()})
		err = errors.Join(err, lost)
	}
	if s.Progress != nil {
		s.Progress(Progress{
			Step: s.number.Index, Steps: s.steps, Users: s.number.Users, Phase: phase, Active: s.active,
			Left: max(left-s.Interval, 0),
			Rate: float64(all.Latency.Count()) / s.Interval.Seconds(), P50: all.Latency.Percentile(50),
			P99:    all.Latency.Percentile(99),
			Errors: all.Failed, Missed: all.Missed,
		})
	}
	return all, errors.Join(err, s.file.Err())
}

// cut collects the results of all crews concurrently, as Crew.Cut does. The error names lost crews; the results of the
// others are kept.
func (s *step) cut(ctx context.Context, final bool) ([]Cut, error) {
	cuts := make([]Cut, len(s.Crews))
	errs := make([]error, len(s.Crews))
	var all sync.WaitGroup
	for i, c := range s.Crews {
		all.Add(1)
		s.Env.Go("bench cut", func() {
			defer all.Done()
			cuts[i], errs[i] = c.Cut(context.WithoutCancel(ctx), final)
		})
	}
	all.Wait()
	return cuts, errors.Join(errs...)
}

// self records a driver's own figures and returns the share of its processors that it used.
func (s *step) self(c *Cut, at record.Duration) (load float64) {
	values := map[string]float64{"lag_p99": c.Lag.Percentile(99).Seconds(), "lag_max": c.Lag.Max().Seconds(),
		"users": float64(c.Active)}
	for name, v := range c.Self {
		values[name] = v
	}
	s.file.Sample(record.Sample{At: at, Host: "driver", Group: c.Name, Values: values})
	if c.Cores > 0 {
		load = values["cpu"] / float64(c.Cores)
	}
	return load
}

// steadiness detects that three successive intervals differ by less than 5 % in rate and median, or by no more than
// chance makes them differ.
type steadiness struct {
	intervals []settling
}

// settling holds the figures of one interval: the number of actions, their median, and the median's standard error.
type settling struct {
	count         int64
	median, error float64 // seconds
	// answered and wanted are numbers of actions of the schedule, as happened has them.
	answered, wanted int64
}

const (
	successive = 3
	within     = 0.05
	// medianFloor is the difference of medians that is ignored, whatever their size, in seconds.
	medianFloor = 500e-6
)

func (s *steadiness) add(latency *record.Histogram, answered, wanted int64) bool {
	x := settling{count: latency.Count(), median: latency.Percentile(50).Seconds(), answered: answered, wanted: wanted}
	if x.count > 0 {
		// Of n values, √n/2 is the standard deviation of the number below the true median, whatever their distribution.
		around := 50 / math.Sqrt(float64(x.count))
		x.error = (latency.Percentile(min(50+around, 100)) - latency.Percentile(max(50-around, 0))).Seconds() / 2
	}
	s.intervals = append(s.intervals, x)
	if n := len(s.intervals); n > successive {
		s.intervals = s.intervals[n-successive:]
	}
	return len(s.intervals) == successive && s.rate() && s.median()
}

// rate reports whether the numbers of actions are steady. Small numbers vary at random: a difference of twice their
// standard deviation is no change. People who only wait do nothing at a steady rate. Few people vary more, because each
// does his actions in a row and then rests: the rate is steady too if the server answers as many actions as they want.
func (s *steadiness) rate() bool {
	if !slices.ContainsFunc(s.intervals, func(x settling) bool {
		return !same(x.answered, x.wanted) ||
			x.wanted == 0
	}) {
		return true
	}
	lo, hi := s.intervals[0].count, s.intervals[0].count
	for _, x := range s.intervals {
		lo, hi = min(lo, x.count), max(hi, x.count)
	}
	return same(lo, hi)
}

// same reports whether two numbers of actions differ by no more than 5 %, or than chance makes them differ.
func same(a, b int64) bool {
	lo, hi := min(a, b), max(a, b)
	return float64(hi-lo) <= max(within*float64(hi), 2*math.Sqrt(float64(hi)))
}

// median reports whether the medians of the intervals with actions are steady.
func (s *steadiness) median() bool {
	lo, hi, chance := math.Inf(1), 0.0, 0.0
	for _, x := range s.intervals {
		if x.count > 0 {
			lo, hi, chance = min(lo, x.median), max(hi, x.median), max(chance, 2*math.Sqrt2*x.error)
		}
	}
	return hi-lo <= max(medianFloor, within*hi, chance) || hi == 0
}
