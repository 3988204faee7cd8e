package run

import (
	"context"
	"errors"
	"math"
	"time"

	"doublet/bench/drive"
	"doublet/bench/record"
	"doublet/bench/workload"
)

func sqrt(x float64) float64 { return math.Sqrt(x) }

// person is a user at work.
type person struct {
	s       *Local
	u       *drive.User
	begin   time.Time // of the schedule
	session drive.Session
	free    time.Time // when the last action ended
}

// user works until ctx ends.
func (s *Local) user(ctx context.Context, u *drive.User, begin time.Time) {
	p := &person{s: s, u: u, begin: begin, free: begin}
	if !p.wait(ctx, begin) {
		return
	}
	s.now.add(1)
	defer s.now.add(-1)
	defer p.leave()
	p.enter(ctx, begin)
	o := workload.Options{Seed: s.Seed, Speed: s.Speed, Set: s.Set, Protocol: s.Protocol}
	for planned := range s.Workload.Schedule(u.Index, o) {
		if !p.wait(ctx, begin.Add(planned.At)) {
			return
		}
		p.do(ctx, &planned)
		if planned.Last && s.Workload.Session == "loop" {
			p.leave()
		}
	}
	<-ctx.Done()
}

// wait waits for a time; false when ctx ended.
func (p *person) wait(ctx context.Context, until time.Time) bool {
	clock := p.s.Env.Clock
	now := clock.Now()
	if d := until.Sub(now); d > 0 {
		select {
		case <-ctx.Done():
			return false
		case <-clock.After(d):
		}
		// Nothing else held this user back: what it is late now is the driver's.
		p.s.lag.add(clock.Now().Sub(until))
	}
	return ctx.Err() == nil
}

// enter signs in; that is an action of its own.
func (p *person) enter(ctx context.Context, intended time.Time) {
	clock := p.s.Env.Clock
	begun := clock.Now()
	session, t, err := p.s.Open(ctx, p.u)
	p.session = session
	p.s.rec.Done(record.Done{Action: "login", Intended: intended, Begun: begun, Ended: clock.Now(), Err: drive.Kind(err), Sent: t.Sent, Received: t.Received})
	if err != nil {
		p.session = nil
	}
}

func (p *person) leave() {
	if p.session != nil {
		_ = p.session.Close() // it has nothing to say that anybody waits for
		p.session = nil
	}
}

// do carries one action out, or counts it as missed.
func (p *person) do(ctx context.Context, planned *workload.Planned) {
	clock := p.s.Env.Clock
	intended := p.begin.Add(planned.At)
	action := string(planned.Do)
	if clock.Now().After(p.begin.Add(planned.Next)) {
		p.s.rec.Missed(action)
		return
	}
	if p.session == nil {
		p.enter(ctx, intended)
	}
	begun := clock.Now()
	if p.session == nil {
		p.s.rec.Done(record.Done{Action: action, Intended: intended, Begun: begun, Ended: begun, Err: "not signed in"})
		return
	}
	t, err := p.session.Do(ctx, planned)
	ended := clock.Now().Add(-t.Held)
	if errors.Is(err, drive.ErrNothing) {
		return
	}
	p.s.rec.Done(record.Done{Action: action, Intended: intended, Begun: begun, Ended: ended, Err: drive.Kind(err), Sent: t.Sent, Received: t.Received})
	var refused *drive.Refusal
	if err != nil && !errors.As(err, &refused) {
		// The connection is gone; the next action signs in anew.
		_ = p.session.Close()
		p.session = nil
	}
}
