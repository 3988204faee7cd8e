package scheduling

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"doublet/calendar/itip"
	"doublet/groupware"
	"doublet/note"
	"doublet/store"
	"doublet/store/layout"
	"doublet/test/long"
)

// TestInvite goes through the life of an event of people here: invitation, answers, a new time, cancellation.
func TestInvite(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alice", "bob", "carol")
	e := w.put("alice", "m.ics", meeting("m", "", "alice", "bob", "carol"))
	if !e.Created || !e.Changed || e.ScheduleTag == "" {
		t.Fatalf("written: %+v", e)
	}
	w.is(w.status("bob", "m", "bob"), "NEEDS-ACTION")
	_, mine := w.object("alice", "m")
	if n := strings.Count(string(mine.Text), "SCHEDULE-STATUS=1.2"); n != 2 {
		t.Errorf("%d delivery states: %s", n, mine.Text)
	}
	_, theirs := w.object("bob", "m")
	if s := string(theirs.Text); strings.Contains(s, "SCHEDULE-") || strings.Contains(s, "METHOD") {
		t.Errorf("bob has %s", s)
	}

	w.tick()
	w.answer("bob", "m", "ACCEPTED")
	w.is(w.status("alice", "m", "bob"), "ACCEPTED")
	w.is(w.status("carol", "m", "bob"), "ACCEPTED") // all see one event
	_, after := w.object("alice", "m")
	if after.ScheduleTag != e.ScheduleTag || after.ETag == e.ETag {
		t.Error("an answer must change the ETag and keep the Schedule-Tag")
	}

	// The organizer's program does not know the answer: the Schedule-Tag allows the change, and the answer stays.
	w.tick()
	to := w.target("alice", "m.ics")
	to.Condition.ScheduleTag = e.ScheduleTag
	_, err := w.sched.Put(bg, to, []byte(meeting("m", "LOCATION:Room\n", "alice", "bob", "carol")))
	w.ok(err)
	w.is(w.status("alice", "m", "bob"), "ACCEPTED")
	w.is(w.status("bob", "m", "bob"), "ACCEPTED")
	o, _ := w.object("carol", "m")
	w.is(o.Parts[0].Text("LOCATION"), "Room")

	w.tick()
	w.put("alice", "m.ics", strings.ReplaceAll(meeting("m", "", "alice", "bob"), "0105T", "0106T"))
	w.is(w.status("bob", "m", "bob"), "NEEDS-ACTION") // another time: everybody is asked again
	o, _ = w.object("carol", "m")
	w.is(o.Parts[0].Text("STATUS"), "CANCELLED")

	w.tick()
	_, mine = w.object("alice", "m")
	w.ok(w.sched.Remove(bg, w.target("alice", "m.ics")))
	o, _ = w.object("bob", "m")
	w.is(o.Parts[0].Text("STATUS"), "CANCELLED")
	if got := w.queued(); len(got) != 0 {
		t.Errorf("mail was sent: %v", got)
	}
}

// TestRemoveByAttendee declines, but not if the program asks for silence.
func TestRemoveByAttendee(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alice", "bob", "carol")
	w.put("alice", "m.ics", meeting("m", "", "bob", "carol"))
	for name, silent := range map[string]bool{"bob": false, "carol": true} {
		_, e := w.object(name, "m")
		to := w.target(name, e.Place.Name)
		to.Silent = silent
		w.ok(w.sched.Remove(bg, to))
	}
	w.is(w.status("alice", "m", "bob"), "DECLINED")
	w.is(w.status("alice", "m", "carol"), "NEEDS-ACTION")
}

// TestOutside invites somebody of another server by mail, and takes the answer from mail.
func TestOutside(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alice", "bob")
	w.put("alice", "m.ics", meeting("m", "", "bob", "eve@far.example", "dan@far.example"))
	list := w.queued()
	if len(list) != 1 || !strings.Contains(list[0], "method=REQUEST") ||
		!strings.Contains(list[0], "<eve@far.example>") {
		t.Fatalf("mails: %v", list)
	}
	m := messageIn([]byte(list[0]))
	if m == nil || m.Method != itip.Request || authorOf([]byte(list[0])) != "alice@example.com" {
		t.Fatalf("no scheduling message in %s", list[0])
	}
	_, mine := w.object("alice", "m")
	if n := strings.Count(string(mine.Text), "SCHEDULE-STATUS=1.1"); n != 2 {
		t.Errorf("%d mails sent by %s", n, mine.Text)
	}
	status := func() string {
		o, _ := w.object("alice", "m")
		return itip.Status(o, func(a string) bool { return a == "eve@far.example" })
	}
	reply := strings.Replace(meeting("m", "SEQUENCE:0\n", ";PARTSTAT=ACCEPTED:eve@far.example"), "0101T000000Z",
		"0102T000000Z", 1)
	w.arrive("eve@far.example", "alice@example.com", "REPLY", reply, false)
	w.is(status(), "NEEDS-ACTION") // nothing verifies the author
	w.arrive("dan@far.example", "alice@example.com", "REPLY", reply, true)
	w.is(status(), "NEEDS-ACTION") // of somebody else
	w.arrive("eve@far.example", "alice@example.com", "REPLY", reply, true)
	w.is(status(), "ACCEPTED")
	w.arrive("eve@far.example", "alice@example.com", "REPLY",
		strings.Replace(strings.Replace(reply, "ACCEPTED", "DECLINED", 1), "0102T", "0101T", 1), true)
	w.is(status(), "ACCEPTED") // late
	v, _, err := w.files.File(note.System, w.people["alice"].MailDatabase).Open(bg, "INBOX", true)
	w.ok(err)
	if uids, err := v.UIDs(bg); err != nil || len(uids) != 4 {
		t.Errorf("alice has mails %v, want all 4: %v", uids, err)
	}
}

// TestFromOutside: an invitation from outside stays in the mail until the person takes it; then updates apply.
func TestFromOutside(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "bob")
	text := strings.ReplaceAll(meeting("x", "SEQUENCE:0\n", "bob"), "alice@example.com", "eve@far.example")
	w.arrive("eve@far.example", "bob@example.com", "REQUEST", text, true)
	w.is(w.status("bob", "x", "bob"), "nothing")
	w.put("bob", "x.ics", withStatus(text, "bob", "ACCEPTED"))
	if list := w.queued(); len(list) != 1 || !strings.Contains(list[0], "method=REPLY") ||
		!strings.Contains(list[0], "Subject: Accepted: Meeting") {
		t.Fatalf("mails %v", list)
	}
	later := strings.Replace(text, "0101T000000Z", "0102T000000Z", 1)
	update := strings.Replace(later, "SUMMARY:Meeting", "SUMMARY:Other", 1)
	w.arrive("mallory@far.example", "bob@example.com", "REQUEST", update, true)
	o, _ := w.object("bob", "x")
	w.is(o.Parts[0].Text("SUMMARY"), "Meeting")
	w.arrive("eve@far.example", "bob@example.com", "REQUEST", update, true)
	o, _ = w.object("bob", "x")
	w.is(o.Parts[0].Text("SUMMARY"), "Other")
	w.is(w.status("bob", "x", "bob"), "ACCEPTED")
	w.arrive("eve@far.example", "bob@example.com", "CANCEL", strings.Replace(later, "0102T", "0103T", 1), true)
	o, _ = w.object("bob", "x")
	w.is(o.Parts[0].Text("STATUS"), "CANCELLED")
}

// TestRights: nobody sends invitations in the name of somebody else without the right to.
func TestRights(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alice", "bob", "carol")
	acl := note.ACL{}.With(note.Entry{ID: w.people["alice"].ID, Level: note.Manager}).
		With(note.Entry{ID: w.people["bob"].ID, Level: note.Editor})
	w.ok(w.file("alice").Change(bg, func(c *groupware.Changing) error {
		return c.SetACL(groupware.Calendar, groupware.DefaultCalendar, &acl)
	}))
	to := w.target("alice", "m.ics")
	to.File = w.group.File(w.who("bob"), w.people["alice"].MailDatabase)
	_, err := w.sched.Put(bg, to, []byte(meeting("m", "", "carol")))
	if !errors.Is(err, store.ErrDenied) {
		t.Fatalf("got %v", err)
	}
	w.is(w.status("carol", "m", "carol"), "nothing")
	_, err = w.sched.Put(bg, to, []byte(meeting("m", ""))) // it invites nobody
	w.ok(err)
}

// TestRefusedChanges: attendees do not change what is the organizer's, and nothing changes.
func TestRefusedChanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alice", "bob", "carol")
	w.put("alice", "m.ics", meeting("m", "", "bob"))
	_, e := w.object("bob", "m")
	for text, want := range map[string]error{
		strings.ReplaceAll(string(e.Text), "0105T", "0106T"):             itip.ErrNotAllowed,
		strings.ReplaceAll(string(e.Text), "alice@", "bob@"):             itip.ErrNotAllowed,
		strings.ReplaceAll(string(e.Text), "alice@", "carol@"):           itip.ErrNotAllowed,
		meeting("m", "", "bob", "carol"):                                 itip.ErrNotAllowed,
		strings.Replace(string(e.Text), "SUMMARY", "STATUS:X\r\nBAD", 1): nil,
	} {
		if _, err := w.sched.Put(bg, w.target("bob", e.Place.Name), []byte(text)); !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
	}
	var elsewhere *ErrElsewhere
	to := w.target("bob", "other.ics")
	to.Collection = "second"
	w.ok(w.file("bob").Change(bg, func(c *groupware.Changing) error {
		return c.Create(groupware.Calendar, "second", groupware.Properties{})
	}))
	if _, err := w.sched.Put(bg, to, e.Text); !errors.As(err, &elsewhere) {
		t.Errorf("second calendar: %v", err)
	}
	if _, err := w.sched.Put(bg, w.target("alice", "n.ics"), []byte(meeting("n", "", "nobody"))); err != nil {
		t.Error(err)
	}
	_, mine := w.object("alice", "n")
	if !strings.Contains(string(mine.Text), "SCHEDULE-STATUS=3.7") {
		t.Errorf("unknown attendee: %s", mine.Text)
	}
	many := make([]string, itip.MaxAttendees+1)
	for i := range many {
		many[i] = strings.Repeat("a", i/100+1) + string(rune('a'+i%26)) + strings.Repeat("b", i%100) + "@far.example"
	}
	if _, err := w.sched.Put(bg, w.target("alice", "o.ics"), []byte(meeting("o", "", many...))); !errors.Is(err,
		itip.ErrTooMany) {
		t.Errorf("too many attendees: %v", err)
	}
}

// TestDefault puts an invitation into the calendar that the attendee chose as the default, unless that holds no events.
func TestDefault(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alice", "bob")
	choose := func(name string) {
		w.ok(w.file("bob").Change(bg, func(c *groupware.Changing) error {
			return c.SetDefault(groupware.Calendar, name)
		}))
	}
	w.ok(w.file("bob").Change(bg, func(c *groupware.Changing) error {
		return c.Create(groupware.Calendar, "second", groupware.Properties{})
	}))
	for uid, want := range map[string]string{"a": "second", "b": groupware.DefaultCalendar} {
		choose(want)
		w.put("alice", uid+".ics", meeting(uid, "", "bob"))
		_, e := w.object("bob", uid)
		w.is(e.Place.Collection, want)
	}
	choose(groupware.DefaultTasks)
	w.put("alice", "c.ics", meeting("c", "", "bob"))
	_, e := w.object("bob", "c")
	w.is(e.Place.Collection, groupware.DefaultCalendar)
}

// TestMeanwhile begins a change again if an attendee got the event by another way since it was planned.
func TestMeanwhile(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alice", "bob")
	text := []byte(meeting("m", "", "bob"))
	p, err := w.file("alice").Parse(bg, groupware.Calendar, text)
	w.ok(err)
	c, err := w.sched.plan(bg, w.target("alice", "m.ics"), nil, p)
	w.ok(err)
	defer c.release()
	_, _, err = w.file("bob").Put(bg, groupware.Calendar, groupware.DefaultCalendar, "m.ics", text,
		groupware.Condition{})
	w.ok(err)
	if _, err := c.run(bg); !errors.Is(err, errAgain) {
		t.Errorf("got %v, want %v", err, errAgain)
	}
}

// TestFull: a full calendar of one attendee does not hinder the others, and the organizer learns of it.
func TestFull(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alice", "bob", "carol")
	w.ok(w.store.SetInfo(note.System, w.people["bob"].MailDatabase, func(i *layout.Info) { i.Quota = 1 }))
	w.put("alice", "m.ics", meeting("m", "", "bob", "carol"))
	w.is(w.status("bob", "m", "bob"), "nothing")
	w.is(w.status("carol", "m", "carol"), "NEEDS-ACTION")
	_, mine := w.object("alice", "m")
	if !strings.Contains(string(mine.Text), "SCHEDULE-STATUS=5.1") {
		t.Errorf("delivery state: %s", mine.Text)
	}
}

// TestTogether lets attendees answer at the same time: no answer is lost.
func TestTogether(t *testing.T) {
	t.Parallel()
	names := []string{"bob", "carol", "dan", "erin", "frank"}
	w := newWorld(t, append(names, "alice")...)
	w.put("alice", "m.ics", meeting("m", "", names...))
	done := make(chan error)
	for _, name := range names {
		go func() {
			list, err := w.file(name).ByUID(bg, "m")
			if err == nil {
				_, err = w.sched.Put(bg, w.target(name, list[0].Place.Name),
					[]byte(withStatus(string(list[0].Text), name, "ACCEPTED")))
			}
			done <- err
		}()
	}
	for range names {
		w.ok(<-done)
	}
	for _, name := range names {
		w.is(w.status("alice", "m", name), "ACCEPTED")
		w.is(w.status(name, "m", "bob"), "ACCEPTED")
	}
}

// TestLocalMail: an invitation of a person here that comes by mail, as from a server that does not lead the mail file,
// goes into the calendar.
func TestLocalMail(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alice", "bob")
	text := meeting("m", "SEQUENCE:0\n", "bob")
	w.arrive("alice@example.com", "bob@example.com", "REQUEST", text, false)
	w.is(w.status("bob", "m", "bob"), "nothing")
	w.arrive("alice@example.com", "bob@example.com", "REQUEST", text, true)
	w.is(w.status("bob", "m", "bob"), "NEEDS-ACTION")
}

// TestAway: a person whose mail file another server leads gets the invitation by mail, and has it in the calendar as
// soon as the home delivers it.
func TestAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alice", "bob")
	db := w.people["bob"].MailDatabase
	w.ok(w.store.Share(bg, db, 1))
	w.ok(w.store.Follow(bg, db))
	w.put("alice", "m.ics", meeting("m", "", "bob"))
	w.is(w.status("bob", "m", "bob"), "nothing")
	_, mine := w.object("alice", "m")
	if !strings.Contains(string(mine.Text), "SCHEDULE-STATUS=1.1") {
		t.Errorf("delivery state: %s", mine.Text)
	}
	w.ok(w.store.Lead(bg, db, store.LeadOptions{}))
	w.fix.Time.Advance(time.Hour)
	_, err := w.mail.Router.Route(bg)
	w.ok(err)
	w.is(w.status("bob", "m", "bob"), "NEEDS-ACTION")
	w.answer("bob", "m", "ACCEPTED")
	w.is(w.status("alice", "m", "bob"), "ACCEPTED")
}

// TestManyAttendees invites as many people as an event may have, in one commit.
func TestManyAttendees(t *testing.T) {
	t.Parallel()
	n := long.Pick(60, itip.MaxAttendees)
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("p%d", i)
	}
	w := newWorld(t, append(names, "alice")...)
	w.put("alice", "m.ics", meeting("m", "", names...))
	for _, name := range []string{names[0], names[n-1]} {
		w.is(w.status(name, "m", name), "NEEDS-ACTION")
		w.answer(name, "m", "TENTATIVE")
		w.is(w.status("alice", "m", name), "TENTATIVE")
	}
}
