package scheduling

import "doublet/stat"

// counters are the statistics of the room.
type counters struct {
	delivered, mailed, received, refused, searches, alarms, reconciled, doubles *stat.Counter
	accepted, declined, pending                                                 *stat.Counter // bookings
}

func newCounters(t *stat.Tree) counters {
	return counters{
		delivered: t.Counter("Sched.Delivered", "scheduling messages applied in the commit of their change"),
		mailed:    t.Counter("Sched.Mailed", "scheduling messages sent by mail (iMIP)"),
		received:  t.Counter("Sched.Received", "scheduling messages from mail that were applied to a calendar"),
		refused:   t.Counter("Sched.Refused", "scheduling messages from mail without effect: stale, forged or unknown"),
		doubles: t.Counter("RnRMgr.Reservations.Doubles",
			"bookings that were declined because two primaries of a room had accepted bookings of one time"),
		reconciled: t.Counter("Sched.Reconciled",
			"events that were merged from several primaries' versions, or whose message was sent again"),
		accepted: t.Counter("RnRMgr.Reservations.Accepted", "bookings of rooms and resources that were accepted"),
		declined: t.Counter("RnRMgr.Reservations.Declined", "bookings of rooms and resources that were declined"),
		pending:  t.Counter("RnRMgr.Reservations.Pending", "bookings that were left to the owners of the resource"),
		alarms:   t.Counter("Calendar.AlarmsMailed", "alarms of events and tasks that were sent by mail"),
		searches: t.Counter("Sched.FreeTimeSearches", "searches for free time"),
	}
}

// booked counts the answer to a booking.
func (c *counters) booked(answer string) {
	switch answer {
	case "ACCEPTED":
		c.accepted.Inc()
	case "DECLINED":
		c.declined.Inc()
	default:
		c.pending.Inc()
	}
}
