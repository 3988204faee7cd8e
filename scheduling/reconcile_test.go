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
