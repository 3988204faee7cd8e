package measure

import (
	"testing"
	"time"

	"doublet/bench/record"
	"doublet/bench/run"
)

// TestGoodSteps checks which steps bench max accepts as good.
func TestGoodSteps(t *testing.T) {
	t.Parallel()
	total := func(latency time.Duration, n int, failed, missed uint64) *record.Total {
		t := &record.Total{Failed: failed, Missed: missed}
		for range n {
			t.Latency.Add(latency)
		}
		return t
	}
	for i, c := range []struct {
		outcome record.Outcome
		all     *record.Total
		good    bool
	}{
		{record.Measured, total(40*time.Millisecond, 1000, 5, 4), true},
		{record.Unsteady, total(40*time.Millisecond, 1000, 0, 0), false},
		{record.Discarded, total(40*time.Millisecond, 1000, 0, 0), false},
		{record.Measured, total(60*time.Millisecond, 1000, 0, 0), false},
	} {
		s := &Search{P99: 50 * time.Millisecond}
		if got := s.good(record.Step{Outcome: c.outcome}, c.all); got != c.good {
			t.Errorf("case %d: %v", i, got)
		}
	}
	s := &Search{Search: run.Search{Least: 10, Most: 100}}
	if n := s.next(record.Step{Users: 10, Outcome: record.DriverBound, Reason: "late"},
		total(time.Millisecond, 5, 0, 0)); n != 0 || s.most().Reason != "late" {
		t.Errorf("a driver that is the bottleneck is asked for %d more", n)
	}
}
