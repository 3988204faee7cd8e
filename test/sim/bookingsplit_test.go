package sim

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"doublet/mailbox"
	"doublet/note"
	"doublet/test/long"
)

// said returns the answer of a room as the organizer sees it at a server, "" if that does not have the meeting.
func (d *diary) said(s *server, m *meeting, room *citizen) string {
	list := d.entries(s, m.organizer, m.uid)
	if len(list) == 0 {
		return ""
	}
	return d.read(&list[0]).answers[room.address()]
}

// book lets a person whose mail file is led on a side of a split book a room there.
func (d *diary) book(side []*server, room *citizen) (*meeting, *server) {
	for _, p := range d.people {
		for _, s := range d.homes(p.box) {
			if slices.Contains(side, s) {
				m := &meeting{uid: fmt.Sprint("m", len(d.list)+1), organizer: p, with: []*citizen{room},
					tried: map[string]bool{}}
				d.list = append(d.list, m)
				d.writeAt(s, m, *m)
				return m, s
			}
		}
	}
	d.failf("nobody is served on one side")
	return nil, nil
}

// notices returns how many mails about double bookings a person has.
func (d *diary) notices(c *citizen) (n int) {
	s := d.homes(c.box)[0]
	v, _, err := s.mail.File(note.System, c.box.id).Open(d.ctx, mailbox.Inbox, true)
	d.must(err, "open INBOX")
	all := mailbox.Set{{Start: 1, Stop: max(1, v.UIDNext())}}
	d.must(v.Fetch(d.ctx, all, true, mailbox.FetchOptions{}, func(m *mailbox.Message) (bool, error) {
		e, err := m.Envelope()
		if strings.Contains(string(e), "Booked twice") {
			n++
		}
		return false, err
	}, func() error { return nil }), "fetch")
	return n
}

// pass runs the world for some ticks.
func (d *diary) pass(ticks int) {
	for range ticks {
		d.advance(100 * time.Millisecond)
		d.drive()
	}
}

// places returns the home of a room, the server with the other replica, and the third one.
func (d *diary) places(room *citizen) (home, mate, other *server) {
	home = d.homes(room.box)[0]
	for _, s := range d.servers {
		switch {
		case s == home:
		case slices.Contains(d.holders(room.box), s):
			mate = s
		default:
			other = s
		}
	}
	return home, mate, other
}

// TestBookedTwice books a room on both sides of a split that both have its database. Each side accepts. When the
// network is whole, one booking stands, the other is declined, and each organizer has one mail about it.
func TestBookedTwice(t *testing.T) {
	t.Parallel()
	for seed := range uint64(long.Pick(2, 6)) {
		offices(t, alone(seed+1, 3), 6, 1, func(d *diary) {
			room := d.rooms[0]
			home, mate, other := d.places(room)
			home.isolate(true)
			d.wait("both sides have a primary", 60, func() string {
				if len(d.homes(room.box)) < len(d.holders(room.box)) {
					return room.name
				}
				return ""
			})
			d.pass(50)
			a, atA := d.book([]*server{home}, room)
			d.pass(20)
			b, atB := d.book([]*server{mate, other}, room)
			d.pass(80)
			if x, y := d.said(atA, a, room), d.said(atB, b, room); x != "ACCEPTED" || y != "ACCEPTED" {
				d.failf("during the split the room says %s and %s", x, y)
			}
			d.settleDown()
			d.wait("the calendars agree", 300, d.pending)
			x, y := d.said(d.at(a.organizer), a, room), d.said(d.at(b.organizer), b, room)
			if x == y || x != "ACCEPTED" && y != "ACCEPTED" || x != "DECLINED" && y != "DECLINED" {
				d.failf("after the split the room says %s and %s", x, y)
			}
			want := 1
			if a.organizer == b.organizer {
				want = 2
			}
			if i, k := d.notices(a.organizer), d.notices(b.organizer); i != want || k != want {
				d.failf("%s has %d mails, %s has %d, want %d", a.organizer.name, i, b.organizer.name, k, want)
			}
		})
	}
}

// TestBookingWaits books a room on the side of a split that does not have its database: the organizer sees that the
// booking waits. The other side books the same time. When the network is whole, one booking is accepted.
func TestBookingWaits(t *testing.T) {
	t.Parallel()
	for seed := range uint64(long.Pick(2, 6)) {
		offices(t, alone(seed+1, 3), 6, 1, func(d *diary) {
			room := d.rooms[0]
			home, mate, other := d.places(room)
			other.isolate(true)
			d.pass(100)
			a, at := d.book([]*server{other}, room)
			d.pass(50)
			if said := d.said(at, a, room); said != "NEEDS-ACTION" {
				d.failf("without the room's home the organizer sees %s", said)
			}
			b, at := d.book([]*server{home, mate}, room)
			d.pass(50)
			if said := d.said(at, b, room); said != "ACCEPTED" {
				d.failf("with the room's home the organizer sees %s", said)
			}
			d.settleDown()
			d.wait("the calendars agree", 300, d.pending)
			if x, y := d.said(d.at(a.organizer), a, room), d.said(d.at(b.organizer), b, room); x != "DECLINED" ||
				y != "ACCEPTED" {
				d.failf("after the split the room says %s to the one who waited and %s to the other", x, y)
			}
			if n := d.notices(a.organizer) + d.notices(b.organizer); n != 0 {
				d.failf("%d mails about a double booking", n)
			}
		})
	}
}

// TestBookingRace books one room at one time 200 times through three members. Exactly one booking wins, also if the
// room's home dies in the middle.
func TestBookingRace(t *testing.T) {
	t.Parallel()
	for _, dies := range []bool{false, true} {
		offices(t, alone(3, 3), 6, 1, func(d *diary) {
			room := d.rooms[0]
			home, _, _ := d.places(room)
			used := map[*server]bool{}
			for i := range 200 {
				m := &meeting{uid: fmt.Sprint("m", i), organizer: d.people[i%len(d.people)],
					with: []*citizen{room}, tried: map[string]bool{}}
				d.list = append(d.list, m)
				for d.at(m.organizer) == nil {
					d.pass(1)
				}
				s := d.at(m.organizer)
				used[s] = true
				d.writeAt(s, m, *m)
				if i == 100 && dies {
					home.crash()
					home.until = 1 << 40
				}
				if i%10 == 0 {
					d.pass(1)
				}
			}
			if len(used) != len(d.servers) {
				d.failf("%d members were asked", len(used))
			}
			if dies {
				d.pass(50)
				d.faults.start(home)
			}
			d.settleDown()
			d.wait("the calendars agree", 600, d.pending)
			d.verify()
			won := 0
			for _, m := range d.list {
				switch said := d.said(d.at(m.organizer), m, room); said {
				case "ACCEPTED":
					won++
				case "DECLINED":
				default:
					d.failf("%s: the room says %q", m.uid, said)
				}
			}
			if won != 1 {
				d.failf("%d bookings won", won)
			}
		})
	}
}
