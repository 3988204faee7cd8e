package sim

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"doublet/bus/memory"
	"doublet/calendar"
	"doublet/calendar/itip"
	"doublet/env"
	"doublet/groupware"
	"doublet/note"
	"doublet/scheduling"
	"doublet/store/layout"
	"doublet/test/long"
)

// meeting is an event of the model: the state that its organizer has seen acknowledged last.
type meeting struct {
	uid       string
	organizer *citizen
	with      []*citizen // people and rooms
	slot      int
	title     int
	gone      bool
	promise
	// tried has every title and slot that was ever written, and torn is set if the last write failed or was made where
	// the mail file had two homes: then any of them may stand.
	tried map[string]bool
	torn  bool
}

func (m *meeting) state() string { return fmt.Sprintf("title %d, slot %d", m.title, m.slot) }

// diary is the model of all meetings.
type diary struct {
	*world
	people, rooms []*citizen
	list          []*meeting
}

// slots is the number of the times at which meetings take place. There are few, so that rooms are taken.
const slots = 4

func slotTime(slot int) time.Time {
	return env.TestStart.Truncate(24*time.Hour).AddDate(0, 1, slot)
}

// text prints a meeting as a program of the organizer does that knows no answers.
func (m *meeting) text() string {
	at := slotTime(m.slot)
	s := "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:x\r\nBEGIN:VEVENT\r\nUID:" + m.uid +
		"\r\nDTSTAMP:20260101T000000Z\r\nDTSTART:" + at.Format("20060102T150405Z") + "\r\nDTEND:" +
		at.Add(time.Hour).Format("20060102T150405Z") + "\r\nSUMMARY:" + fmt.Sprint(m.title) +
		"\r\nORGANIZER:mailto:" + m.organizer.address() + "\r\n"
	for _, c := range m.with {
		s += "ATTENDEE:mailto:" + c.address() + "\r\n"
	}
	return s + "END:VEVENT\r\nEND:VCALENDAR\r\n"
}

// at returns a server that leads the mail file of a person, nil if there is none: doors carry people there.
func (d *diary) at(c *citizen) *server {
	homes := slices.DeleteFunc(d.homes(c.box), func(s *server) bool { return s.office == nil })
	if len(homes) == 0 {
		return nil
	}
	return pick(d.world, homes)
}

// file opens the calendar of a person at a server.
func (d *diary) file(s *server, c *citizen) *groupware.File {
	who, err := s.dir.Names.WhoOf(d.ctx, c.id)
	d.must(err, "rights of "+c.name)
	return s.office.groupware.File(who, c.box.id)
}

// entries returns the entries of a person or a room with a UID.
func (d *diary) entries(s *server, c *citizen, uid string) []groupware.Placed {
	list, err := s.office.groupware.File(note.System, c.box.id).ByUID(d.ctx, uid)
	d.must(err, "read "+uid+" of "+c.name)
	return list
}

func (d *diary) some(list []*citizen, n int) (out []*citizen) {
	for _, i := range d.rng.Perm(len(list))[:n] {
		out = append(out, list[i])
	}
	return out
}

// create lets somebody invite others, and mostly a room.
func (d *diary) create() {
	o := pick(d.world, d.people)
	m := &meeting{uid: fmt.Sprint("m", len(d.list)+1), organizer: o, slot: d.rng.IntN(slots), tried: map[string]bool{}}
	d.invite(m)
	if d.write(m, *m) {
		d.list = append(d.list, m)
	}
}

// invite chooses the attendees of a meeting.
func (d *diary) invite(m *meeting) {
	m.with = nil
	for _, c := range d.some(d.people, d.rng.IntN(len(d.people))) {
		if c != m.organizer {
			m.with = append(m.with, c)
		}
	}
	if len(m.with) == 0 || d.chance(70) {
		m.with = append(m.with, pick(d.world, d.rooms))
	}
}

// write writes the next state of a meeting, or removes it. It reports whether somebody tried.
func (d *diary) write(m *meeting, next meeting) bool {
	s := d.at(m.organizer)
	if s != nil {
		d.writeAt(s, m, next)
	}
	return s != nil
}

// writeAt writes the next state of a meeting at a server.
func (d *diary) writeAt(s *server, m *meeting, next meeting) {
	if len(d.homes(m.organizer.box)) > 1 {
		m.torn = true
	}
	p := &promise{}
	t := &scheduling.Target{File: d.file(s, m.organizer), Owner: m.organizer.id,
		Place: groupware.Place{Collection: groupware.DefaultCalendar, Name: m.uid + ".ics"}}
	err := d.users.try(s, layout.AckCluster, p, func() error {
		if next.gone {
			return s.office.sched.Remove(d.ctx, t)
		}
		_, err := s.office.sched.Put(d.ctx, t, []byte(next.text()))
		return err
	})
	d.logf("%s writes %s at %s: %s, with %s, gone %v: %v, confirmed %v", m.organizer.name, m.uid, s.name,
		next.state(), names(next.with), next.gone, err, p.confirmed)
	m.tried[next.state()] = true
	m.torn = m.torn || err != nil || !p.confirmed
	if err == nil {
		m.with, m.slot, m.title, m.gone, m.promise = next.with, next.slot, next.title, m.gone || next.gone, *p
	}
}

func names(list []*citizen) string {
	var out []string
	for _, c := range list {
		out = append(out, c.name)
	}
	return strings.Join(out, " ")
}

// change lets an organizer change, move or remove a meeting.
func (d *diary) change() {
	if len(d.list) == 0 {
		return
	}
	m := pick(d.world, d.list)
	if m.gone {
		return
	}
	next := *m
	switch d.rng.IntN(7) {
	case 0, 1:
		next.title++
	case 2, 3, 4:
		next.slot = d.rng.IntN(slots)
	case 5:
		d.invite(&next)
	case 6:
		next.gone = true
	}
	d.write(m, next)
}

// answer lets an attendee answer an invitation.
func (d *diary) answer() {
	if len(d.list) == 0 {
		return
	}
	m, c := pick(d.world, d.list), pick(d.world, d.people)
	s := d.at(c)
	if s == nil || c == m.organizer {
		return
	}
	list := d.entries(s, c, m.uid)
	if len(list) == 0 {
		return
	}
	text := strings.ReplaceAll(string(list[0].Text), "\r\n ", "")
	lines := strings.Split(text, "\r\n")
	says := []string{"ACCEPTED", "DECLINED", "TENTATIVE"}[d.rng.IntN(3)]
	for i, l := range lines {
		if strings.HasPrefix(l, "ATTENDEE") && strings.HasSuffix(l, ":mailto:"+c.address()) {
			lines[i] = "ATTENDEE;PARTSTAT=" + says + ":mailto:" + c.address()
		}
	}
	_, err := s.office.sched.Put(d.ctx, &scheduling.Target{File: d.file(s, c), Owner: c.id, Place: list[0].Place,
		Condition: groupware.Condition{ETag: list[0].ETag}}, []byte(strings.Join(lines, "\r\n")))
	d.logf("%s answers %s at %s: %s: %v", c.name, m.uid, s.name, says, err)
}

// work performs up to two random actions of people.
func (d *diary) work() {
	for range d.between(0, 2) {
		switch n := d.rng.IntN(10); {
		case n < 3:
			d.create()
		case n < 6:
			d.change()
		default:
			d.answer()
		}
	}
}

// booking is one entry of a calendar, as the comparison at the end sees it.
type booking struct {
	title, start string
	cancelled    bool
	answers      map[string]string // by address
}

func (d *diary) read(e *groupware.Placed) booking {
	o, err := calendar.ReadObject(e.Text)
	d.must(err, "read an entry")
	b := booking{title: o.Parts[0].Text("SUMMARY"), start: o.Parts[0].Text("DTSTART"),
		cancelled: o.Parts[0].Text("STATUS") == "CANCELLED", answers: map[string]string{}}
	for _, a := range itip.Attendees(o.Parts) {
		b.answers[a] = itip.Status(o, func(x string) bool { return x == a })
	}
	return b
}

// pending returns what the offices still have to do, "" if nothing.
func (d *diary) pending() string {
	for _, s := range d.up() {
		list, _, err := s.office.mail.Queue.List(d.ctx, 0, "")
		d.must(err, "list the queue")
		if len(list) > 0 {
			return fmt.Sprintf("%d messages wait at %s", len(list), s.name)
		}
	}
	for _, m := range d.list {
		if why := d.disagree(m); why != "" {
			return m.uid + ": " + why
		}
	}
	return d.bookedTwice()
}

// bookedTwice returns a time at which a room has accepted two meetings, "" if there is none.
func (d *diary) bookedTwice() string {
	for _, r := range d.rooms {
		taken := map[string]string{}
		for _, m := range d.list {
			b, wrong := d.one(r, m.uid)
			if wrong != "" {
				return m.uid + ": " + wrong
			}
			if b == nil || b.cancelled || b.answers[r.address()] != "ACCEPTED" {
				continue
			}
			if other := taken[b.start]; other != "" {
				return fmt.Sprintf("%s is booked twice at %s: %s and %s", r.name, b.start, other, m.uid)
			}
			taken[b.start] = m.uid
		}
	}
	return ""
}

// one returns the entry of a person or a room with the UID of a meeting, nil for none.
func (d *diary) one(c *citizen, uid string) (*booking, string) {
	list := d.entries(d.homes(c.box)[0], c, uid)
	if len(list) > 1 {
		return nil, c.name + " has it twice"
	}
	if len(list) == 0 {
		return nil, ""
	}
	b := d.read(&list[0])
	return &b, ""
}

// disagree compares the calendars of all who may know of a meeting with that of the organizer.
func (d *diary) disagree(m *meeting) string {
	own, wrong := d.one(m.organizer, m.uid)
	if wrong != "" {
		return wrong
	}
	for _, c := range slices.Concat(d.people, d.rooms) {
		if c == m.organizer {
			continue
		}
		theirs, wrong := d.one(c, m.uid)
		if wrong == "" {
			wrong = compare(own, theirs, c)
		}
		if wrong != "" {
			return wrong
		}
	}
	return ""
}

// compare compares the entry of the organizer with that of an attendee.
func compare(own, theirs *booking, c *citizen) string {
	said, invited := "", false
	if own != nil {
		said, invited = own.answers[c.address()], true
		if _, ok := own.answers[c.address()]; !ok {
			invited = false
		}
	}
	switch {
	case !invited && theirs != nil && !theirs.cancelled:
		return c.name + " is not invited, and has it"
	case !invited:
		return ""
	case c.room && said == "NEEDS-ACTION":
		return fmt.Sprintf("%s has not decided: it has %+v, the organizer %+v", c.name, theirs, own)
	case theirs == nil && said != "DECLINED":
		return fmt.Sprintf("%s is invited (%s), and has nothing", c.name, said)
	case theirs == nil || c.room && said == "DECLINED":
		return ""
	case theirs.cancelled, theirs.title != own.title, theirs.start != own.start:
		return fmt.Sprintf("%s has %+v, the organizer %+v", c.name, theirs, own)
	case theirs.answers[c.address()] != said:
		return fmt.Sprintf("%s says %s, the organizer sees %s", c.name, theirs.answers[c.address()], said)
	}
	return ""
}

// verify checks the promises at the end.
func (d *diary) verify() {
	for _, m := range d.list {
		b, wrong := d.one(m.organizer, m.uid)
		if wrong != "" {
			d.failf("%s: %s", m.uid, wrong)
		}
		switch {
		case m.gone && b != nil && !m.torn:
			d.failf("%s is back", m.uid)
		case b == nil && !m.gone && m.holds() && !m.torn:
			d.failf("%s is lost: written at %s, confirmed %v", m.uid, m.at.name, m.confirmed)
		case b == nil:
			continue
		}
		if got := d.stateOf(b); got != m.state() && (!m.torn || !m.tried[got]) {
			d.failf("%s of %s is %s, acknowledged was %s", m.uid, m.organizer.name, got, m.state())
		}
	}
}

func (d *diary) stateOf(b *booking) string {
	for slot := range slots {
		if b.start == slotTime(slot).Format("20060102T150405Z") {
			return fmt.Sprintf("title %s, slot %d", b.title, slot)
		}
	}
	return "at another time"
}

// offices runs fn in a world of servers with offices.
func offices(t *testing.T, w *world, people, rooms int, fn func(d *diary)) {
	t.Helper()
	w.offices = true
	var err error
	func() {
		defer func() {
			if r := recover(); r != nil {
				f, ok := r.(failure)
				if !ok {
					panic(r)
				}
				err = errors.New(f.text)
			}
		}()
		w.net = memory.New(&env.Env{Clock: worldClock{w}}, w.faults.fate)
		w.form()
		list := w.settle(people, rooms)
		fn(&diary{world: w, people: list[:people], rooms: list[people:]})
	}()
	w.end(err != nil)
	if err != nil {
		t.Fatalf("seed %d: %v\n%v", w.Seed, err, strings.Join(w.log[max(0, len(w.log)-100):], "\n"))
	}
}

// TestBookingsCalm lets people invite each other and book rooms while nothing fails.
func TestBookingsCalm(t *testing.T) {
	t.Parallel()
	for seed := range uint64(long.Pick(2, 4)) {
		offices(t, alone(seed+1, 3), 4, 2, func(d *diary) { d.live(150, func() {}) })
	}
}

// live runs the world for some ticks, with what happens, and verifies it when it is quiet.
func (d *diary) live(ticks int, happens func()) {
	for range ticks {
		d.advance(100 * time.Millisecond)
		happens()
		d.work()
		d.drive()
	}
	d.settleDown()
	d.wait("the calendars agree", 300, d.pending)
	d.verify()
	seen := map[string]int{}
	for _, m := range d.list {
		for _, c := range m.with {
			if b, _ := d.one(m.organizer, m.uid); b != nil && c.room {
				seen[b.answers[c.address()]]++
			}
		}
	}
	d.logf("%d meetings, rooms say %v", len(d.list), seen)
	if seen["ACCEPTED"] == 0 || seen["DECLINED"] == 0 {
		d.failf("%d meetings, rooms say %v", len(d.list), seen)
	}
}

// TestBookingsLoss does the same while the network loses, repeats and delays messages.
func TestBookingsLoss(t *testing.T) {
	t.Parallel()
	for seed := range uint64(long.Pick(2, 4)) {
		offices(t, alone(seed+1, 3), 4, 2, func(d *diary) {
			d.faults.loss = 5
			d.live(200, func() {})
		})
	}
}

// TestBookingsCrash does the same while servers crash.
func TestBookingsCrash(t *testing.T) {
	t.Parallel()
	for seed := range uint64(long.Pick(2, 4)) {
		offices(t, alone(seed+1, 3), 4, 2, func(d *diary) {
			d.live(300, func() {
				d.faults.relieve()
				if d.chance(2) {
					d.faults.crashOne()
				}
			})
		})
	}
}

// TestBookingsSplit does the same while the network is cut.
func TestBookingsSplit(t *testing.T) {
	t.Parallel()
	for seed := range uint64(long.Pick(2, 4)) {
		offices(t, alone(seed+1, 3), 4, 2, func(d *diary) {
			d.live(300, func() {
				switch d.rng.IntN(60) {
				case 0:
					d.faults.cutSome()
				case 1:
					d.faults.healAll()
				}
			})
		})
	}
}
