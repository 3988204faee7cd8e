package run

import (
	"context"
	"sync"
	"time"

	"doublet/bench/record"
)

// Crew lets users work: this process does (Local), or a driver elsewhere. Its methods are called one after the
// other.
type Crew interface {
	// Begin lets users work until ctx ends or End is called.
	Begin(ctx context.Context, s Shift) error
	// Cut takes what they have done since Begin, or since the last Cut. Its error is a crew that is lost.
	Cut(ctx context.Context) (Cut, error)
	// End returns when they have gone home.
	End()
}

// Shift is whom a crew lets work in a step: Count users from number First on.
type Shift struct {
	First int `json:"first"`
	Count int `json:"count"`
	// LoginRate is how many sign in each minute.
	LoginRate float64 `json:"login_rate"`
}

// Cut is what a crew did in an interval. Its intervals say what happened, and leave it to the asker to say when.
type Cut struct {
	Intervals []record.Interval `json:"intervals"`
	// Lag is how late the driver itself was, Active how many users are signed in.
	Lag    record.Histogram `json:"lag"`
	Active int              `json:"active"`
	// Self is what the driver was doing; its value "cpu" is in cores, of which it has Cores.
	Self  map[string]float64 `json:"self,omitempty"`
	Cores int                `json:"cores"`
	// Name tells drivers apart; "" where there is one.
	Name string `json:"name,omitempty"`
}

// Local is the crew of this process.
type Local struct {
	*Plan
	rec   *record.Recorder
	lag   lag
	now   counters
	stop  context.CancelFunc
	users sync.WaitGroup
}

// NewLocal is a crew of a plan's users; of the plan it needs Env, Workload, Protocol, Seed, Speed, Set, Users,
// Open, and Self and Cores where they are known.
func NewLocal(p *Plan) *Local { return &Local{Plan: p, stop: func() {}} }

// Begin implements Crew.
func (l *Local) Begin(ctx context.Context, s Shift) error {
	begin := l.Env.Clock.Now()
	l.rec = record.NewRecorder(begin)
	l.lag.cut()
	ctx, l.stop = context.WithCancel(ctx)
	for i := range s.Count {
		l.users.Add(1)
		at := begin.Add(time.Duration(float64(i) / s.LoginRate * float64(time.Minute)))
		l.Env.Go("bench user", func() {
			defer l.users.Done()
			l.user(ctx, &l.Users[s.First+i], at)
		})
	}
	return nil
}

// Cut implements Crew.
func (l *Local) Cut(context.Context) (Cut, error) {
	c := Cut{Intervals: l.rec.Cut(l.Env.Clock.Now(), l.Env.Clock.Now(), 0, ""), Lag: l.lag.cut(), Active: l.now.get(), Cores: l.Cores}
	for i := range c.Intervals {
		c.Intervals[i].From, c.Intervals[i].To = 0, 0
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
