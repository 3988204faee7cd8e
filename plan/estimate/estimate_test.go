package estimate

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"doublet/test/long"
)

// world makes days of processor seconds and active users: users vary with season and chance, the cost of a user
// depends on that of the day before (AR(1)).
type world struct {
	r    *rand.Rand
	past float64
	rho  float64
}

func newWorld(seed uint64, rho float64) *world {
	return &world{rand.New(rand.NewPCG(seed, 77)), 0, rho}
}

// days returns n days at a cost of each user.
func (w *world) days(n int, cost float64) (p Pairs) {
	for d := range n {
		users := 10000 * (1 + 0.2*math.Sin(float64(d)/9)) * (1 + 0.05*w.r.NormFloat64())
		w.past = w.rho*w.past + math.Sqrt(1-w.rho*w.rho)*w.r.NormFloat64()
		p.Per = append(p.Per, users)
		p.Amount = append(p.Amount, users*cost*(1+0.06*w.past))
	}
	return p
}

// coverage returns the share of simulations in which ok.
func coverage(n int, ok func(seed uint64) bool) float64 {
	hits := 0
	for i := range n {
		if ok(uint64(i)) {
			hits++
		}
	}
	return float64(hits) / float64(n)
}

// within fails unless a share is in [low, 1].
func within(t *testing.T, what string, share, low float64) {
	t.Helper()
	t.Logf("%s: %.3f", what, share)
	if share < low {
		t.Errorf("%s: %.3f, want at least %.3f", what, share, low)
	}
}

// TestCoverage simulates known effects: the intervals must cover them as often as they claim, and an effect of zero
// must be "no decision" as often. The bound is 95 % less the chance of the simulation (3 deviations) and 2.5 points
// for strongly dependent days.
func TestCoverage(t *testing.T) {
	t.Parallel()
	n := long.Pick(250, 1000)
	least := 0.95 - 3*math.Sqrt(0.95*0.05/float64(n))
	for _, c := range []struct {
		rho   float64
		slack float64
	}{{0, 0}, {0.3, 0.025}, {0.5, 0.04}} {
		within(t, "ratio", coverage(n, func(seed uint64) bool {
			got, err := Bootstrap{Resamples: 300, Seed: seed}.Ratio(newWorld(seed, c.rho).days(60, 0.5))
			return err == nil && got.Contains(0.5)
		}), least-c.slack)
		within(t, "change of 12 %", coverage(n, func(seed uint64) bool {
			w := newWorld(seed, c.rho)
			before := w.days(60, 0.5)
			got, err := Bootstrap{Resamples: 300, Seed: seed}.Change(before, w.days(40, 0.44))
			return err == nil && got.Contains(-12)
		}), least-c.slack)
		within(t, "no effect is no decision", coverage(n, func(seed uint64) bool {
			w := newWorld(seed, c.rho)
			before := w.days(40, 0.5)
			got, err := Bootstrap{Resamples: 300, Seed: seed}.Change(before, w.days(30, 0.5))
			return err == nil && got.Contains(0)
		}), least-c.slack)
	}
}

// TestDecides checks that intervals are not covering because they are wide: an effect of 12 % in 8 weeks is found.
func TestDecides(t *testing.T) {
	t.Parallel()
	within(t, "an effect of 12 % is found", coverage(200, func(seed uint64) bool {
		w := newWorld(seed, 0.3)
		before := w.days(40, 0.5)
		got, err := Bootstrap{Resamples: 300, Seed: seed}.Change(before, w.days(40, 0.44))
		return err == nil && got.High < 0
	}), 0.97)
}

// TestDifferenceInDifferences changes both servers by a season and one by an upgrade.
func TestDifferenceInDifferences(t *testing.T) {
	t.Parallel()
	n := long.Pick(200, 1000)
	run := func(seed uint64) (Interval, Interval) {
		a, b, season := newWorld(seed, 0.3), newWorld(seed+1e6, 0.3), newWorld(seed+2e6, 0.5)
		parts := [4]Pairs{a.days(40, 0.5), a.days(40, 0.45), b.days(40, 0.3), b.days(40, 0.3)}
		for when := range 2 {
			for d := range 40 {
				shock := 1 + 0.08*season.r.NormFloat64() + 0.1*float64(when) // the later season costs a tenth more
				parts[when].Amount[d] *= shock
				parts[2+when].Amount[d] *= shock
			}
		}
		both, err := Bootstrap{
			Resamples: 300,
			Seed:      seed,
		}.DifferenceInDifferences(
			parts[0],
			parts[1],
			parts[2],
			parts[3],
		)
		alone, err2 := Bootstrap{Resamples: 300, Seed: seed}.Change(parts[0], parts[1])
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		return both, alone
	}
	narrower, misled := 0, 0
	within(t, "difference in differences covers -10 %", coverage(n, func(seed uint64) bool {
		both, alone := run(seed)
		if both.High-both.Low < alone.High-alone.Low {
			narrower++
		}
		if !alone.Contains(-10) {
			misled++
		}
		return both.Contains(-10)
	}), 0.95-3*math.Sqrt(0.95*0.05/float64(n))-0.025)
	if narrower < n*6/10 || misled < n/2 {
		t.Errorf(
			"of %d, %d narrower than before/after alone, which was misled by the season %d times",
			n,
			narrower,
			misled,
		)
	}
	w := newWorld(1, 0)
	if _, err := (Bootstrap{}).DifferenceInDifferences(w.days(9, 1), w.days(9, 1), w.days(8, 1), w.days(9,
		1)); err == nil {
		t.Error("other days were accepted")
	}
}

// TestRegression finds the cost of a user and of a message, and the fixed cost.
func TestRegression(t *testing.T) {
	t.Parallel()
	n := long.Pick(150, 1000)
	made := func(seed uint64) (y []float64, x [][]float64, day []int) {
		r := rand.New(rand.NewPCG(seed, 5))
		x = make([][]float64, 2)
		past := 0.0
		for d := range 30 {
			past = 0.4*past + r.NormFloat64()
			for k := range 32 {
				users := 300 + 200*math.Sin(math.Pi*float64(k)/32) + 20*r.NormFloat64()
				messages := 100 + 30*r.NormFloat64()
				x[0], x[1], day = append(x[0], users), append(x[1], messages), append(day, d)
				y = append(y, 40+0.5*users+0.2*messages+4*past+5*r.NormFloat64())
			}
		}
		return y, x, day
	}
	want := []float64{40, 0.5, 0.2}
	for k, name := range []string{"fixed cost", "cost of a user", "cost of a message"} {
		within(t, name, coverage(n, func(seed uint64) bool {
			y, x, day := made(seed)
			f, err := Bootstrap{Resamples: 100, Seed: seed}.Regress(y, x, day)
			if err != nil || f.Explained < 0.8 {
				t.Fatal(err, f)
			}
			return append([]Interval{f.Fixed}, f.Slopes...)[k].Contains(want[k])
		}), 0.95-3*math.Sqrt(0.95*0.05/float64(n))-0.025)
	}
	y, x, day := made(1)
	x[1] = append([]float64(nil), x[0]...)
	for i := range x[1] {
		x[1][i] = x[1][i]*3 + 1
	}
	if _, err := (Bootstrap{}).Regress(y, x, day); !errors.Is(err, ErrCollinear) {
		t.Errorf("variables that move together: %v", err)
	}
	if _, err := (Bootstrap{}).Regress(y[:64], [][]float64{x[0][:64]}, day[:64]); !errors.Is(err, ErrFew) {
		t.Errorf("two days: %v", err)
	}
}

// TestDeterministic checks that the seed decides, that blocks grow with dependence, and what is refused.
func TestDeterministic(t *testing.T) {
	t.Parallel()
	p := newWorld(3, 0.5).days(50, 1)
	a, err := Bootstrap{Seed: 7}.Ratio(p)
	if err != nil {
		t.Fatal(err)
	}
	if b, _ := (Bootstrap{Seed: 7}).Ratio(p); a != b {
		t.Errorf("%v and %v", a, b)
	}
	if c, _ := (Bootstrap{Seed: 8}).Ratio(p); a == c {
		t.Error("another seed changed nothing")
	}
	short, long := 0, 0
	for seed := range uint64(20) {
		short += BlockLength(newWorld(seed, 0).days(200, 1).deviations())
		long += BlockLength(newWorld(seed, 0.8).days(200, 1).deviations())
	}
	if short > 120 || long < 3*short/2 {
		t.Errorf("blocks of %d and %d in 20 series", short, long)
	}
	if _, err := (Bootstrap{}).Ratio(newWorld(1, 0).days(4, 1)); !errors.Is(err, ErrFew) {
		t.Errorf("four days: %v", err)
	}
	if _, err := (Bootstrap{}).Mean([]float64{1, 2}); !errors.Is(err, ErrFew) {
		t.Errorf("two values: %v", err)
	}
	if m, err := (Bootstrap{}).Mean([]float64{1, 2, 3, 2, 1, 3, 2}); err != nil || !m.Contains(2) || m.High > 3 {
		t.Errorf("mean %v, %v", m, err)
	}
	if _, err := (Bootstrap{}).Ratio(Pairs{make([]float64, 9), make([]float64, 9)}); err == nil {
		t.Error("days without users gave a ratio")
	}
}
