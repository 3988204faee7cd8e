package scheduling

import "doublet/stat"

// counters are the statistics of the room.
type counters struct {
	delivered, mailed, received, refused, searches *stat.Counter
}

func newCounters(t *stat.Tree) counters {
	return counters{
		delivered: t.Counter("Sched.Delivered", "scheduling messages applied in the commit of their change"),
		mailed:    t.Counter("Sched.Mailed", "scheduling messages sent by mail (iMIP)"),
		received:  t.Counter("Sched.Received", "scheduling messages from mail that were applied to a calendar"),
		refused:   t.Counter("Sched.Refused", "scheduling messages from mail without effect: stale, forged or unknown"),
		searches:  t.Counter("Sched.FreeTimeSearches", "searches for free time"),
	}
}
