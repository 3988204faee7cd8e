package natsbus

import (
	"testing"
	"time"
)

// TestRenewalPauses checks that a failed renewal is retried after 1 s, with the wait doubling up to an hour, and that a
// success is not repeated within an hour, whatever the new certificate says.
func TestRenewalPauses(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC)
	now := at
	var r renewal
	if r.due(at.Add(-time.Nanosecond), at) {
		t.Error("it is due before its time")
	}
	if !r.due(now, at) {
		t.Fatal("it is not due at its time")
	}
	for i := range 40 {
		r.failures++
		want := min(time.Hour, time.Second<<min(i, 30))
		if now = now.Add(want - time.Nanosecond); r.due(now, at) {
			t.Errorf("failure %d: it is due before %s", i+1, want)
		}
		if now = now.Add(time.Nanosecond); !r.due(now, at) {
			t.Errorf("failure %d: it is not due after %s", i+1, want)
		}
	}
	r.failures = 0
	if r.due(now.Add(59*time.Minute), at) || !r.due(now.Add(time.Hour), at) {
		t.Error("the pause after a renewal is not an hour")
	}
}
