package scheduling

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"doublet/calendar"
	"doublet/calendar/itip"
	"doublet/directory"
	"doublet/note"
	"doublet/test/long"
)

// room adds a room with a database of its own.
func (w *world) room(name string, r directory.ResourceFields) directory.MailIn {
	w.t.Helper()
	r.Kind = directory.ResourceRoom
	db, err := w.files.Make(bg, note.UNID{}, name, 0, 0)
	w.ok(err)
	m, err := w.dir.MailIns.Add(bg, note.System, directory.MailInFields{Name: name,
		InternetAddress: name + "@example.com", Database: db, Resource: r})
	w.ok(err)
	return m
}

// said returns the answer of an address in the calendar of a person.
func (w *world) said(name, uid, address string) string {
	w.t.Helper()
	o, _ := w.object(name, uid)
	return itip.Status(o, func(a string) bool { return a == address+"@example.com" })
}

// booked returns the times at which a room is booked.
func (w *world) booked(m directory.MailIn) int {
	w.t.Helper()
	list, err := w.group.File(note.System, m.Database).Busy(bg, "", time.Unix(0, 0), time.Unix(1<<32, 0))
	w.ok(err)
	return len(list)
}

// at moves a meeting to a day of January 2026.
func at(text string, day int) string {
	return strings.ReplaceAll(text, "20260105T", fmt.Sprintf("202601%02dT", day))
}

// TestRoom books a room: it accepts at once, declines what is taken, and is free again after a cancellation.
func TestRoom(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alice", "bob")
	m := w.room("blue", directory.ResourceFields{Hours: "08:00-18:00"})
	w.put("alice", "a.ics", meeting("a", "", "bob", "blue"))
	w.is(w.said("alice", "a", "blue"), "ACCEPTED")
	w.is(w.said("bob", "a", "blue"), "ACCEPTED")
	w.put("alice", "b.ics", meeting("b", "", "blue"))
	w.is(w.said("alice", "b", "blue"), "DECLINED")
	w.tick()
	w.put("alice", "b.ics", at(meeting("b", "", "blue"), 6))
	w.is(w.said("alice", "b", "blue"), "ACCEPTED")
	w.tick()
	w.put("alice", "b.ics", at(meeting("b", "", "blue"), 5)) // back onto the other one: the booking is lost
	w.is(w.said("alice", "b", "blue"), "DECLINED")
	if n := w.booked(m); n != 1 {
		t.Errorf("%d bookings, want 1", n)
	}
	w.tick()
	w.ok(w.sched.Remove(bg, w.target("alice", "a.ics")))
	w.put("alice", "b.ics", meeting("b", "LOCATION:x\n", "blue"))
	w.is(w.said("alice", "b", "blue"), "ACCEPTED")
	w.put("alice", "c.ics", strings.ReplaceAll(meeting("c", "", "blue"), "T100000Z", "T190000Z"))
	w.is(w.said("alice", "c", "blue"), "DECLINED") // outside of the hours
	w.put("alice", "d.ics", meeting("d", "RRULE:FREQ=DAILY\n", "blue"))
	w.is(w.said("alice", "d", "blue"), "DECLINED") // without end
	w.put("alice", "e.ics", at(meeting("e", "RRULE:FREQ=WEEKLY;COUNT=10\n", "blue"), 7))
	w.is(w.said("alice", "e", "blue"), "ACCEPTED")
	if n := w.booked(m); n != 11 {
		t.Errorf("%d bookings, want 11", n)
	}
}

// TestRoomFloating books a room at times without a time zone, which are on the clocks of the room.
func TestRoomFloating(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alice")
	m := w.room("blue", directory.ResourceFields{TimeZone: "Europe/Berlin", Hours: "08:00-18:00"})
	local := func(uid string) string {
		return strings.NewReplacer("090000Z", "090000", "100000Z", "100000").Replace(at(meeting(uid, "", "blue"), 6))
	}
	w.put("alice", "a.ics", local("a"))
	w.is(w.said("alice", "a", "blue"), "ACCEPTED")
	w.put("alice", "b.ics", local("b"))
	w.is(w.said("alice", "b", "blue"), "DECLINED")
	w.put("alice", "c.ics", at(meeting("c", "", "blue"), 6)) // an hour later in Berlin
	w.is(w.said("alice", "c", "blue"), "ACCEPTED")
	list, err := w.sched.Bookings(bg, &m, 10)
	w.ok(err)
	for i, at := range []int{8, 9} {
		if want := time.Date(2026, 1, 6, at, 0, 0, 0, time.UTC); !list[i].Start.Equal(want) {
			t.Errorf("booking %d starts at %v, want %v", i, list[i].Start, want)
		}
	}
}

// TestRoomOwners: only owners book, or they decide on the bookings of others.
func TestRoomOwners(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alice", "bob")
	owners := []string{w.people["bob"].ID.String()}
	w.room("red", directory.ResourceFields{Owners: owners})
	green := w.room("green", directory.ResourceFields{Owners: owners, Approval: true})
	w.put("alice", "a.ics", meeting("a", "", "red", "green"))
	w.is(w.said("alice", "a", "red"), "DECLINED")
	w.is(w.said("alice", "a", "green"), "TENTATIVE")
	w.put("bob", "b.ics", strings.ReplaceAll(meeting("b", "", "red", "green"), "alice@", "bob@"))
	w.is(w.said("bob", "b", "red"), "ACCEPTED")
	w.is(w.said("bob", "b", "green"), "DECLINED") // alice holds the time
	list, err := w.sched.Bookings(bg, &green, 10)
	if err != nil || len(list) != 1 || list[0].UID != "a" || list[0].Status != "TENTATIVE" {
		t.Fatalf("bookings %+v, %v", list, err)
	}
	w.tick()
	w.ok(w.sched.Decide(bg, &green, "a", false))
	w.is(w.said("alice", "a", "green"), "DECLINED")
	if n := w.booked(green); n != 0 {
		t.Errorf("%d bookings, want none", n)
	}
	if err := w.sched.Decide(bg, &green, "a", true); err == nil {
		t.Error("a decision was taken twice")
	}
}

// TestRoomRace books one room at one time many times at once: one booking wins.
func TestRoomRace(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alice", "bob")
	m := w.room("blue", directory.ResourceFields{})
	n := long.Pick(40, 200)
	var wait sync.WaitGroup
	errs := make([]error, n)
	for i := range n {
		name := []string{"alice", "bob"}[i%2]
		wait.Go(func() {
			uid := fmt.Sprint("m", i)
			_, errs[i] = w.sched.Put(bg, w.target(name, uid+".ics"),
				[]byte(strings.ReplaceAll(meeting(uid, "", "blue"), "alice@", name+"@")))
		})
	}
	wait.Wait()
	won := 0
	for i := range n {
		w.ok(errs[i])
		name := []string{"alice", "bob"}[i%2]
		switch s := w.said(name, fmt.Sprint("m", i), "blue"); s {
		case "ACCEPTED":
			won++
		case "DECLINED":
		default:
			t.Errorf("booking %d is %s", i, s)
		}
	}
	if won != 1 || w.booked(m) != 1 {
		t.Errorf("%d bookings won, the room has %d", won, w.booked(m))
	}
}

// arriveAt makes this server the home of a room, and delivers the mail that waits for it.
func (w *world) arriveAt(m directory.MailIn) {
	w.t.Helper()
	w.lead(m.Database)
	w.fix.Time.Advance(time.Hour)
	_, err := w.mail.Router.Route(bg)
	w.ok(err)
}

// TestDecideTaken lets an owner accept two bookings of one time that came by mail: the second one is taken.
func TestDecideTaken(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alice")
	m := w.room("blue", directory.ResourceFields{})
	w.ok(w.store.Share(bg, m.Database, 1))
	w.ok(w.store.Follow(bg, m.Database))
	w.put("alice", "a.ics", at(meeting("a", "", "blue"), 8))
	w.put("alice", "b.ics", at(meeting("b", "", "blue"), 8))
	w.arriveAt(m)
	w.ok(w.sched.Decide(bg, &m, "a", true))
	if err := w.sched.Decide(bg, &m, "b", true); !errors.Is(err, ErrTaken) {
		t.Errorf("the second booking: %v", err)
	}
	w.is(w.said("alice", "a", "blue"), "ACCEPTED")
	w.is(w.said("alice", "b", "blue"), "NEEDS-ACTION")
	w.ok(w.sched.Decide(bg, &m, "b", false))
	w.is(w.said("alice", "b", "blue"), "DECLINED")
	if n := w.booked(m); n != 1 {
		t.Errorf("%d bookings, want 1", n)
	}
}

// TestRoomAway: while the home of a room is away its bookings wait; the home decides in the order of their arrival.
func TestRoomAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alice", "bob")
	m := w.room("blue", directory.ResourceFields{})
	w.ok(w.store.Share(bg, m.Database, 1))
	w.ok(w.store.Follow(bg, m.Database))
	w.put("alice", "a.ics", at(meeting("a", "", "blue"), 8))
	w.is(w.said("alice", "a", "blue"), "NEEDS-ACTION")
	w.tick()
	w.put("bob", "b.ics", strings.ReplaceAll(at(meeting("b", "", "blue"), 8), "alice@", "bob@"))
	r := w.sched.NewReserver()
	w.ok(r.Run(bg))
	w.is(w.said("alice", "a", "blue"), "NEEDS-ACTION")
	w.arriveAt(m)
	w.ok(r.Run(bg))
	a, b := w.said("alice", "a", "blue"), w.said("bob", "b", "blue")
	if a == b || a != "ACCEPTED" && a != "DECLINED" || b != "ACCEPTED" && b != "DECLINED" || w.booked(m) != 1 {
		t.Errorf("alice has %s, bob %s, the room %d bookings", a, b, w.booked(m))
	}
	w.ok(r.Run(bg))
	o, _ := w.object("alice", "a")
	if o.Kind != calendar.Event {
		t.Error("the event is gone")
	}
}
