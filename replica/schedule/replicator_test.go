package schedule

import (
	"testing"
	"time"
)

// TestWithin checks that a part of the day may include midnight.
func TestWithin(t *testing.T) {
	t.Parallel()
	at := func(h, m int) time.Time { return time.Date(2026, 1, 5, h, m, 0, 0, time.UTC) }
	for _, c := range []struct {
		now         time.Time
		from, until int
		want        bool
	}{
		{at(3, 0), 0, 0, true}, {at(9, 0), 9 * 60, 17 * 60, true}, {at(8, 59), 9 * 60, 17 * 60, false},
		{at(17, 0), 9 * 60, 17 * 60, false},
		{at(23, 0), 22 * 60, 6 * 60, true}, {at(5, 59), 22 * 60, 6 * 60, true}, {at(6, 0), 22 * 60, 6 * 60, false},
		{at(21, 59), 22 * 60, 6 * 60, false},
	} {
		if got := within(c.now, c.from, c.until); got != c.want {
			t.Errorf("%s within %d to %d: %v", c.now.Format("15:04"), c.from, c.until, got)
		}
	}
}
