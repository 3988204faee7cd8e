package estimate

import (
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"
)

// Fit is a linear regression: the value at 0 (the fixed cost) and a slope for each variable (the cost of a unit of it).
type Fit struct {
	Fixed  Interval   `json:"fixed"`
	Slopes []Interval `json:"slopes"`
	// Explained is the share of the variance that the fit explains (R²).
	Explained float64 `json:"explained"`
}

// ErrCollinear means that variables move together, so that their effects cannot be told apart.
var ErrCollinear = errors.New("variables move together: leave one out")

// maxCondition is the largest condition number of the correlations of the variables. Beyond it the slopes share one
// effect arbitrarily.
const maxCondition = 400

// Regress fits y to the variables x[k][i]. day[i] numbers the day of a row; rows of one day are neighbours. Intervals
// come from a bootstrap in blocks of whole days, so that dependence within a day and between days counts.
func (b Bootstrap) Regress(y []float64, x [][]float64, day []int) (*Fit, error) {
	p := len(x) + 1
	days := normalEquations(y, x, day)
	if len(days) < max(MinDays, 2*p) {
		return nil, fmt.Errorf(
			"%w: %d days, at least %d for %d variables",
			ErrFew,
			len(days),
			max(MinDays, 2*p),
			len(x),
		)
	}
	if err := independent(x); err != nil {
		return nil, err
	}
	all := make([]int, len(days))
	for i := range all {
		all[i] = i
	}
	solver := newSolver(days, p)
	best := append([]float64(nil), solver.solve(all)...)
	if math.IsNaN(best[0]) {
		return nil, ErrCollinear
	}
	out := &Fit{Explained: explained(y, x, best)}
	residuals := dailyResiduals(y, x, day, best)
	block := BlockLength(residuals)
	n := len(days)
	half := make([]float64, p)
	for k := range half {
		half[k] = critical(float64(block)/float64(n)) *
			b.deviation(n, block, func(index []int) float64 { return solver.solve(index)[k] })
	}
	interval := func(k int) Interval { return Interval{best[k], best[k] - half[k], best[k] + half[k]} }
	out.Fixed = interval(0)
	for k := range x {
		out.Slopes = append(out.Slopes, interval(k+1))
	}
	return out, nil
}

// equations are the sums of a day from which a regression is solved: XᵀX, row by row, and Xᵀy.
type equations struct{ xx, xy []float64 }

func normalEquations(y []float64, x [][]float64, day []int) (out []equations) {
	p := len(x) + 1
	row := make([]float64, p)
	row[0] = 1
	for i := range y {
		if i == 0 || day[i] != day[i-1] {
			out = append(out, equations{make([]float64, p*p), make([]float64, p)})
		}
		e := &out[len(out)-1]
		for k := range x {
			row[k+1] = x[k][i]
		}
		for r := range p {
			for c := range p {
				e.xx[r*p+c] += row[r] * row[c]
			}
			e.xy[r] += row[r] * y[i]
		}
	}
	return out
}

// solver solves the regression of resamples of days.
type solver struct {
	days   []equations
	p      int
	xx, xy []float64
	out    []float64
}

func newSolver(days []equations, p int) *solver {
	return &solver{days, p, make([]float64, p*p), make([]float64, p), make([]float64, p)}
}

// solve returns the coefficients of a resample, NaN if it has no solution. The next call overwrites them.
func (s *solver) solve(index []int) []float64 {
	clear(s.xx)
	clear(s.xy)
	for _, d := range index {
		for i, v := range s.days[d].xx {
			s.xx[i] += v
		}
		for i, v := range s.days[d].xy {
			s.xy[i] += v
		}
	}
	var chol mat.Cholesky
	sym := mat.NewSymDense(s.p, s.xx)
	x := mat.NewVecDense(s.p, s.out)
	if !chol.Factorize(sym) || chol.SolveVecTo(x, mat.NewVecDense(s.p, s.xy)) != nil {
		for i := range s.out {
			s.out[i] = math.NaN()
		}
	}
	return s.out
}

// independent returns ErrCollinear if the variables are constant or move together.
func independent(x [][]float64) error {
	p := len(x)
	data := mat.NewDense(len(x[0]), p, nil)
	for k, column := range x {
		mean, sd := moments(column)
		if sd == 0 {
			return fmt.Errorf("%w: variable %d is constant", ErrCollinear, k+1)
		}
		for i, v := range column {
			data.Set(i, k, (v-mean)/sd)
		}
	}
	var svd mat.SVD
	if !svd.Factorize(data, mat.SVDNone) {
		return ErrCollinear
	}
	if c := svd.Cond(); c*c > maxCondition {
		return ErrCollinear
	}
	return nil
}

func moments(x []float64) (mean, sd float64) {
	for _, v := range x {
		mean += v
	}
	mean /= float64(len(x))
	for _, v := range x {
		sd += (v - mean) * (v - mean)
	}
	return mean, math.Sqrt(sd / float64(len(x)))
}

func predict(x [][]float64, fit []float64, i int) float64 {
	v := fit[0]
	for k := range x {
		v += fit[k+1] * x[k][i]
	}
	return v
}

func explained(y []float64, x [][]float64, fit []float64) float64 {
	_, sd := moments(y)
	if sd == 0 {
		return 0
	}
	sum := 0.0
	for i := range y {
		d := y[i] - predict(x, fit, i)
		sum += d * d
	}
	return 1 - sum/float64(len(y))/sd/sd
}

func dailyResiduals(y []float64, x [][]float64, day []int, fit []float64) (out []float64) {
	for i := range y {
		if i == 0 || day[i] != day[i-1] {
			out = append(out, 0)
		}
		out[len(out)-1] += y[i] - predict(x, fit, i)
	}
	return out
}
