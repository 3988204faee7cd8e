package measure

import (
	"time"

	"doublet/bench/record"
	"doublet/bench/result"
	"doublet/bench/run"
)

// Search searches for the largest number of users that the server serves well.
type Search struct {
	run.Search
	// P99 is the longest p99 of a good step, 0 for any.
	P99 time.Duration

	reason string // the reason for an early end of the search
}

func (s *Search) next(step record.Step, all *record.Total) int {
	switch step.Outcome {
	case record.DriverBound, record.Interrupted:
		s.reason = step.Reason
		return 0
	}
	return s.Next(step.Users, s.good(step, all))
}

// good reports whether the server served a step well: the step was measured, that is, it was steady, its average was
// within the workload's limit, and few of its actions failed; and its p99 is within P99.
func (s *Search) good(step record.Step, all *record.Total) bool {
	return step.Outcome == record.Measured && (s.P99 == 0 || all.Latency.Percentile(99) <= s.P99)
}

// most returns the result of the search.
func (s *Search) most() *result.Most {
	n, capped := s.Found()
	return &result.Most{Users: n, AtLeast: capped || s.reason != "", Reason: s.reason}
}
