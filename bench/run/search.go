package run

import "slices"

// Search finds the largest good number, if all numbers below a good one are good. It doubles the number until one is
// bad, and then bisects. Its answers are measurements, which vary, so that it tries the number that it finds once more;
// if that is bad, it goes on below.
type Search struct {
	// Least and Most are the bounds; Precision is the permitted error of the result (at least 1).
	Least, Most, Precision int

	good      []int // ascending
	bad       int   // 0 if none is known yet
	confirmed int   // the number that was good twice, 0 for none
}

// First returns the first number to try.
func (s *Search) First() int { return s.Least }

// Next records the result for a number and returns the next one to try, 0 at the end of the search.
func (s *Search) Next(n int, good bool) int {
	at, again := slices.BinarySearch(s.good, n)
	switch {
	case good && again:
		s.confirmed = n
	case good:
		s.good = slices.Insert(s.good, at, n)
	default:
		s.good = s.good[:at]
		s.bad = n
	}
	found, capped := s.Found()
	switch {
	case capped && found < s.Most && found > 0:
		return min(2*found, s.Most)
	case !capped && s.bad-found > max(s.Precision, 1):
		return found + (s.bad-found)/2
	case found > 0 && s.confirmed != found:
		return found
	}
	return 0
}

// Found returns the largest good number, 0 for none; capped means that no number up to Most was bad.
func (s *Search) Found() (n int, capped bool) {
	if len(s.good) > 0 {
		n = s.good[len(s.good)-1]
	}
	return n, s.bad == 0
}
