package run

// Search finds the largest good number, if all numbers below a good one are good. It doubles the number until one is
// bad, and then bisects. Its answers can be measurements, because it never tries a number twice.
type Search struct {
	// Least and Most are the bounds; Precision is the permitted error of the result (at least 1).
	Least, Most, Precision int

	good, bad int // 0 if none is known yet
}

// First returns the first number to try.
func (s *Search) First() int { return s.Least }

// Next records the result for a number and returns the next one to try, 0 at the end of the search.
func (s *Search) Next(n int, good bool) int {
	if good {
		s.good = max(s.good, n)
	} else if s.bad == 0 || n < s.bad {
		s.bad = n
	}
	switch {
	case s.bad == 0 && s.good >= s.Most:
		return 0
	case s.bad == 0:
		return min(2*s.good, s.Most)
	case s.bad-s.good <= max(s.Precision, 1):
		return 0
	}
	return s.good + (s.bad-s.good)/2
}

// Found returns the largest good number, 0 for none; capped means that no number up to Most was bad.
func (s *Search) Found() (n int, capped bool) { return s.good, s.bad == 0 }
