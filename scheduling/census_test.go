package scheduling

import (
	"testing"

	"doublet/directory"
)

// TestCensus counts the calendars of people and of rooms, and their events, and counts anew what has changed.
func TestCensus(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alice", "bob")
	w.room("blue", directory.ResourceFields{})
	x := w.sched.NewCensus(w.tree)
	counted := func() (out [6]float64) {
		w.ok(x.Run(bg))
		for i, name := range []string{"Users", "Resources", "All.Users.Resources", "Appts", "Reservations",
			"All.Appts.Reservations"} {
			for _, e := range w.tree.Snapshot("Calendar.Total." + name) {
				out[i] = e.Value
			}
		}
		return out
	}
	// A room has a calendar from its first booking on.
	if got, want := counted(), [6]float64{2, 0, 2, 0, 0, 0}; got != want {
		t.Errorf("%v, want %v", got, want)
	}
	w.put("alice", "a.ics", meeting("a", "RRULE:FREQ=DAILY;COUNT=3\n", "bob", "blue"))
	w.put("alice", "b.ics", meeting("b", "", "alice"))
	if got, want := counted(), [6]float64{2, 1, 3, 3, 1, 4}; got != want {
		t.Errorf("%v, want %v", got, want)
	}
	w.tick()
	w.ok(w.sched.Remove(bg, w.target("alice", "b.ics")))
	if got, want := counted(), [6]float64{2, 1, 3, 2, 1, 3}; got != want {
		t.Errorf("%v, want %v", got, want)
	}
}
