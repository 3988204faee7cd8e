package probe

import (
	"cmp"
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"doublet/env"
	"doublet/note"
)

const (
	// Tick is the time between two rounds.
	Tick = 5 * time.Second
	// patience limits the wait of a round for its probes, deadline the time of a probe.
	patience = 2 * time.Second
	deadline = time.Minute
	// maxFindings is the number of open events, and of problems that have not lasted yet, of one probe.
	maxFindings = 100
	// maxLooked is the number of findings of one run that are looked at, so that the work of a round is bounded.
	maxLooked = 5000
	// thinEvery is the time between two runs of Thin.
	thinEvery = 6 * time.Hour
)

// Failing is the kind of the monitor's own events: a probe that cannot look, or that finds too much.
var Failing = Kind{Type: Server, Name: "Probe",
	What:  "probes that fail, do not end, or find more problems than are kept",
	Cause: "The probe cannot read what it looks at, or one fault has very many targets.",
	Remedy: "Read the cause. Look for the one fault behind many events. If the probe itself is at fault, switch it " +
		"off " +
		"(probes.run = \"all -NAME\") and report the error.",
	Every: Tick, Hold: time.Minute, Clear: 5 * time.Minute}

// Monitor runs probes and folds their findings into the events of a Log.
type Monitor struct {
	log *Log
	env *env.Env
	// rounds serializes rounds.
	rounds sync.Mutex

	mu     sync.Mutex
	plan   *Plan
	keep   time.Duration
	probes []*running
	// own holds the problems of the probes themselves. thin is the time of the latest Thin. closed reports that a round
	// has closed the events of probes that no longer exist. The rounds guard them.
	own    *running
	thin   time.Time
	closed bool
}

// running is a probe of a monitor. The monitor's rounds guard it, its mu guards status.
type running struct {
	*Probe
	next, began time.Time
	out         chan result // nil unless the probe runs
	left        int         // findings that the last run left out
	// held holds the problems that have not lasted for Hold, with the time of their first finding.
	held   map[note.UNID]time.Time
	status Status
}

type result struct {
	list []Finding
	took time.Duration
	err  error
}

// Status is the state of a probe.
type Status struct {
	Type     Type      `json:"type"`
	Name     string    `json:"name"`
	On       bool      `json:"on" show:"always"`
	Every    string    `json:"every"`
	Limits   string    `json:"limits,omitempty"`
	Findings int       `json:"findings" show:"always"`
	Last     time.Time `json:"last,omitzero"`
	Took     string    `json:"took,omitempty"`
	Error    string    `json:"error,omitempty"`
}

// NewMonitor returns a monitor that runs probes as plan says. keep is how long closed events are kept.
func NewMonitor(l *Log, plan *Plan, keep time.Duration, probes []*Probe) *Monitor {
	m := &Monitor{log: l, env: l.env, plan: plan, keep: keep, own: &running{Probe: &Probe{Kind: &Failing}}}
	for _, p := range probes {
		m.probes = append(m.probes, &running{Probe: p})
	}
	return m
}

// Replan replaces the plan. The next round follows it.
func (m *Monitor) Replan(plan *Plan, keep time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.plan, m.keep = plan, keep
}

func (m *Monitor) planned() (*Plan, time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.plan, m.keep
}

// Status returns the state of every probe, by type and name.
func (m *Monitor) Status() []Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]Status, 0, len(m.probes))
	for _, r := range m.probes {
		s := r.status
		s.Type, s.Name, s.On, s.Every = r.Type, r.Name, m.plan.on[r.Name], Time.Format(m.plan.every[r.Name].Seconds())
		for _, l := range r.Limits {
			s.Limits += " " + l.Name + "=" + l.Unit.Format(m.plan.limits[r.Name][l.Name])
		}
		s.Limits = s.Limits[min(1, len(s.Limits)):]
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b Status) int {
		return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.Name,
			b.Name))
	})
	return out
}

// Run makes a round every Tick until ctx ends.
func (m *Monitor) Run(ctx context.Context) error {
	for {
		m.Round(ctx)
		select {
		case <-m.env.Clock.After(Tick):
		case <-ctx.Done():
			return nil
		}
	}
}

// Round runs the probes that are due and folds what they find. A probe that does not end within patience goes on, and a
// later round folds its findings.
func (m *Monitor) Round(ctx context.Context) {
	m.rounds.Lock()
	defer m.rounds.Unlock()
	now := m.env.Clock.Now().UTC()
	plan, keep := m.planned()
	m.closeOrphans(now)
	for _, r := range m.probes {
		switch {
		case !plan.on[r.Name]:
			m.fold(r, nil, now) // its events close, and that of the monitor about it
			m.forgive(r)
		case r.out == nil && !now.Before(r.next):
			r.next, r.began = now.Add(plan.every[r.Name]), now
			m.start(ctx, r, plan.limits[r.Name])
		}
	}
	m.collect(now)
	m.foldFailing(now)
	m.log.endSilences()
	if err := m.log.Flush(ctx); err != nil && ctx.Err() == nil {
		m.env.Log.Error("events cannot be stored, retrying", "err", err)
	}
	if now.Sub(m.thin) >= thinEvery {
		m.thin = now
		if _, err := m.log.Thin(ctx, keep); err != nil && ctx.Err() == nil {
			m.env.Log.Error("old events cannot be removed", "err", err)
		}
	}
}

// start starts a run of a probe. A panic of a probe is an error of this run.
func (m *Monitor) start(ctx context.Context, r *running, l Limits) {
	out := make(chan result, 1)
	r.out = out
	began := m.env.Clock.Now()
	m.env.Go("probe "+r.Name, func() {
		ctx, cancel := context.WithTimeout(ctx, deadline)
		defer cancel()
		var x result
		defer func() {
			if p := recover(); p != nil {
				x = result{err: fmt.Errorf("panic: %v", p)}
				m.env.Log.Error("probe panicked", "probe", r.Name, "panic", p, "stack", string(debug.Stack()))
			}
			x.took = m.env.Clock.Now().Sub(began)
			out <- x
		}()
		x.list, x.err = r.find(ctx, l)
	})
}

// collect folds the findings of the probes that have ended, in the order of the probes.
func (m *Monitor) collect(now time.Time) {
	late := make(chan struct{})
	defer m.env.Clock.AfterFunc(patience, func() { close(late) })()
	for _, r := range m.probes {
		if r.out == nil {
			continue
		}
		select {
		case x := <-r.out:
			m.took(r, &x, now)
		case <-late: // a later round takes it
		}
	}
}

func (m *Monitor) took(r *running, x *result, now time.Time) {
	r.out = nil
	m.mu.Lock()
	r.status.Last, r.status.Took, r.status.Error = r.began, x.took.Round(time.Microsecond).String(), ""
	if x.err != nil {
		r.status.Error = cut(x.err.Error(), maxText)
	} else {
		r.status.Findings = len(x.list)
	}
	m.mu.Unlock()
	if x.err == nil {
		m.fold(r, x.list, now)
	}
}

// forgive forgets the error of a probe that is off.
func (m *Monitor) forgive(r *running) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r.status.Error = ""
}

// foldFailing folds what is wrong with the probes themselves.
func (m *Monitor) foldFailing(now time.Time) {
	var list []Finding
	for _, r := range m.probes {
		f := Finding{Target: r.Name, Severity: WarningLow}
		switch {
		case r.left > 0:
			f.Severity = WarningHigh
			f.Cause = fmt.Sprintf("%d further problems of the probe %s are left out", r.left, r.Name)
		case r.status.Error != "":
			f.Cause = "the probe " + r.Name + " cannot look: " + r.status.Error
		case r.out != nil && now.Sub(r.began) >= deadline:
			f.Cause = "the probe " + r.Name + " has been running since " + r.began.Format(time.RFC3339)
		default:
			continue
		}
		list = append(list, f)
	}
	m.fold(m.own, list, now)
}

// closeOrphans closes the events of probes that no longer exist, once after the start.
func (m *Monitor) closeOrphans(now time.Time) {
	if m.closed {
		return
	}
	m.closed = true
	known := map[string]bool{Failing.Name: true}
	for _, r := range m.probes {
		known[r.Name] = true
	}
	m.log.changing.Lock()
	defer m.log.changing.Unlock()
	for _, e := range m.log.List(Query{State: StateOpen}) {
		if !known[e.Probe] {
			c := e.clone()
			c.State, c.Changed = StateClosed, now
			c.remember(now, "", "closed: the probe "+e.Probe+" no longer exists")
			m.log.put(c, changed)
		}
	}
}
