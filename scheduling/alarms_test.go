package scheduling

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"doublet/groupware"
	"doublet/mailbox"
	"doublet/note"
	"doublet/wire/mime"
)

// inbox returns the subjects and the texts of the messages in somebody's INBOX.
func (w *world) inbox(name string) (n int, all string) {
	w.t.Helper()
	f := w.files.File(w.who(name), w.people[name].MailDatabase)
	v, _, err := f.Open(bg, "INBOX", true)
	w.ok(err)
	w.ok(v.Fetch(bg, mailbox.Set{{Start: 1, Stop: 1 << 30}}, true, mailbox.FetchOptions{},
		func(m *mailbox.Message) (bool, error) {
			n++
			b, err := m.Body()
			if err != nil {
				return false, err
			}
			text, err := b.AppendRange(nil, 0, b.Size())
			all += string(text)
			return true, err
		}, func() error { return nil }))
	return n, all
}

// alarm puts an event with an alarm into somebody's calendar. start is a time, or the parameters and the value of
// DTSTART.
func (w *world) alarm(name, uid, start string, more ...string) {
	w.t.Helper()
	if !strings.HasPrefix(start, ";") {
		start = ":" + start
	}
	text := "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:x\r\nBEGIN:VEVENT\r\nUID:" + uid +
		"\r\nDTSTAMP:20260101T000000Z\r\nDTSTART" + start + "\r\nDURATION:PT1H\r\nSUMMARY:Event " + uid + "\r\n" +
		strings.Join(more, "\r\n") + "\r\nBEGIN:VALARM\r\nACTION:EMAIL\r\nTRIGGER:-PT15M\r\nSUMMARY:s\r\n" +
		"ATTENDEE:mailto:stranger@far.example\r\nDESCRIPTION:d\r\nEND:VALARM\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"
	_, _, err := w.file(name).Put(bg, groupware.Calendar, groupware.DefaultCalendar, uid+".ics", []byte(text),
		groupware.Condition{})
	w.ok(err)
}

func TestAlarms(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alice", "bob")
	start := func(d time.Duration) string { return w.fix.Clock.Now().Add(d).UTC().Format("20060102T150405Z") }
	a := w.sched.NewAlarmer(w.store)
	run := func(after time.Duration, want int) string {
		t.Helper()
		w.fix.Time.Advance(after)
		w.ok(a.Run(bg))
		n, all := w.inbox("alice")
		if n != want {
			t.Fatalf("%d messages, want %d\n%s", n, want, all)
		}
		return all
	}
	w.alarm("alice", "past", start(-time.Hour), "DESCRIPTION:x")
	w.alarm("alice", "one", start(time.Hour), "LOCATION:Room\\, 1")
	w.alarm("alice", "series", start(3*time.Hour), "RRULE:FREQ=DAILY;COUNT=3")
	run(0, 0)
	run(40*time.Minute, 0)
	all := run(6*time.Minute, 1)
	if !strings.Contains(all, "Subject: Reminder: Event one") || !strings.Contains(all,
		"Auto-Submitted: auto-generated") {
		t.Error(all)
	}
	run(time.Minute, 1)
	// After a restart, also one that lost what the mail file had recorded, nothing is sent twice.
	a = w.sched.NewAlarmer(w.store)
	run(time.Minute, 1)
	w.ok(w.group.File(note.System, w.people["alice"].MailDatabase).Change(bg, func(c *groupware.Changing) error {
		return c.SetAlarmedUntil(w.fix.Clock.Now().Add(-12 * time.Hour))
	}))
	run(time.Minute, 1)
	// The instances of a series; those while the server was down come late, but for those of over a day ago.
	run(2*time.Hour, 2)
	a = w.sched.NewAlarmer(w.store)
	run(49*time.Hour, 3)
	// Who has declined, what was cancelled or removed, and who was removed: none.
	w.alarm("alice", "off", start(time.Hour), "STATUS:CANCELLED")
	w.alarm("alice", "gone", start(time.Hour))
	w.ok(w.file("alice").Remove(bg, groupware.Calendar, groupware.DefaultCalendar, "gone.ics", groupware.Condition{}))
	w.alarm("alice", "no", start(time.Hour), "ORGANIZER:mailto:bob@example.com",
		"ATTENDEE;PARTSTAT=DECLINED:mailto:alice@example.com")
	run(2*time.Hour, 3)
	w.alarm("bob", "b", start(time.Hour))
	w.ok(w.dir.People.Remove(bg, note.System, w.people["bob"].ID))
	run(2*time.Hour, 3)
	if list, _, err := w.mail.Queue.List(bg, 10, ""); err != nil || len(list) > 0 {
		t.Error("mail to strangers is queued", list, err)
	}
}

// TestTaskAlarms checks the alarms of tasks: of those that are open, before they are due.
func TestTaskAlarms(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alice")
	due := w.fix.Clock.Now().Add(time.Hour).UTC()
	put := func(uid string, more ...string) {
		t.Helper()
		text := "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:x\r\nBEGIN:VTODO\r\nDTSTAMP:20260101T000000Z\r\n" +
			"UID:" + uid + "\r\nDUE:" + due.Format("20060102T150405Z") + "\r\nSUMMARY:Task " + uid + "\r\n" +
			strings.Join(more, "") + "BEGIN:VALARM\r\nACTION:EMAIL\r\nTRIGGER;RELATED=END:-PT15M\r\n" +
			"SUMMARY:s\r\nDESCRIPTION:d\r\nATTENDEE:mailto:stranger@far.example\r\n" +
			"END:VALARM\r\nEND:VTODO\r\nEND:VCALENDAR\r\n"
		_, _, err := w.file("alice").Put(bg, groupware.Calendar, groupware.DefaultTasks, uid+".ics", []byte(text),
			groupware.Condition{})
		w.ok(err)
	}
	put("open")
	put("done", "STATUS:COMPLETED\r\nCOMPLETED:20260101T000000Z\r\n")
	put("off", "STATUS:CANCELLED\r\n")
	put("later", "STATUS:IN-PROCESS\r\n")
	a := w.sched.NewAlarmer(w.store)
	w.ok(a.Run(bg))
	w.fix.Time.Advance(46 * time.Minute)
	put("later", "STATUS:COMPLETED\r\nCOMPLETED:20260101T000000Z\r\n") // done before the alarm is sent
	for range 2 {
		w.ok(a.Run(bg))
	}
	n, all := w.inbox("alice")
	if n != 1 || !strings.Contains(all, "Subject: Reminder: Task open") {
		t.Fatalf("%d messages\n%s", n, all)
	}
	text := all[strings.LastIndex(all, "\r\n\r\n"):]
	plain, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(text), ""))
	w.ok(err)
	if want := due.Format("Monday, 2 January 2006, 15:04") + " (UTC)"; !strings.Contains(string(plain), want) {
		t.Errorf("%q, want %s", plain, want)
	}
}

// TestManyAlarms checks that alarms beyond those of one run come in the next one.
func TestManyAlarms(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alice")
	at := w.fix.Clock.Now().Add(time.Hour)
	for i := range maxAlarms + 5 {
		w.alarm("alice", fmt.Sprint("e", i), at.Add(time.Duration(i)*time.Second).UTC().Format("20060102T150405Z"))
	}
	a := w.sched.NewAlarmer(w.store)
	w.ok(a.Run(bg))
	w.fix.Time.Advance(time.Hour)
	for range 3 {
		w.ok(a.Run(bg))
	}
	if n, _ := w.inbox("alice"); n != maxAlarms+5 {
		t.Error(n)
	}
}

// TestEqualAlarms checks that alarms of the same second are sent together, also if they are more than those of one run:
// the mail file records times, not alarms.
func TestEqualAlarms(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alice")
	at := func(d time.Duration) string {
		return w.fix.Clock.Now().Add(time.Hour + d).UTC().Format("20060102T150405Z")
	}
	before, same, after := maxAlarms-5, 20, 5
	for i := range before {
		w.alarm("alice", fmt.Sprint("before", i), at(-time.Duration(i+1)*time.Second))
	}
	for i := range same {
		w.alarm("alice", fmt.Sprint("same", i), at(0))
	}
	for i := range after {
		w.alarm("alice", fmt.Sprint("after", i), at(time.Duration(i+1)*time.Second))
	}
	a := w.sched.NewAlarmer(w.store)
	w.ok(a.Run(bg))
	w.fix.Time.Advance(time.Hour)
	w.ok(a.Run(bg))
	if n, _ := w.inbox("alice"); n != before+same {
		t.Errorf("%d mails in the first run, want %d", n, before+same)
	}
	w.ok(a.Run(bg))
	if n, _ := w.inbox("alice"); n != before+same+after {
		t.Errorf("%d mails, want %d", n, before+same+after)
	}
}

// TestAlarmTimes checks the times in mails of alarms: those of whole days and of events without a time zone are on the
// clocks of the calendar.
func TestAlarmTimes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alice")
	w.ok(w.file("alice").Change(bg, func(c *groupware.Changing) error {
		p, err := c.Properties(groupware.Calendar, groupware.DefaultCalendar)
		if p.TimeZone = "Asia/Tokyo"; err != nil {
			return err
		}
		return c.SetProperties(groupware.Calendar, groupware.DefaultCalendar, p)
	}))
	day := w.fix.Clock.Now().AddDate(0, 0, 2).UTC()
	date, long := day.Format("20060102"), day.Format("Monday, 2 January 2006")
	w.alarm("alice", "day", ";VALUE=DATE:"+date)
	w.alarm("alice", "floating", date+"T083000")
	w.alarm("alice", "zone", ";TZID=Europe/Berlin:"+date+"T083000")
	w.alarm("alice", "utc", date+"T083000Z")
	a := w.sched.NewAlarmer(w.store)
	w.ok(a.Run(bg))
	for range 6 { // none is older than a day in any run
		w.fix.Time.Advance(12 * time.Hour)
		w.ok(a.Run(bg))
	}
	_, all := w.inbox("alice")
	for title, when := range map[string]string{"day": "", "floating": ", 08:30 (Asia/Tokyo)",
		"zone": ", 08:30 (Europe/Berlin)", "utc": ", 08:30 (UTC)"} {
		want := []byte("Event " + title + "\r\n" + long + when + "\r\n")
		if !strings.Contains(all, string(mime.AppendBase64Lines(nil, want, 76, true))) {
			t.Errorf("no mail with %q in %s", want, all)
		}
	}
}

// TestAlarmLooks checks that the events of a mail file are read again only if a calendar of it has changed.
func TestAlarmLooks(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alice", "bob")
	db := w.people["alice"].MailDatabase
	at := w.fix.Clock.Now().Add(2 * time.Hour).UTC()
	w.alarm("alice", "e", at.Format("20060102T150405Z"))
	a := w.sched.NewAlarmer(w.store)
	w.ok(a.Run(bg))
	first := a.files[db]
	if want := at.Add(-15 * time.Minute); len(a.files) != 1 || !first.next.Equal(want) {
		t.Fatalf("next alarm at %v, want %v in one mail file of %d", first.next, want, len(a.files))
	}
	marked := first
	marked.next = at.Add(999 * time.Hour) // a look would replace it
	a.files[db] = marked
	w.arrive("far@far.example", "alice@example.com", "REQUEST", meeting("m", "", "alice"), false)
	w.ok(a.Run(bg))
	if n, _ := w.inbox("alice"); n != 1 || a.files[db] != marked {
		t.Errorf("%d messages; mail made the Alarmer read the events: %+v", n, a.files[db])
	}
	w.alarm("alice", "f", at.Add(-time.Hour).Format("20060102T150405Z"))
	w.ok(a.Run(bg))
	if want := at.Add(-75 * time.Minute); !a.files[db].next.Equal(want) {
		t.Errorf("after a new event: next alarm at %v, want %v", a.files[db].next, want)
	}
	// An alarm without a mail is done as well: it is not looked for in each run.
	w.alarm("alice", "off", at.Add(-time.Hour).Format("20060102T150405Z"), "STATUS:CANCELLED")
	w.fix.Time.Advance(50 * time.Minute)
	w.ok(a.Run(bg))
	if n, _ := w.inbox("alice"); n != 2 || !a.files[db].next.Equal(first.next) {
		t.Errorf("%d messages, next alarm at %v, want %v", n, a.files[db].next, first.next)
	}
}

// TestAlarmTakeover checks that a member which takes a mail file over sends the alarms of what changed before.
func TestAlarmTakeover(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alice")
	db := w.people["alice"].MailDatabase
	w.alarm("alice", "e", w.fix.Clock.Now().Add(time.Hour).UTC().Format("20060102T150405Z"))
	w.ok(w.store.Share(bg, db, 1))
	w.ok(w.store.Follow(bg, db))
	a := w.sched.NewAlarmer(w.store)
	for range 2 {
		w.fix.Time.Advance(time.Hour)
		w.ok(a.Run(bg))
	}
	if n, _ := w.inbox("alice"); n != 0 || a.files[db] != (outlook{}) {
		t.Errorf("%d messages from a member that does not lead, which has read the events: %+v", n, a.files[db])
	}
	w.lead(db)
	w.ok(a.Run(bg))
	if n, _ := w.inbox("alice"); n != 1 {
		t.Errorf("%d messages after the takeover, want 1", n)
	}
}

// TestManyDue checks that the first alarms are kept if more are due than the memory may hold.
func TestManyDue(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "alice")
	at := w.fix.Clock.Now().Add(time.Hour).UTC()
	n := maxDue + maxAlarms
	for i := range n { // the first ones come last
		w.alarm("alice", fmt.Sprint("e", i), at.Add(time.Duration(n-i)*time.Second).Format("20060102T150405Z"))
	}
	w.fix.Time.Advance(2 * time.Hour)
	a := w.sched.NewAlarmer(w.store)
	f := w.group.File(note.System, w.people["alice"].MailDatabase)
	list, until, err := a.due(bg, f, func(string) bool { return false }, at.Add(-time.Hour), w.fix.Clock.Now())
	if err != nil || len(list) != maxAlarms {
		t.Fatalf("%d alarms, %v", len(list), err)
	}
	for i := range list {
		if want := at.Add(time.Duration(i+1)*time.Second - 15*time.Minute); !list[i].at.Equal(want) {
			t.Fatalf("alarm %d is at %v, want %v", i, list[i].at, want)
		}
	}
	if last := list[maxAlarms-1].at; !until.Equal(last) {
		t.Errorf("all until %v, want %v", until, last)
	}
}
