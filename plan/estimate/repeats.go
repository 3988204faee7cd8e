package estimate

import (
	"fmt"
	"math"

	"doublet/stat/repeats"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Mean returns the mean of repeated measurements with its interval ([repeats.Mean]).
func Mean(values []float64) Interval {
	mean, low, high := repeats.Mean(values)
	return Interval{mean, low, high}
}

// Quotient returns mean(b)/mean(a) of repeated measurements with its interval ([repeats.Quotient]).
func Quotient(a, b []float64) Interval {
	ratio, low, high := repeats.Quotient(a, b)
	return Interval{ratio, low, high}
}

// Percent returns the change that a quotient is, in percent.
func (i Interval) Percent() Interval {
	return Interval{(i.Value - 1) * 100, (i.Low - 1) * 100, (i.High - 1) * 100}
}

// Linear is a least-squares fit with the covariance of its coefficients.
type Linear struct {
	Coefficients []float64
	covariance   *mat.Dense
	quantile     float64
}

// LeastSquares fits y to the columns x[k][i], of which one may be all ones. It needs more rows than columns.
func LeastSquares(y []float64, x [][]float64) (*Linear, error) {
	n, p := len(y), len(x)
	if n <= p {
		return nil, fmt.Errorf("%w: %d measurements for %d coefficients", ErrFew, n, p)
	}
	design := mat.NewDense(n, p, nil)
	for k := range x {
		for i, v := range x[k] {
			design.Set(i, k, v)
		}
	}
	var qr mat.QR
	qr.Factorize(design)
	if qr.Cond() > 1e12 {
		return nil, ErrCollinear
	}
	var beta mat.VecDense
	if err := qr.SolveVecTo(&beta, false, mat.NewVecDense(n, y)); err != nil {
		return nil, ErrCollinear
	}
	var fitted mat.VecDense
	fitted.MulVec(design, &beta)
	sum := 0.0
	for i := range y {
		sum += (y[i] - fitted.AtVec(i)) * (y[i] - fitted.AtVec(i))
	}
	var xx, inverse mat.Dense
	xx.Mul(design.T(), design)
	if err := inverse.Inverse(&xx); err != nil {
		if c, ok := err.(mat.Condition); !ok || math.IsInf(float64(c), 1) { //nolint:errorlint // gonum returns it bare
			return nil, ErrCollinear
		}
	}
	inverse.Scale(sum/float64(n-p), &inverse)
	out := &Linear{covariance: &inverse,
		quantile: distuv.StudentsT{Sigma: 1, Nu: float64(n - p)}.Quantile((1 + Confidence) / 2)}
	for k := range p {
		out.Coefficients = append(out.Coefficients, beta.AtVec(k))
	}
	return out, nil
}

// Coefficient returns a coefficient with its interval.
func (l *Linear) Coefficient(k int) Interval {
	row := make([]float64, len(l.Coefficients))
	row[k] = 1
	return l.At(row)
}

// At returns the mean at a row of the columns, with its interval.
func (l *Linear) At(row []float64) Interval {
	v, square := 0.0, 0.0
	for k, x := range row {
		v += l.Coefficients[k] * x
		for m, y := range row {
			square += x * y * l.covariance.At(k, m)
		}
	}
	half := l.quantile * math.Sqrt(max(0, square))
	return Interval{v, v - half, v + half}
}

// Quotient returns the quotient of two coefficients with its interval, by the delta method: their errors depend on each
// other.
func (l *Linear) Quotient(k, m int) Interval {
	a, b := l.Coefficients[k], l.Coefficients[m]
	v := a / b
	square := (l.covariance.At(k, k) + v*v*l.covariance.At(m, m) - 2*v*l.covariance.At(k, m)) / b / b
	half := l.quantile * math.Sqrt(max(0, square))
	return Interval{v, v - half, v + half}
}
