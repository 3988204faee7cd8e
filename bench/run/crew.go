package run

import (
	"context"
	"sync"
	"time"

	"doublet/bench/record"
)

// Crew drives users: in this process (Local), or in a driver elsewhere. Its methods are not called concurrently.
type Crew interface {
	// Begin starts the users, who work until ctx ends or End is called.
	Begin(ctx context.Context, s Shift) error
	// Cut returns the results since Begin or the last Cut. The final one of a measurement also counts the actions that
	// users want and that have no answer, as pending or missed; later results of these users are not counted. An
	// error means that the crew is lost.
	Cut(ctx context.Context, final bool) (Cut, error)
	// End ends the users and waits for them.
	End()
}

// Shift selects the users of a crew in a step: Count users from number First on.
type Shift struct {
	First int `json:"first"`
	Count int `json:"count"`
	// LoginRate is the number of users who sign in per minute.
	LoginRate float64 `json:"login_rate"`
}

// Cut holds the results of an interval. The times of its intervals are zero; the caller sets them.
type Cut struct {
	Intervals []record.Interval `json:"intervals"`
	// Lag is the delay that the driver itself caused, Active the number of users who are signed in.
	Lag    record.Histogram `json:"lag"`
	Active int              `json:"active"`
	// Wanted is the number of actions that the schedules of the users hold for the interval.
	Wanted int `json:"wanted"`
	// Self holds the driver's own figures; its value "cpu" is in cores, of which it has Cores.
	Self  map[string]float64 `json:"self,omitempty"`
	Cores int                `json:"cores"`
	// Name distinguishes drivers; "" if there is only one.
	Name string `json:"name,omitempty"`
}

// Local is the crew of this process.
type Local struct {
	*Plan
	rec   *record.Recorder
	lag   lag
	now   counters
	shift []*person
	stop  context.CancelFunc
	users sync.WaitGroup
}

// NewLocal returns a crew of a plan's users. It needs Env, Workload, Protocol, Seed, Speed, Set, Users and Open of the
// plan, and uses Self and Cores if they are known.
func NewLocal(p *Plan) *Local { return &Local{Plan: p, stop: func() {}} }

// Begin implements Crew.
func (l *Local) Begin(ctx context.Context, s Shift) error {
	begin := l.Env.Clock.Now()
	l.rec = record.NewRecorder(begin)
	l.lag.cut()
	ctx, l.stop = context.WithCancel(ctx)
	l.shift = make([]*person, s.Count)
	for i := range s.Count {
		l.users.Add(1)
		at := begin.Add(time.Duration(float64(i) / s.LoginRate * float64(time.Minute)))
		p := &person{s: l, u: &l.Users[s.First+i], begin: at}
		p.wants.next(want{n: -1, action: "login", at: at})
		l.shift[i] = p
		l.Env.Go("bench user", func() {
			defer l.users.Done()
			p.work(ctx)
		})
	}
	return nil
}

// Cut implements Crew.
func (l *Local) Cut(_ context.Context, final bool) (Cut, error) {
	if final {
		now := l.Env.Clock.Now()
		for _, p := range l.shift {
			p.settle(now)
		}
	}
	c := Cut{Intervals: l.rec.Cut(l.Env.Clock.Now(), l.Env.Clock.Now(), 0, ""), Lag: l.lag.cut(), Active: l.now.get(),
		Cores: l.Cores}
	for i := range c.Intervals {
		c.Intervals[i].From, c.Intervals[i].To = 0, 0
	}
	now := l.Env.Clock.Now()
	for _, p := range l.shift {
		c.Wanted += p.offers.until(p, now)
	}
	if l.Self != nil {
		c.Self = l.Self()
	}
	return c, nil
}

// End implements Crew.
func (l *Local) End() {
	l.stop()
	l.users.Wait()
	for _, p := range l.shift {
		p.offers.end()
	}
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

// lag is the delay that the driver itself caused: from the time at which an idle user wanted to begin an action, to the
// time at which the driver began it.
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
