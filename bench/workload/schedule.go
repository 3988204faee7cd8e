package workload

import (
	"iter"
	"math/rand/v2"
	"slices"
	"time"
)

// Planned is one action of one user, fixed in advance.
type Planned struct {
	// At is when it is wanted, from the moment the user signed in.
	At time.Duration
	// Loop counts the user's loops from 0; Last marks the last action of its loop, Next is when the
	// next loop begins: what could not begin by then is missed.
	Loop int
	Last bool
	Next time.Duration
	*Action
	// Pick is a random number of the action's own, for what it chooses: a message, recipients, a size.
	Pick uint64
}

// Options change a schedule.
type Options struct {
	Seed uint64
	// Speed shortens all times; 1 is the workload's own.
	Speed float64
	// Set are parameters.
	Set map[string]int
	// Protocol leaves out what it cannot carry; "" leaves out nothing.
	Protocol string
}

// stream is the number of the random stream that a user's schedule draws from.
const stream = 0x5ced01e

// Schedule yields a user's actions in order of time, without end; nothing where the workload has
// nothing that the protocol carries. It depends on nothing but its
// arguments: the same seed and user give the same schedule on every driver.
func (w *Workload) Schedule(user int, o Options) iter.Seq[Planned] {
	return func(yield func(Planned) bool) {
		does := func(a Action) bool { return w.Times(&a, o.Set) > 0 && (o.Protocol == "" || Carries(o.Protocol, a.Do)) }
		if !slices.ContainsFunc(w.Actions, does) {
			return
		}
		r := rand.New(rand.NewPCG(o.Seed^uint64(user)*0x9e3779b97f4a7c15, stream+uint64(user)))
		speed := o.Speed
		if speed <= 0 {
			speed = 1
		}
		draw := func(s Span) time.Duration {
			d := time.Duration(s.Min)
			if s.Max > s.Min {
				d += time.Duration(r.Int64N(int64(s.Max-s.Min) + 1))
			}
			return time.Duration(float64(d) / speed)
		}
		// Where a user stands in the cycle of loops is drawn, so that not all send in the same loop.
		offset := r.IntN(phases)
		begin := draw(w.Stagger)
		for loop := 0; ; loop++ {
			next := begin + draw(w.Loop)
			if !w.loop(r, draw, begin, next, loop, loop+offset, o, yield) {
				return
			}
			begin = next
		}
	}
}

// phases is a number that the usual cycles (2, 3, 6, 8, 24 loops) divide.
const phases = 48

func (w *Workload) loop(r *rand.Rand, draw func(Span) time.Duration, begin, next time.Duration, loop, cycle int, o Options, yield func(Planned) bool) bool {
	var plan []Planned
	at := begin
	for i := range w.Actions {
		a := &w.Actions[i]
		for range inLoop(w.Times(a, o.Set), a.Per, cycle) {
			// What a protocol cannot carry draws as much, so that the rest stays where it is.
			p := Planned{At: at, Loop: loop, Next: next, Action: a, Pick: r.Uint64()}
			at += draw(a.Think) + draw(Span{a.Hold, a.Hold})
			if o.Protocol == "" || Carries(o.Protocol, a.Do) {
				plan = append(plan, p)
			}
		}
	}
	for i := range plan {
		plan[i].Last = i == len(plan)-1
		if !yield(plan[i]) {
			return false
		}
	}
	return true
}

// inLoop is how often an action that is done times in per loops is done in one of them: evenly, and
// exactly times in any per loops that follow each other.
func inLoop(times, per, cycle int) int {
	k := cycle % per
	return (k+1)*times/per - k*times/per
}

// Pick draws a message of a profile with a random number: its sizes.
func Pick(profile []Size, random uint64) Size {
	x := float64(random>>11) / (1 << 53) * 100
	for _, s := range profile {
		if x -= s.Percent; x < 0 {
			return s
		}
	}
	return profile[len(profile)-1]
}

// Choose draws n different recipients among users 0 … users-1 but self, as Recipients says; fewer
// where there are fewer.
func (w *Workload) Choose(self, users, n int, random uint64) []int {
	r := rand.New(rand.NewPCG(random, stream))
	n = min(n, users-1)
	few := users * w.Recipients.Few / 100
	seen := map[int]bool{self: true}
	var out []int
	for tries := 0; len(out) < n; tries++ {
		u := r.IntN(users)
		if few > 0 && tries < 20*n {
			if r.IntN(100) < w.Recipients.Most {
				u = r.IntN(few)
			} else if few < users {
				u = few + r.IntN(users-few)
			}
		}
		if !seen[u] {
			seen[u] = true
			out = append(out, u)
		}
	}
	return out
}
