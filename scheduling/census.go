package scheduling

import (
	"context"

	"doublet/note"
	"doublet/stat"
)

// Census counts the calendars that this server leads, for the statistics Calendar.Total as Domino has them.
type Census struct {
	s                                                *Service
	users, resources, owners, appts, reserved, times *stat.Gauge
}

// NewCensus returns the Census. It has one user, the task Sched.
func (s *Service) NewCensus(t *stat.Tree) *Census {
	return &Census{s: s,
		users:     t.Gauge("Calendar.Total.Users", "people whose calendars this server leads"),
		resources: t.Gauge("Calendar.Total.Resources", "rooms and resources whose calendars this server leads"),
		owners:    t.Gauge("Calendar.Total.All.Users.Resources", "people, rooms and resources together"),
		appts:     t.Gauge("Calendar.Total.Appts", "events in the calendars of people"),
		reserved:  t.Gauge("Calendar.Total.Reservations", "events in the calendars of rooms and resources"),
		times:     t.Gauge("Calendar.Total.All.Appts.Reservations", "events in all of these calendars"),
	}
}

// Run counts again. A series is one event.
func (x *Census) Run(ctx context.Context) error {
	rooms := map[note.DatabaseID]bool{}
	for after, more := "", true; more; {
		list, next, err := x.s.dir.MailIns.List(ctx, "", 200, after)
		if err != nil {
			return err
		}
		for i := range list {
			if r := &list[i]; r.Resource.Kind != "" && r.Removed.IsZero() {
				rooms[r.Database] = true
			}
		}
		after, more = next, next != ""
	}
	var owners, events [2]int64 // of people, of rooms
	err := x.s.groupware.EventCounts(ctx, func(db note.DatabaseID, n int) {
		kind := 0
		if rooms[db] {
			kind = 1
		}
		owners[kind]++
		events[kind] += int64(n)
	})
	if err != nil {
		return err
	}
	x.users.Set(owners[0])
	x.resources.Set(owners[1])
	x.owners.Set(owners[0] + owners[1])
	x.appts.Set(events[0])
	x.reserved.Set(events[1])
	x.times.Set(events[0] + events[1])
	return nil
}
