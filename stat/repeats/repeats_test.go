package repeats

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"doublet/test/long"
)

// TestCoverage simulates measurements with a known quotient, repeated as often as people repeat them: the interval must
// cover it as often as it claims, and must not be much wider than that.
func TestCoverage(t *testing.T) {
	t.Parallel()
	n := long.Pick(2000, 20000)
	chance := 4 * math.Sqrt(0.95*0.05/float64(n))
	for _, c := range [][2]int{{1, 2}, {2, 1}, {1, 3}, {3, 1}, {1, 5}, {5, 1}, {2, 2}, {3, 3}, {5, 5}, {2, 5},
		{10, 3}} {
		r := rand.New(rand.NewPCG(uint64(c[0]), uint64(c[1])))
		hits := 0
		for range n {
			var sides [2][]float64
			for k, mean := range []float64{50, 60} {
				for range c[k] {
					sides[k] = append(sides[k], mean*(1+0.02*r.NormFloat64()))
				}
			}
			if _, low, high := Quotient(sides[0], sides[1]); low <= 1.2 && high >= 1.2 {
				hits++
			}
		}
		share := float64(hits) / float64(n)
		t.Logf("%d and %d repeats: %.3f", c[0], c[1], share)
		// Welch's approximation is off by 2 to 3 points at so few values: too wide for two and two, too narrow where
		// one side has many more than the other.
		if share < 0.93-chance || share > 0.98+chance {
			t.Errorf("%d and %d repeats: the interval covers %.3f, want 0.93 to 0.98", c[0], c[1], share)
		}
	}
}

// TestMean checks the interval of a mean against the table of Student's t, and how often it covers the true mean.
func TestMean(t *testing.T) {
	t.Parallel()
	// The mean is 10, its error 1/√3; t is 4.3027 with 2 degrees of freedom.
	mean, low, high := Mean([]float64{9, 10, 11})
	if half := 4.3027 / math.Sqrt(3); mean != 10 || math.Abs(high-10-half) > 1e-3 || math.Abs(10-low-half) > 1e-3 {
		t.Errorf("%g, %g to %g", mean, low, high)
	}
	if mean, low, high := Mean([]float64{10, 12}); mean != 11 || low != 0 || high < 20 {
		t.Errorf("an interval over 0: %g, %g to %g", mean, low, high)
	}
	if mean, low, high := Mean([]float64{5, 5}); mean != 5 || low != 5 || high != 5 {
		t.Errorf("without any noise: %g, %g to %g", mean, low, high)
	}
	if mean, low, high := Mean([]float64{5}); mean != 5 || !math.IsNaN(low) || !math.IsNaN(high) {
		t.Errorf("one value: %g, %g to %g", mean, low, high)
	}
	n := long.Pick(2000, 20000)
	for _, repeats := range []int{2, 3, 5} {
		r := rand.New(rand.NewPCG(1, uint64(repeats)))
		hits := 0
		for range n {
			values := make([]float64, repeats)
			for k := range values {
				values[k] = 50 + r.NormFloat64()
			}
			if _, low, high := Mean(values); low <= 50 && high >= 50 {
				hits++
			}
		}
		share := float64(hits) / float64(n)
		if math.Abs(share-Confidence) > 4*math.Sqrt(0.95*0.05/float64(n)) {
			t.Errorf("%d repeats: the interval covers %.3f", repeats, share)
		}
	}
}

// TestQuotient checks an interval that can be computed by hand, and what has none.
func TestQuotient(t *testing.T) {
	t.Parallel()
	// Means 10 and 20, relative deviations 0.1 and 0.05 in 3 values each: Welch's degrees of freedom are 2.94.
	ratio, low, high := Quotient([]float64{9, 10, 11}, []float64{19, 20, 21})
	square := 0.01/3 + 0.0025/3
	freedom := square * square / (0.01*0.01/9/2 + 0.0025*0.0025/9/2)
	if ratio != 2 || math.Abs(freedom-2.9412) > 1e-4 || math.Abs(high-ratio-2*3.2182*math.Sqrt(square)) > 1e-3 ||
		math.Abs(ratio-low-(high-ratio)) > 1e-12 {
		t.Errorf("%g, %g to %g, %g degrees", ratio, low, high, freedom)
	}
	if _, low, high := Quotient([]float64{5, 5}, []float64{6, 6}); low != 1.2 || high != 1.2 {
		t.Errorf("without any noise: %g to %g", low, high)
	}
	for _, c := range [][2][]float64{{{1}, {2}}, {{0, 0}, {1, 2}}, {{1, 2}, {0, 0}}} {
		if _, low, high := Quotient(c[0], c[1]); !math.IsNaN(low) || !math.IsNaN(high) {
			t.Errorf("%s: %g to %g", fmt.Sprint(c), low, high)
		}
	}
}
