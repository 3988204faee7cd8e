package scheduling

import (
	"strings"
	"testing"
	"time"

	"doublet/calendar/itip"
	"doublet/groupware"
	"doublet/note"
	"doublet/store/layout"
)

// TestOwed sends an invitation that a crash prevented, once; one that the program of the organizer sends is left alone.
func TestOwed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alice")
	r := w.sched.NewReconciler(w.store)
	w.ok(r.Run(bg))
	put := func(uid, params string) groupware.Entry {
		e, _, err := w.file("alice").Put(bg, groupware.Calendar, groupware.DefaultCalendar, uid+".ics",
			[]byte(meeting(uid, "", params+":far@far.example")), groupware.Condition{})
		w.ok(err)
		return e
	}
	put("a", ";SCHEDULE-STATUS=1.0")
	own := put("b", ";SCHEDULE-AGENT=CLIENT;SCHEDULE-STATUS=1.0")
	w.ok(r.Run(bg))
	if n := len(w.queued()); n != 0 {
		t.Fatalf("%d mails were sent while the change may be in progress", n)
	}
	w.fix.Time.Advance(time.Minute)
	for range 3 {
		w.ok(r.Run(bg))
		w.fix.Time.Advance(time.Minute)
	}
	list := w.queued()
	if len(list) != 1 || !strings.Contains(list[0], "far@far.example") {
		t.Fatalf("%d mails, want 1: %q", len(list), list)
	}
	if o, _ := w.object("alice", "a"); itip.Owes(o) {
		t.Error("the message is owed still")
	}
	if _, e := w.object("alice", "b"); e.ETag != own.ETag {
		t.Error("the event of another program was changed")
	}
}

// TestOwedAfterFailure: a message that is owed is sent after a run that failed, once the reason is gone.
func TestOwedAfterFailure(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alice")
	r := w.sched.NewReconciler(w.store)
	w.ok(r.Run(bg))
	_, _, err := w.file("alice").Put(bg, groupware.Calendar, groupware.DefaultCalendar, "a.ics",
		[]byte(meeting("a", "", ";SCHEDULE-STATUS=1.0:far@far.example")), groupware.Condition{})
	w.ok(err)
	w.ok(r.Run(bg)) // young: soon
	quota := func(n uint64) {
		w.ok(w.store.SetInfo(note.System, w.people["alice"].MailDatabase, func(i *layout.Info) { i.Quota = n }))
	}
	quota(1)
	w.fix.Time.Advance(time.Minute)
	t.Log("run over quota:", r.Run(bg))
	quota(0)
	for range 100 {
		w.fix.Time.Advance(time.Minute)
		w.ok(r.Run(bg))
	}
	if n := len(w.queued()); n != 1 {
		t.Errorf("%d mails after 100 minutes, want 1", n)
	}
}

// TestEarlyAnswer: the organizer has moved a meeting at a server that is cut off. An answer to that waits here, and
// asks nobody again; the move stands when it comes, with the answer.
func TestEarlyAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alice", "bob")
	w.ok(w.store.Share(bg, w.people["alice"].MailDatabase, 1))
	r := w.sched.NewReconciler(w.store)
	w.put("alice", "m.ics", meeting("m", "", "alice", "bob"))
	w.ok(r.Run(bg))
	moved := strings.NewReplacer("T090000Z", "T110000Z", "T100000Z", "T120000Z", "DTSTAMP:20260101T000000Z",
		"DTSTAMP:20260101T010000Z")
	w.arrive("bob@example.com", "alice@example.com", "REPLY",
		moved.Replace(meeting("m", "SEQUENCE:5\n", ";PARTSTAT=ACCEPTED:bob")), true)
	run := func(want string, answers int) {
		t.Helper()
		for range 3 {
			w.fix.Time.Advance(time.Minute)
			w.ok(r.Run(bg))
		}
		gone, err := w.file("alice").Gone(bg, "m")
		w.ok(err)
		o, _ := w.object("alice", "m")
		b, _ := w.object("bob", "m")
		a := o.Parts[0].Text("DTSTART") + " " + o.Parts[0].Text("SEQUENCE")
		if got := a + ", " + b.Parts[0].Text("DTSTART"); got != want || len(gone) != answers {
			t.Errorf("the meeting is at %s, %d answers wait; want %s, %d", got, len(gone), want, answers)
		}
	}
	run("20260105T090000Z 0, 20260105T090000Z", 1)
	_, e := w.object("alice", "m")
	_, _, err := w.file("alice").Put(bg, groupware.Calendar, groupware.DefaultCalendar, e.Entry.Name,
		[]byte(moved.Replace(meeting("m", "SEQUENCE:5\n", "alice", "bob"))), groupware.Condition{})
	w.ok(err)
	run("20260105T110000Z 7, 20260105T110000Z", 0)
	if o, _ := w.object("alice", "m"); !strings.Contains(string(o.Text()), "PARTSTAT=ACCEPTED") {
		t.Errorf("the answer is lost:\n%s", o.Text())
	}
}
