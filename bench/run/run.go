// Package run lets simulated people work: it signs them in at a rate, waits until the load is steady,
// measures a window, and writes all of it into a run file. Every user follows a schedule that was fixed
// before the run, so that a slow answer delays nothing but itself: latency counts from the time at which
// the user wanted the action, and what could not begin before the user's next loop is counted as missed.
package run

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"doublet/bench/drive"
	"doublet/bench/record"
	"doublet/bench/workload"
	"doublet/env"
)

// Plan is a run.
type Plan struct {
	Env      *env.Env
	Workload *workload.Workload
	Protocol string
	Seed     uint64
	// Speed is by how much times are shortened (default 1).
	Speed float64
	Set   map[string]int
	Users []drive.User
	// Open signs a user in.
	Open func(context.Context, *drive.User) (drive.Session, drive.Traffic, error)
	// Steps are numbers of users, one after the other. Behind the last, Next says what comes of what a step
	// came to: another number of users, or 0 for the end; it may be nil.
	Steps []int
	Next  func(s record.Step, measured *record.Total) int
	// Crews let the users work; nil for this process alone. Users are shared out among them.
	Crews []Crew
	// LoginRate is how many sign in each minute (default 1,200).
	LoginRate float64
	// Interval is how long one interval of the record is (default 10 s); Window how long is measured
	// (default 1 h); MaxSettle how long a step may take to become steady behind its ramp (default: four
	// loops of the workload).
	Interval, Window, MaxSettle time.Duration
	// Fresh makes the mailboxes of a step's users as they are at the beginning; nil leaves them.
	Fresh func(ctx context.Context, users []drive.User) error
	// Failover: where a connection is lost the user signs in again at once, until somebody lets him in, which is an
	// action of its own ("failover"), and does again what can be done twice without harm.
	Failover bool
	// During runs beside the measuring of a step, until it returns or ctx ends with the measuring; what it tells is
	// in the run file. It may be nil.
	During func(ctx context.Context, tell func(text string))
	// After runs when all people have gone home, before the run ends; it may be nil.
	After func(ctx context.Context, w *record.Writer) error
	// Self says what the driver itself is doing; nil for nothing. Its value "cpu" is in cores.
	Self func() map[string]float64
	// Cores are the driver's.
	Cores int
	// Progress is told what goes on, at every interval; it may be nil.
	Progress func(Progress)
}

// Progress is where a run stands.
type Progress struct {
	Step, Steps int
	Users       int
	Phase       record.Phase
	// Active are signed in.
	Active int
	// Left is how long the phase takes still, 0 where nobody knows.
	Left time.Duration
	// Rate is the actions a second of the last interval; P50 and P99 its latencies.
	Rate           float64
	P50, P99       time.Duration
	Errors, Missed uint64
}

// defaults fills in what is zero.
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

// Run carries the plan out. It returns when all is measured, when ctx ends (what was measured is in the
// file), or when the file cannot be written.
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
		s := &step{Plan: p, file: w, started: started, steps: len(steps), number: record.Step{Index: i, Users: users, Registered: len(p.Users)}}
		err = s.run(ctx)
		w.Step(s.number)
		if err != nil || ctx.Err() != nil || w.Err() != nil {
			break
		}
		if i == len(steps)-1 && p.Next != nil {
			if n := p.Next(s.number, &s.total); n > 0 {
				steps = append(steps, n)
			}
		}
	}
	if p.After != nil && err == nil && ctx.Err() == nil {
		err = p.After(ctx, w)
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

// step is one number of users.
type step struct {
	*Plan
	file    *record.Writer
	started time.Time
	number  record.Step

	steps int
	total record.Total // measured
	// loads are the greatest share of its processors that a crew used, one for each interval measured.
	loads  float64
	active int
	last   record.Duration // where the last interval ended
}

func (s *step) offset() record.Duration { return record.Duration(s.Env.Clock.Now().Sub(s.started)) }

func (s *step) run(ctx context.Context) error {
	s.number.Begin = s.offset()
	s.last = s.number.Begin
	work, stop := context.WithCancel(ctx)
	defer stop()
	for i, c := range s.Crews {
		first, end := s.number.Users*i/len(s.Crews), s.number.Users*(i+1)/len(s.Crews)
		if err := c.Begin(work, Shift{First: first, Count: end - first, LoginRate: s.LoginRate / float64(len(s.Crews))}); err != nil {
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

// shutOut writes down those whom nobody had let in when the measuring was over: without them a failover that never ends
// would be none.
func (s *step) shutOut(ctx context.Context) error {
	cuts, err := s.cut(ctx)
	for i := range cuts {
		for _, x := range cuts[i].Intervals {
			n := x.Errors[notLetIn]
			if x.Action != Failover || n == 0 {
				continue
			}
			s.total.Failed += n
			s.file.Interval(record.Interval{
				Step: s.number.Index, Phase: record.Measure, From: max(s.number.From, s.last-record.Duration(s.Interval)), To: s.last,
				Action: Failover, Errors: map[string]uint64{notLetIn: n},
			})
		}
	}
	return err
}

// end sends the first n crews home, all at one time.
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

// phases lets the step ramp, settle and be measured, and says what became of it. Its error is a crew that is
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
		// Before a loop has passed, some have not begun theirs.
		passed := s.MaxSettle - left
		settled = steady.add(all.Latency.Count(), all.Latency.Percentile(50)) && passed >= time.Duration(float64(s.Workload.Stagger.Max)/s.Speed)
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

// beside begins what goes on during the measuring; the function that it returns ends it.
func (s *step) beside(ctx context.Context) (end func()) {
	if s.During == nil {
		return func() {}
	}
	ctx, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	s.Env.Go("bench during", func() {
		defer close(done)
		s.During(ctx, func(text string) { s.file.Event(record.Event{At: s.offset(), Step: s.number.Index, Text: text}) })
	})
	return func() { stop(); <-done }
}

// countdown yields what is left of a time at the beginning of each of its intervals; there is no short
// one at its end, of which no rate could be told.
func (s *step) countdown(d time.Duration) iter.Seq[time.Duration] {
	return func(yield func(time.Duration) bool) {
		for left := d; left > s.Interval/2; left -= s.Interval {
			if !yield(left) {
				return
			}
		}
	}
}

// The bounds beyond which the driver itself is what was measured.
const (
	maxLag = 20 * time.Millisecond // p99
	maxCPU = 0.85                  // of its cores
)

func (s *step) judge(total *record.Total, late *record.Histogram, load float64, settled bool) (record.Outcome, string) {
	limit := time.Duration(s.Workload.Limit)
	switch {
	case late.Percentile(99) > maxLag:
		return record.DriverBound, fmt.Sprintf("the driver was late by %v (p99)", late.Percentile(99).Round(time.Millisecond))
	case load > maxCPU:
		return record.DriverBound, fmt.Sprintf("the driver used %.0f %% of its processors", load*100)
	case total.Latency.Count() == 0:
		return record.Discarded, "no action succeeded"
	case total.Latency.Mean() > limit:
		return record.Discarded, fmt.Sprintf("the average response was %v, over %v", total.Latency.Mean().Round(time.Millisecond), limit)
	case !settled:
		return record.Unsteady, fmt.Sprintf("it had not settled after %v", s.MaxSettle)
	}
	return record.Measured, ""
}

// errStopped says that the run was to end.
var errStopped = errors.New("stopped")

// happened is what an interval brought.
type happened struct {
	record.Total
	late record.Histogram
}

// interval waits for one interval, asks all crews what happened in it, and writes that down.
func (s *step) interval(ctx context.Context, phase record.Phase, left time.Duration) (all happened, err error) {
	select {
	case <-ctx.Done():
		err = errStopped
	case <-s.Env.Clock.After(s.Interval):
	}
	cuts, lost := s.cut(ctx)
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
		}
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
			Step: s.number.Index, Steps: s.steps, Users: s.number.Users, Phase: phase, Active: s.active, Left: max(left-s.Interval, 0),
			Rate: float64(all.Latency.Count()) / s.Interval.Seconds(), P50: all.Latency.Percentile(50), P99: all.Latency.Percentile(99),
			Errors: all.Failed, Missed: all.Missed,
		})
	}
	return all, errors.Join(err, s.file.Err())
}

// cut asks all crews at one time. One that is lost is told in the error; what the others did is kept.
func (s *step) cut(ctx context.Context) ([]Cut, error) {
	cuts := make([]Cut, len(s.Crews))
	errs := make([]error, len(s.Crews))
	var all sync.WaitGroup
	for i, c := range s.Crews {
		all.Add(1)
		s.Env.Go("bench cut", func() {
			defer all.Done()
			cuts[i], errs[i] = c.Cut(context.WithoutCancel(ctx))
		})
	}
	all.Wait()
	return cuts, errors.Join(errs...)
}

// self notes what a driver was doing, and returns which share of its processors it used.
func (s *step) self(c *Cut, at record.Duration) (load float64) {
	values := map[string]float64{"lag_p99": c.Lag.Percentile(99).Seconds(), "lag_max": c.Lag.Max().Seconds(), "users": float64(c.Active)}
	for name, v := range c.Self {
		values[name] = v
	}
	s.file.Sample(record.Sample{At: at, Host: "driver", Group: c.Name, Values: values})
	if c.Cores > 0 {
		load = values["cpu"] / float64(c.Cores)
	}
	return load
}

// steadiness sees whether three successive intervals differ by less than 5 % in rate and median.
type steadiness struct {
	counts  []int64
	medians []time.Duration
}

const (
	successive = 3
	within     = 0.05
	// medianFloor is below what medians are alike: a tenth of a millisecond is nobody's business.
	medianFloor = 500 * time.Microsecond
)

func (s *steadiness) add(count int64, median time.Duration) bool {
	s.counts, s.medians = append(s.counts, count), append(s.medians, median)
	if n := len(s.counts); n > successive {
		s.counts, s.medians = s.counts[n-successive:], s.medians[n-successive:]
	}
	if len(s.counts) < successive {
		return false
	}
	lo, hi := s.counts[0], s.counts[0]
	from, to := s.medians[0], s.medians[0]
	for i := range s.counts {
		lo, hi = min(lo, s.counts[i]), max(hi, s.counts[i])
		from, to = min(from, s.medians[i]), max(to, s.medians[i])
	}
	if lo == 0 {
		return false
	}
	// Counts of few have a spread of their own: twice their standard deviation is no change.
	spread := max(within*float64(hi), 2*sqrt(float64(hi)))
	return float64(hi-lo) <= spread && (to-from <= medianFloor || float64(to-from) <= within*float64(to))
}
