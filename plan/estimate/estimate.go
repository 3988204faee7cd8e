// Package estimate computes figures with the intervals that they are known to: ratios, changes, regressions and
// differences in differences of series whose values depend on those before. Intervals have 95 % confidence.
//
// All randomness comes from a seed, so that the same data give the same interval.
package estimate

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"doublet/stat/repeats"

	"gonum.org/v1/gonum/stat"
)

// Confidence is the probability that an interval covers the true value.
const Confidence = repeats.Confidence

// Interval is an estimate and the bounds of its interval of 95 % confidence.
type Interval struct {
	Value float64 `json:"value"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

// MarshalJSON implements json.Marshaler. Unknown bounds are null.
func (i Interval) MarshalJSON() ([]byte, error) {
	known := func(v float64) *float64 {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil
		}
		return &v
	}
	return json.Marshal(map[string]*float64{"value": known(i.Value), "low": known(i.Low), "high": known(i.High)})
}

// Contains reports whether v is within the bounds. Unknown bounds (NaN) exclude nothing.
func (i Interval) Contains(v float64) bool { return !(v < i.Low || v > i.High) }

// Unknown returns an interval of which nothing is known.
func Unknown() Interval { return Interval{math.NaN(), math.NaN(), math.NaN()} }

// Value is a number that may be unknown: NaN, which is null in JSON.
type Value float64

// MarshalJSON implements json.Marshaler.
func (v Value) MarshalJSON() ([]byte, error) {
	if f := float64(v); math.IsNaN(f) || math.IsInf(f, 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(v))
}

// Or returns the value, or other if it is unknown.
func (v Value) Or(other Value) Value {
	if math.IsNaN(float64(v)) {
		return other
	}
	return v
}

// Text formats the value, "–" if it is unknown.
func (v Value) Text(format string) string {
	if math.IsNaN(float64(v)) {
		return "–"
	}
	return fmt.Sprintf(format, float64(v))
}

// ErrFew means that there are too few values for an interval.
var ErrFew = errors.New("too few values for an interval")

// MinDays is the least number of values, such as days, from which an interval is computed.
const MinDays = 5

// Bootstrap resamples in moving blocks: blocks of neighbouring values, so that resamples depend on their past as the
// series does (Künsch 1989).
type Bootstrap struct {
	// Resamples is the number of resamples, 0 for 1,000.
	Resamples int
	Seed      uint64
}

func (b Bootstrap) count() int {
	if b.Resamples <= 0 {
		return 1000
	}
	return b.Resamples
}

// deviation returns the standard deviation of a statistic over resamples of n values in blocks. statistic gets the
// indices of a resample, which it must not keep.
func (b Bootstrap) deviation(n, block int, statistic func(index []int) float64) float64 {
	r := rand.New(rand.NewPCG(b.Seed, uint64(n)<<20|uint64(block)))
	index := make([]int, n)
	values := make([]float64, 0, b.count())
	for range b.count() {
		for at := 0; at < n; {
			start := r.IntN(n - block + 1)
			for k := 0; k < block && at < n; k++ {
				index[at] = start + k
				at++
			}
		}
		if v := statistic(index); !math.IsNaN(v) && !math.IsInf(v, 0) {
			values = append(values, v)
		}
	}
	return stat.StdDev(values, nil)
}

// critical returns the quantile by which a deviation is multiplied. The variance in moving blocks is that of a Bartlett
// kernel whose width is the share of the block in the series; these are the critical values of Kiefer and Vogelsang
// (2005, table 1), which allow for the error of that variance. Blocks of one value give about Student's t.
func critical(share float64) float64 {
	return 1.9600 + 2.9694*share + 0.4160*share*share - 0.5324*share*share*share
}

// week is the least length of blocks: the working days of a week. Short series hide their dependence, and weekdays
// differ.
const week = 5

// BlockLength returns the length of blocks for a series of days: the automatic choice of Politis and White (2004,
// corrected in 2009), at least a working week and at most a third of the series.
func BlockLength(x []float64) int { return max(1, min(max(automatic(x), week), len(x)/3)) }

// automatic returns the choice of Politis and White, 1 for a series without dependence that shows.
func automatic(x []float64) int {
	n := len(x)
	if n < 9 {
		return 1
	}
	rho := autocovariance(x)
	if rho[0] == 0 {
		return 1
	}
	limit := 2 * math.Sqrt(math.Log10(float64(n))/float64(n))
	run := max(5, int(math.Sqrt(math.Log10(float64(n)))))
	m := 0
	for k, quiet := 1, 0; k < len(rho) && quiet < run; k++ {
		if math.Abs(rho[k]/rho[0]) < limit {
			quiet++
			continue
		}
		quiet, m = 0, k
	}
	if m == 0 {
		return 1
	}
	width := min(2*m, len(rho)-1)
	g, spectrum := 0.0, rho[0]
	for k := 1; k <= width; k++ {
		taper := 1.0
		if t := float64(k) / float64(width); t > 0.5 {
			taper = 2 * (1 - t)
		}
		g += 2 * taper * float64(k) * rho[k]
		spectrum += 2 * taper * rho[k]
	}
	d := 4.0 / 3 * spectrum * spectrum
	if d == 0 {
		return 1
	}
	length := math.Cbrt(2*g*g/d) * math.Cbrt(float64(n))
	return int(math.Ceil(min(length, float64(n))))
}

// autocovariance returns the autocovariances of a series up to a third of its length.
func autocovariance(x []float64) []float64 {
	n := len(x)
	mean := stat.Mean(x, nil)
	out := make([]float64, n/3+1)
	for k := range out {
		for i := k; i < n; i++ {
			out[k] += (x[i] - mean) * (x[i-k] - mean)
		}
		out[k] /= float64(n)
	}
	return out
}

// Pairs is a series of amounts and of what they are divided by: the processor seconds and the active users of each day.
type Pairs struct{ Amount, Per []float64 }

// Ratio returns the sum of the amounts over the sum of the divisors.
func (p Pairs) Ratio() float64 {
	a, b := 0.0, 0.0
	for i := range p.Amount {
		a += p.Amount[i]
		b += p.Per[i]
	}
	return a / b
}

// ratioOf returns the ratio of a resample.
func (p Pairs) ratioOf(index []int) float64 {
	a, b := 0.0, 0.0
	for _, i := range index {
		a += p.Amount[i]
		b += p.Per[i]
	}
	return a / b
}

// deviations returns how much each day moves the ratio: the linear form of the ratio, whose dependence decides the
// length of blocks.
func (p Pairs) deviations() []float64 {
	ratio := p.Ratio()
	out := make([]float64, len(p.Amount))
	for i := range out {
		out[i] = p.Amount[i] - ratio*p.Per[i]
	}
	return out
}

func (p Pairs) check() error {
	if len(p.Amount) != len(p.Per) {
		return fmt.Errorf("%d amounts and %d divisors", len(p.Amount), len(p.Per))
	}
	if len(p.Amount) < MinDays {
		return fmt.Errorf("%w: %d, at least %d", ErrFew, len(p.Amount), MinDays)
	}
	if r := p.Ratio(); math.IsNaN(r) || math.IsInf(r, 0) {
		return errors.New("no divisor is above 0")
	}
	return nil
}

// logSpread returns the deviation of the logarithm of the ratio, and its critical value.
func (b Bootstrap) logSpread(p Pairs) (deviation, quantile float64) {
	n := len(p.Amount)
	block := BlockLength(p.deviations())
	return b.deviation(n, block, func(index []int) float64 { return math.Log(p.ratioOf(index)) }),
		critical(float64(block) / float64(n))
}

// Ratio returns the ratio of two series with its interval.
func (b Bootstrap) Ratio(p Pairs) (Interval, error) {
	if err := p.check(); err != nil {
		return Interval{}, err
	}
	v := p.Ratio()
	if v == 0 {
		return Interval{}, nil
	}
	d, q := b.logSpread(p)
	return Interval{v, v * math.Exp(-q*d), v * math.Exp(q*d)}, nil
}

// Mean returns the mean of a series with its interval.
func (b Bootstrap) Mean(x []float64) (Interval, error) {
	if len(x) < MinDays {
		return Interval{}, fmt.Errorf("%w: %d, at least %d", ErrFew, len(x), MinDays)
	}
	block := BlockLength(x)
	v := stat.Mean(x, nil)
	d := critical(float64(block)/float64(len(x))) * b.deviation(len(x), block, func(index []int) float64 {
		sum := 0.0
		for _, i := range index {
			sum += x[i]
		}
		return sum / float64(len(index))
	})
	return Interval{v, v - d, v + d}, nil
}

// Change returns the change from one ratio to another in percent. The two series are of different times and
// independent.
func (b Bootstrap) Change(before, after Pairs) (Interval, error) {
	if err := errors.Join(before.check(), after.check()); err != nil {
		return Interval{}, err
	}
	x, y := before.Ratio(), after.Ratio()
	if x <= 0 || y <= 0 {
		return Interval{}, errors.New("no change of a ratio that is 0")
	}
	return changeOf(math.Log(y/x), b.spread(before, after)), nil
}

// spread returns half the width of the interval of the difference of two logarithms.
func (b Bootstrap) spread(before, after Pairs) float64 {
	dx, qx := b.logSpread(before)
	other := b
	other.Seed++
	dy, qy := other.logSpread(after)
	return math.Hypot(dx*qx, dy*qy)
}

// changeOf returns a change in percent from a difference of logarithms and half the width of its interval.
func changeOf(v, half float64) Interval {
	return Interval{(math.Exp(v) - 1) * 100, (math.Exp(v-half) - 1) * 100, (math.Exp(v+half) - 1) * 100}
}

// DifferenceInDifferences returns the change of a ratio in percent, beside that of another server that was not changed.
// The days of the two servers are the same ones; what moves both at once, such as a busy season, cancels.
func (b Bootstrap) DifferenceInDifferences(before, after, otherBefore, otherAfter Pairs) (Interval, error) {
	for _, p := range []Pairs{before, after, otherBefore, otherAfter} {
		if err := p.check(); err != nil {
			return Interval{}, err
		}
		if p.Ratio() <= 0 {
			return Interval{}, errors.New("no change of a ratio that is 0")
		}
	}
	if len(before.Amount) != len(otherBefore.Amount) || len(after.Amount) != len(otherAfter.Amount) {
		return Interval{}, fmt.Errorf("days of the two servers are not the same: %d and %d before, %d and %d after",
			len(before.Amount), len(otherBefore.Amount), len(after.Amount), len(otherAfter.Amount))
	}
	v := math.Log(after.Ratio()/before.Ratio()) - math.Log(otherAfter.Ratio()/otherBefore.Ratio())
	half := math.Hypot(b.pairedSpread(before, otherBefore), b.pairedSpread(after, otherAfter))
	return changeOf(v, half), nil
}

// pairedSpread returns half the width of the interval of the logarithm of the quotient of two ratios on the same days.
func (b Bootstrap) pairedSpread(p, q Pairs) float64 {
	n := len(p.Amount)
	x, y := p.deviations(), q.deviations()
	sx, sy := 0.0, 0.0
	for i := range n {
		sx, sy = sx+p.Amount[i], sy+q.Amount[i]
	}
	for i := range x {
		x[i] = x[i]/sx - y[i]/sy
	}
	block := BlockLength(x)
	return critical(float64(block)/float64(n)) * b.deviation(n, block, func(index []int) float64 {
		return math.Log(p.ratioOf(index) / q.ratioOf(index))
	})
}
