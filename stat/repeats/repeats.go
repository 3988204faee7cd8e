// Package repeats estimates from repeated measurements: a mean, and the quotient of two, each with its interval of 95 %
// confidence. The benchmark and the planner use it, so that both find the same differences.
package repeats

import (
	"math"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Confidence is the probability that an interval covers the true value.
const Confidence = 0.95

// Mean returns the mean of values and the bounds of its interval (Student's t). The bounds are NaN for one value. No
// value may be below 0, as of times, rates and resources, and so no bound is.
func Mean(values []float64) (mean, low, high float64) {
	mean = stat.Mean(values, nil)
	if len(values) < 2 {
		return mean, math.NaN(), math.NaN()
	}
	n := float64(len(values))
	t := distuv.StudentsT{Sigma: 1, Nu: n - 1}.Quantile((1 + Confidence) / 2)
	half := t * math.Sqrt(stat.Variance(values, nil)/n)
	return mean, max(0, mean-half), mean + half
}

// Quotient returns mean(b)/mean(a) and the bounds of its interval, by the delta method with the degrees of freedom of
// Welch and Satterthwaite. A side with one value is taken to vary, relative to its mean, as the other one does: the
// variance is then known from the other side alone, with its degrees of freedom. The bounds are NaN if no side was
// repeated or a mean is 0.
func Quotient(a, b []float64) (ratio, low, high float64) {
	x, y := stat.Mean(a, nil), stat.Mean(b, nil)
	ratio = y / x
	if len(a) < 2 && len(b) < 2 || x == 0 || y == 0 {
		return ratio, math.NaN(), math.NaN()
	}
	square, freedom := combined(relative(a, x), relative(b, y), float64(len(a)), float64(len(b)))
	if square == 0 {
		return ratio, ratio, ratio
	}
	t := distuv.StudentsT{Sigma: 1, Nu: freedom}.Quantile((1 + Confidence) / 2)
	half := t * math.Sqrt(square) * math.Abs(ratio)
	return ratio, ratio - half, ratio + half
}

// relative returns the variance of values relative to the square of their mean, NaN for one value.
func relative(values []float64, mean float64) float64 {
	if len(values) < 2 {
		return math.NaN()
	}
	return stat.Variance(values, nil) / mean / mean
}

// combined returns the variance of the logarithm of the quotient, and its degrees of freedom, from the relative
// variances of na and nb values; NaN is that of one value.
func combined(va, vb, na, nb float64) (square, freedom float64) {
	switch {
	case math.IsNaN(va):
		return vb + vb/nb, nb - 1
	case math.IsNaN(vb):
		return va + va/na, na - 1
	}
	va, vb = va/na, vb/nb
	square = va + vb
	return square, square * square / (va*va/(na-1) + vb*vb/(nb-1))
}
