package workload

import (
	"iter"
	"math/rand/v2"
	"slices"
	"time"
)

// Planned is one action of one user, fixed in advance.
type Planned struct {
	// At is the intended time, counted from the user's sign-in.
	At time.Duration
	// Loop counts the user's loops from 0, and Last marks the last action of its loop. Next is the beginning of the
	// next loop: an action that cannot begin by then is missed.
	Loop int
	Last bool
	Next time.Duration
	*Action
	// Pick is a random number for the action's choices: a message, recipients, a size.
	Pick uint64
}

// Options change a schedule.
type Options struct {
	Seed uint64
	// Speed shortens all times; 1 is the workload's own.
	Speed float64
	// Set holds the values of parameters.
	Set map[string]int
	// Protocol excludes the actions that it cannot carry; "" excludes none.
	Protocol string
}

// stream is the number of the random stream for a user's schedule.
const stream = 0x5ced01e

// Schedule yields a user's actions in order of time, without end. It yields nothing if the protocol carries none of the
// actions. It depends only on its arguments: the same seed and user yield the same schedule on every driver.
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
		// A user's position in the cycle of loops is random, so that not all users send in the same loop.
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

// phases is a multiple of the usual cycles (2, 3, 6, 8, 24 loops).
const phases = 48

func (w *Workload) loop(r *rand.Rand, draw func(Span) time.Duration, begin, next time.Duration, loop, cycle int,
	o Options, yield func(Planned) bool) bool {
	var plan []Planned
	at := begin
	for i := range w.Actions {
		a := &w.Actions[i]
		for range inLoop(w.Times(a, o.Set), w.Per(a, o.Set), cycle) {
			// An excluded action draws as many random numbers, so that the rest of the schedule does not change.
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

// inLoop returns the number of times an action is done in one loop, if it is done times in per loops. The distribution
// is even, and any per successive loops contain exactly times.
func inLoop(times, per, cycle int) int {
	k := cycle % per
	return (k+1)*times/per - k*times/per
}

// Pick selects a size of a profile with a random number.
func Pick(profile []Size, random uint64) Size {
	x := float64(random>>11) / (1 << 53) * 100
	for _, s := range profile {
		if x -= s.Percent; x < 0 {
			return s
		}
	}
	return profile[len(profile)-1]
}

// Choose selects n different recipients among users 0 … users-1 except self, as Recipients describes; fewer if there
// are fewer.
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
