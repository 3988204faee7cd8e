// Package watch measures servers from outside while a benchmark runs: their processes, their own statistics, the
// driver, and the time that a small fixed operation takes.
package watch

import (
	"context"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"doublet/bench/drive"
	"doublet/bench/meter"
	"doublet/bench/record"
	"doublet/bench/run"
	"doublet/bench/workload"
	"doublet/env"
)

// Watch measures the server, the driver itself, and response times from outside, during a run.
type Watch struct {
	env    *env.Env
	meter  source // nil for none
	host   *record.Host
	own    []Statistics              // the servers' own statistics
	driver func() map[string]float64 // the figures of this process, nil if unknown
	cores  int
}

// source reads the meter of the server's machine.
type source func(now time.Time) ([]meter.Reading, error)

// Statistics reads the statistics that one server keeps itself; Server is its name, empty if there is only one.
type Statistics struct {
	Server string
	Read   func(context.Context) (map[string]float64, error)
}

// Prepare adds the known facts about the machines to the header and the plan.
func (w *Watch) Prepare(h *record.Header, plan *run.Plan) {
	h.Server = w.host
	plan.Self, plan.Cores = w.driver, w.cores
}

// Driver returns a function that samples this process, nil without /proc, and the number of processors that it may use:
// a driver that is bound to one of two processors is busy when it uses one.
func Driver(e *env.Env) (figures func() map[string]float64, cores int) {
	m, err := meter.New([]meter.Group{{Name: "driver", PIDs: []int{os.Getpid()}}})
	if err != nil {
		return nil, runtime.GOMAXPROCS(0)
	}
	return func() map[string]float64 {
		list, err := m.Sample(e.Clock.Now())
		if err != nil {
			return nil
		}
		for _, r := range list {
			if r.Group == "driver" {
				return r.Values
			}
		}
		return nil
	}, runtime.GOMAXPROCS(0)
}

// sampling writes samples into a run file at intervals, until it is stopped.
type sampling struct {
	env     *env.Env
	out     *record.Writer
	started time.Time
	ctx     context.Context // ends when the sampling stops
	running sync.WaitGroup
}

// every calls fn at each interval, in a goroutine of its own.
func (s *sampling) every(name string, interval time.Duration, fn func(at record.Duration)) {
	s.running.Add(1)
	s.env.Go(name, func() {
		defer s.running.Done()
		for {
			select {
			case <-s.ctx.Done():
				return
			case <-s.env.Clock.After(interval):
				fn(record.Duration(s.env.Clock.Now().Sub(s.started)))
			}
		}
	})
}

// Begin samples into the run file until end is called.
func (w *Watch) Begin(plan *run.Plan, out *record.Writer) (end func()) {
	ctx, stop := context.WithCancel(context.Background())
	s := &sampling{env: w.env, out: out, started: w.env.Clock.Now(), ctx: ctx}
	if w.meter != nil {
		w.meter.sample(s, plan.Interval)
	}
	for _, own := range w.own {
		own.sample(s, plan.Interval)
	}
	if slices.Contains([]string{workload.IMAP, workload.JMAP, workload.WebFull, workload.WebLite}, plan.Protocol) {
		p := &probe{plan: plan, env: w.env}
		s.every("bench probe", time.Second, func(record.Duration) { p.look(ctx) })
		s.every("bench probe record", plan.Interval, func(at record.Duration) { p.write(out, at) })
	}
	return func() { stop(); s.running.Wait() }
}

// sample samples the machine of the server. The first reading is the base of the first rates.
func (read source) sample(s *sampling, interval time.Duration) {
	_, _ = read(s.started)
	told := false
	s.every("bench meter", interval, func(at record.Duration) {
		list, err := read(s.env.Clock.Now())
		if err != nil && !told {
			told = true
			s.out.Event(record.Event{At: at, Text: "the server's machine is not metered: " + err.Error()})
		}
		for _, r := range list {
			s.out.Sample(record.Sample{At: at, Host: "server", Group: r.Group, Values: r.Values})
		}
	})
}

// maxStatistics is the largest number of statistics that are sampled of a server.
const maxStatistics = 5000

// sample samples a server's own statistics: all of them first, then those that have changed.
func (own *Statistics) sample(s *sampling, interval time.Duration) {
	last := map[string]float64{}
	told := false
	s.every("bench statistics", interval, func(at record.Duration) {
		now, err := own.Read(s.ctx)
		if err != nil {
			if !told && s.ctx.Err() == nil {
				told = true
				s.out.Event(record.Event{At: at,
					Text: strings.TrimSpace(own.Server + " the server's own statistics: " + err.Error())})
			}
			return
		}
		told = false
		if changed := changes(last, now); len(changed) > 0 {
			s.out.Sample(record.Sample{At: at, Host: record.Statistics, Group: own.Server, Values: changed})
		}
	})
}

// changes returns the values of now that differ from those in last, and puts them there. last takes at most
// maxStatistics names.
func changes(last, now map[string]float64) map[string]float64 {
	changed := make(map[string]float64)
	for _, name := range slices.Sorted(maps.Keys(now)) {
		v := now[name]
		before, known := last[name]
		if known && v != before || !known && len(last) < maxStatistics {
			changed[name], last[name] = v, v
		}
	}
	return changed
}

// probe times one fixed small operation, independent of the load: it opens the INBOX of the last registered person and
// lists its last page.
type probe struct {
	plan    *run.Plan
	env     *env.Env
	session drive.Session // used by look only

	mu      sync.Mutex
	latency record.Histogram
	failed  float64
}

// probed is the operation of a probe.
var probed = workload.Planned{Action: &workload.Action{Do: workload.Open}}

// look performs the operation once. Signing in does not count.
func (p *probe) look(ctx context.Context) {
	var err error
	if p.session == nil {
		if p.session, _, err = p.plan.Open(ctx, &p.plan.Users[len(p.plan.Users)-1]); err != nil {
			p.session = nil
		}
	}
	begun := p.env.Clock.Now()
	if err == nil {
		_, err = p.session.Do(ctx, &probed)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil {
		p.latency.Add(p.env.Clock.Now().Sub(begun))
		return
	}
	p.failed++
	if p.session != nil {
		_ = p.session.Close()
		p.session = nil
	}
}

// write writes the measurements since the write before into the run file.
func (p *probe) write(out *record.Writer, at record.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.latency.Count() > 0 || p.failed > 0 {
		out.Sample(record.Sample{At: at, Host: "probe", Values: map[string]float64{
			"p50": p.latency.Percentile(50).Seconds(), "max": p.latency.Max().Seconds(),
			"average": p.latency.Mean().Seconds(), "failed": p.failed,
		}})
	}
	p.latency.Reset()
	p.failed = 0
}
