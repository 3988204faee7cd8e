package run

import (
	"context"
	"testing"
	"time"

	"doublet/bench/drive"
	"doublet/bench/record"
)

func TestSearch(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ least, most, precision, limit, want, tries int }{
		{100, 10_000, 50, 1234, 1200, 10}, {100, 10_000, 1, 1234, 1234, 15}, {100, 1000, 10, 5000, 1000, 6},
		{100, 1000, 10, 40, 37, 6}, {100, 1000, 1, 0, 0, 9}, {1, 1, 1, 5, 1, 2},
	} {
		s := Search{Least: c.least, Most: c.most, Precision: c.precision}
		tries := 0
		asked := map[int]int{}
		for n := s.First(); n > 0; n = s.Next(n, n <= c.limit) {
			if tries++; n > c.most || asked[n] > 1 || tries > 30 {
				t.Fatalf("%+v asks for %d, its try %d", c, n, tries)
			}
			asked[n]++
		}
		if found, _ := s.Found(); found > 0 && asked[found] != 2 {
			t.Errorf("%+v: %d was measured %d times", c, found, asked[found])
		}
		if got, capped := s.Found(); got != c.want || tries > c.tries || capped != (c.limit >= c.most) {
			t.Errorf("%+v: found %d in %d tries, capped %v", c, got, tries, capped)
		}
	}
}

// TestSearchConfirms checks that a number that is bad the second time is not the result.
func TestSearchConfirms(t *testing.T) {
	t.Parallel()
	s := Search{Least: 100, Most: 1000, Precision: 10}
	seen := map[int]int{}
	for n := s.First(); n > 0; n = s.Next(n, n <= 400 && (n <= 350 || seen[n] == 1)) {
		seen[n]++
	}
	if n, _ := s.Found(); n < 340 || n > 350 || seen[n] != 2 {
		t.Errorf("found %d, measured %d times", n, seen[n])
	}
}

// TestNextStep checks a run that selects its steps by a search. The server takes 10 ms per active user, so at most 50
// users stay under half a second.
func TestNextStep(t *testing.T) {
	t.Parallel()
	search := Search{Least: 20, Most: 100, Precision: 5}
	active := 0
	f := &fake{delay: func(int) time.Duration { return time.Duration(active) * 10 * time.Millisecond }}
	run := simulate(t, f, func(p *Plan) {
		p.Steps, p.Window = []int{search.First()}, time.Minute
		p.Fresh = func(_ context.Context, users []drive.User) error { active = len(users); return nil }
		p.Next = func(s record.Step, all *record.Total) int {
			return search.Next(s.Users, s.Outcome == record.Measured &&
				all.Latency.Percentile(99) <= 500*time.Millisecond)
		}
	})
	if got, _ := search.Found(); got < 45 || got > 50 || len(run.Steps) < 4 {
		t.Errorf("found %d in %d steps", got, len(run.Steps))
	}
}
