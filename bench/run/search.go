package run

// Search looks for the greatest number that is good, where what is good is so for all smaller ones: it doubles until one
// is bad, and then halves what lies between. Its answers may be measured ones, so that it never asks twice.
type Search struct {
	// Least and Most bound it; Precision is how near the answer must come (at least 1).
	Least, Most, Precision int

	good, bad int // 0 where there is none yet
}

// First is what to try first.
func (s *Search) First() int { return s.Least }

// Next takes what came of a number and returns the next one to try, 0 when it is found.
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

// Found is the greatest that was good, 0 for none; capped says that nothing bad was seen below Most.
func (s *Search) Found() (n int, capped bool) { return s.good, s.bad == 0 }
