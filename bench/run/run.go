// Package run lets simulated people work: it signs them in at a rate, waits until the load is steady,
// measures a window, and writes all of it into a run file. Every user follows a schedule that was fixed
// before the run, so that a slow answer delays nothing but itself: latency counts from the time at which
// the user wanted the action, and what could not begin before the user's next loop is counted as missed.
package run

import (
	"context"
	"fmt"
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
	Open func(*drive.User) (drive.Session, drive.Traffic, error)
	// Steps are numbers of users, one after the other.
	Steps []int
	// LoginRate is how many sign in each minute (default 1,200).
	LoginRate float64
	// Interval is how long one interval of the record is (default 10 s); Window how long is measured
	// (default 1 h); MaxSettle how long a step may take to become steady behind its ramp (default: four
	// loops of the workload).
	Interval, Window, MaxSettle time.Duration
	// Fresh makes the mailboxes of a step's users as they are at the beginning; nil leaves them.
	Fresh func(ctx context.Context, users []drive.User) error
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
	started := p.Env.Clock.Now()
	reason := "done"
	var err error
	for i, users := range p.Steps {
		if users > len(p.Users) {
			return fmt.Errorf("run: a step of %d users, and %d are registered", users, len(p.Users))
		}
		if p.Fresh != nil {
			if err = p.Fresh(ctx, p.Users[:users]); err != nil {
				break
			}
		}
		s := &step{Plan: p, file: w, started: started, number: record.Step{Index: i, Users: users, Registered: len(p.Users)}}
		s.run(ctx)
		w.Step(s.number)
		if ctx.Err() != nil || w.Err() != nil {
			break
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

// step is one number of users.
type step struct {
	*Plan
	file    *record.Writer
	started time.Time
	number  record.Step

	rec *record.Recorder
	lag lag
	now counters
}

type counters struct {
	mu     sync.Mutex
	active int
}

func (c *counters) add(n int) {
	c.mu.Lock()
	c.active += n
	c.mu.Unlock()
}

func (c *counters) get() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.active
}

// lag is how late the driver itself was: from the time at which a user who had nothing else to do wanted
// to begin, to the time at which the driver let him.
type lag struct {
	mu sync.Mutex
	h  record.Histogram
}

func (l *lag) add(d time.Duration) {
	l.mu.Lock()
	l.h.Add(d)
	l.mu.Unlock()
}

func (l *lag) cut() record.Histogram {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := l.h.Clone()
	l.h.Reset()
	return out
}

func (s *step) offset() record.Duration { return record.Duration(s.Env.Clock.Now().Sub(s.started)) }

func (s *step) run(ctx context.Context) {
	s.number.Begin = s.offset()
	begin := s.Env.Clock.Now()
	s.rec = record.NewRecorder(begin)
	work, stop := context.WithCancel(ctx)
	var users sync.WaitGroup
	for i := range s.number.Users {
		users.Add(1)
		at := begin.Add(time.Duration(float64(i) / s.LoginRate * float64(time.Minute)))
		s.Env.Go("bench user", func() {
			defer users.Done()
			s.user(work, &s.Users[i], at)
		})
	}
	ramp := time.Duration(float64(s.number.Users) / s.LoginRate * float64(time.Minute))
	s.number.Outcome, s.number.Reason = s.phases(ctx, ramp)
	stop()
	users.Wait()
}

// phases lets the step ramp, settle and be measured, and says what became of it.
func (s *step) phases(ctx context.Context, ramp time.Duration) (record.Outcome, string) {
	interrupted := func() (record.Outcome, string) { return record.Interrupted, "it was stopped before its end" }
	for left := ramp; left > 0; left -= s.Interval {
		if !s.interval(ctx, record.Ramp, left, nil) {
			return interrupted()
		}
	}
	var steady steadiness
	settled := false
	for left := s.MaxSettle; left > 0 && !settled; left -= s.Interval {
		if !s.interval(ctx, record.Settle, left, func(all *record.Total) {
			// Before a loop has passed, some have not begun theirs.
			passed := s.MaxSettle - left
			settled = steady.add(all.Latency.Count(), all.Latency.Percentile(50)) && passed >= time.Duration(float64(s.Workload.Stagger.Max)/s.Speed)
		}) {
			return interrupted()
		}
	}
	s.number.Steady = s.offset()
	s.number.From = s.number.Steady
	var total record.Total
	s.lag.cut()
	late, cpu := record.Histogram{}, 0.0
	n := 0
	for left := s.Window; left > 0; left -= s.Interval {
		if !s.interval(ctx, record.Measure, left, func(all *record.Total) {
			total.Latency.Merge(&all.Latency)
			l := s.lag.cut()
			late.Merge(&l)
			cpu += s.self(&l)
			n++
		}) {
			s.number.To = s.offset()
			return interrupted()
		}
	}
	s.number.To = s.offset()
	return s.judge(&total, &late, cpu/float64(max(n, 1)), settled)
}

// The bounds beyond which the driver itself is what was measured.
const (
	maxLag = 20 * time.Millisecond // p99
	maxCPU = 0.85                  // of its cores
)

func (s *step) judge(total *record.Total, late *record.Histogram, cpu float64, settled bool) (record.Outcome, string) {
	limit := time.Duration(s.Workload.Limit)
	switch {
	case late.Percentile(99) > maxLag:
		return record.DriverBound, fmt.Sprintf("the driver was late by %v (p99)", late.Percentile(99).Round(time.Millisecond))
	case s.Cores > 0 && cpu > maxCPU*float64(s.Cores):
		return record.DriverBound, fmt.Sprintf("the driver used %.1f of %d cores", cpu, s.Cores)
	case total.Latency.Count() == 0:
		return record.Discarded, "no action succeeded"
	case total.Latency.Mean() > limit:
		return record.Discarded, fmt.Sprintf("the average response was %v, over %v", total.Latency.Mean().Round(time.Millisecond), limit)
	case !settled:
		return record.Unsteady, fmt.Sprintf("it had not settled after %v", s.MaxSettle)
	}
	return record.Measured, ""
}

// self samples the driver.
func (s *step) self(late *record.Histogram) (cpu float64) {
	values := map[string]float64{"lag_p99": late.Percentile(99).Seconds(), "lag_max": late.Max().Seconds()}
	if s.Self != nil {
		for name, v := range s.Self() {
			values[name] = v
		}
	}
	s.file.Sample(record.Sample{At: s.offset(), Host: "driver", Values: values})
	return values["cpu"]
}

// interval waits for one interval and writes it down; false when ctx ended.
func (s *step) interval(ctx context.Context, phase record.Phase, left time.Duration, fn func(*record.Total)) bool {
	select {
	case <-ctx.Done():
	case <-s.Env.Clock.After(min(s.Interval, left)):
	}
	var all record.Total
	parts := s.rec.Cut(s.Env.Clock.Now(), s.started, s.number.Index, phase)
	for i := range parts {
		s.file.Interval(parts[i])
		all.Add(&parts[i])
	}
	if fn != nil && ctx.Err() == nil {
		fn(&all)
	}
	if s.Progress != nil {
		s.Progress(Progress{
			Step: s.number.Index, Steps: len(s.Steps), Users: s.number.Users, Phase: phase, Active: s.now.get(), Left: left - s.Interval,
			Rate: float64(all.Latency.Count()) / s.Interval.Seconds(), P50: all.Latency.Percentile(50), P99: all.Latency.Percentile(99),
			Errors: all.Failed, Missed: all.Missed,
		})
	}
	return ctx.Err() == nil && s.file.Err() == nil
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
