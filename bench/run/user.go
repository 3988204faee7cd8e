package run

import (
	"context"
	"errors"
	"iter"
	"time"

	"doublet/bench/drive"
	"doublet/bench/record"
	"doublet/bench/workload"
)

// person is an active user.
type person struct {
	s       *Local
	u       *drive.User
	begin   time.Time // the start of the schedule
	session drive.Session
	wants   wants
	offers  offers
}

// work performs the actions of the user until ctx ends.
func (p *person) work(ctx context.Context) {
	if !p.wait(ctx, p.begin) {
		return
	}
	s := p.s
	s.now.add(1)
	defer s.now.add(-1)
	defer p.leave()
	p.done(p.enter(ctx, p.begin))
	n := 0
	for planned := range p.schedule() {
		p.wants.next(p.want(n, &planned))
		n++
		if !p.wait(ctx, p.begin.Add(planned.At)) {
			return
		}
		p.do(ctx, &planned)
		if planned.Last && s.Workload.Session == "loop" {
			p.leave()
		}
	}
	<-ctx.Done()
}

func (p *person) schedule() iter.Seq[workload.Planned] {
	s := p.s
	return s.Workload.Schedule(p.u.Index,
		workload.Options{Seed: s.Seed, Speed: s.Speed, Set: s.Set, Protocol: s.Protocol})
}

// wait waits until a time and reports whether ctx is still alive.
func (p *person) wait(ctx context.Context, until time.Time) bool {
	clock := p.s.Env.Clock
	now := clock.Now()
	if d := until.Sub(now); d > 0 {
		select {
		case <-ctx.Done():
			return false
		case <-clock.After(d):
		}
		// The user was idle until then, so any delay is the driver's.
		p.s.lag.add(clock.Now().Sub(until))
	}
	return ctx.Err() == nil
}

// enter signs in, which is an action of its own.
func (p *person) enter(ctx context.Context, intended time.Time) record.Done {
	clock := p.s.Env.Clock
	begun := clock.Now()
	session, t, err := p.s.Open(ctx, p.u)
	p.session = session
	if err != nil {
		p.session = nil
	}
	return record.Done{Action: "login", Intended: intended, Begun: begun, Ended: clock.Now(), Err: drive.Kind(err),
		Sent: t.Sent, Received: t.Received}
}

func (p *person) leave() {
	if p.session != nil {
		_ = p.session.Close() // its error concerns no action
		p.beside()
		p.session = nil
	}
}

// beside records what the session did by itself.
func (p *person) beside() {
	s, ok := p.session.(drive.Syncing)
	if !ok {
		return
	}
	for _, x := range s.Syncs() {
		p.s.rec.Done(record.Done{Action: record.Sync, Intended: x.Begun, Begun: x.Begun, Ended: x.Ended,
			Err: drive.Kind(x.Err), Sent: x.Traffic.Sent, Received: x.Traffic.Received})
	}
}

// do executes one action, or counts it as missed.
func (p *person) do(ctx context.Context, planned *workload.Planned) {
	clock := p.s.Env.Clock
	intended := p.begin.Add(planned.At)
	action := string(planned.Do)
	if clock.Now().After(p.begin.Add(planned.Next)) {
		p.wants.settle(func() { p.s.rec.Missed(action) })
		return
	}
	if p.session == nil {
		p.s.rec.Done(p.enter(ctx, intended))
		if p.session == nil && p.s.Failover {
			p.failover(ctx)
		}
	}
	if p.session == nil {
		// The failed sign-in is the server's error, and it is counted. This action has not begun.
		p.wants.settle(func() { p.s.rec.Missed(action) })
		return
	}
	begun := clock.Now()
	p.beside()
	t, err := p.session.Do(ctx, planned)
	if p.lost(err) && p.s.Failover && p.failover(ctx) && harmless[planned.Do] {
		t, err = p.session.Do(ctx, planned)
		p.lost(err)
	}
	ended := clock.Now().Add(-t.Held)
	if errors.Is(err, drive.ErrNothing) {
		p.wants.settle(func() { p.s.rec.Nothing(action) })
		return
	}
	p.done(record.Done{Action: action, Intended: intended, Begun: begun, Ended: ended, Err: drive.Kind(err),
		Sent: t.Sent, Received: t.Received})
}

// done counts the answer to what the user wants now.
func (p *person) done(d record.Done) { p.wants.settle(func() { p.s.rec.Done(d) }) }

// lost closes the session if err means that the connection is lost, and reports that. The next action signs in again.
func (p *person) lost(err error) bool {
	var refused *drive.Refusal
	if err == nil || errors.As(err, &refused) || errors.Is(err, drive.ErrNothing) {
		return false
	}
	p.leave()
	return true
}

// harmless are the actions that a mail program repeats by itself after a lost connection, because to do them twice has
// no effect.
var harmless = map[workload.Verb]bool{
	workload.Open: true, workload.Scroll: true, workload.Read: true, workload.Update: true, workload.Poll: true,
	workload.Retrieve: true,
	workload.Idle:     true, workload.Close: true,
}

// The pause between two attempts of a failover, and its time limit.
const (
	failoverPause = 100 * time.Millisecond
	failoverLimit = time.Minute
)

// failover signs in and opens the INBOX, repeatedly until it succeeds or failoverLimit has passed.
func (p *person) failover(ctx context.Context) bool {
	if ctx.Err() != nil {
		return false // the run ends
	}
	clock := p.s.Env.Clock
	begun := clock.Now()
	var err error
	for clock.Now().Sub(begun) < failoverLimit && ctx.Err() == nil {
		if p.session, _, err = p.s.Open(ctx, p.u); err == nil {
			if p.s.Protocol != workload.IMAP && p.s.Protocol != workload.JMAP {
				break
			}
			if _, err = p.session.Do(ctx, &workload.Planned{Action: &workload.Action{Do: workload.Open}}); err == nil {
				break
			}
			_ = p.session.Close()
		}
		p.session = nil
		select {
		case <-ctx.Done():
		case <-clock.After(failoverPause):
		}
	}
	why := drive.Kind(err)
	if p.session == nil && ctx.Err() != nil {
		why = notLetIn
	}
	p.s.rec.Done(record.Done{Action: Failover, Intended: begun, Begun: begun, Ended: clock.Now(), Err: why})
	return p.session != nil
}

// notLetIn is the error of users who could not sign in before the end of the measurement.
const notLetIn = "not let in before the end"

// Failover is the action of signing in again after a lost connection.
const Failover = "failover"
