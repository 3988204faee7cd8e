package estimate

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Quotient returns mean(b)/mean(a) of repeated measurements, with the degrees of freedom of Welch and Satterthwaite by
// the delta method. Without repeats the bounds are NaN.
func Quotient(a, b []float64) Interval {
	x, y := stat.Mean(a, nil), stat.Mean(b, nil)
	out := Interval{y / x, math.NaN(), math.NaN()}
	if len(a) < 2 && len(b) < 2 || x == 0 || y == 0 {
		return out
	}
	part := func(v []float64, mean float64) (square, freedom float64) {
		if len(v) < 2 {
			return 0, 0
		}
		return stat.Variance(v, nil) / mean / mean, float64(len(v) - 1)
	}
	va, fa := part(a, x)
	vb, fb := part(b, y)
	switch { // a side without repeats is taken to vary as the other does
	case fa == 0:
		va, fa = vb, fb
	case fb == 0:
		vb, fb = va, fa
	}
	va, vb = va/float64(len(a)), vb/float64(len(b))
	square := va + vb
	if square == 0 {
		return Interval{y / x, y / x, y / x}
	}
	t := distuv.StudentsT{Sigma: 1, Nu: square * square / (va*va/fa + vb*vb/fb)}.Quantile((1 + Confidence) / 2)
	half := t * math.Sqrt(square) * math.Abs(y/x)
	return Interval{y / x, y/x - half, y/x + half}
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
