package lite

import (
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"doublet/groupware"
	"doublet/note"
	"doublet/store/layout"
)

// calendarOf returns the calendars of somebody as they see them.
func (w *world) calendarOf(name string) *groupware.File {
	w.t.Helper()
	who, err := w.dir.Names.WhoOf(bg, w.people[name].ID)
	w.ok(err)
	f := w.plans.File(who, w.people[name].MailDatabase)
	w.ok(f.Ensure(bg, "Europe/Berlin"))
	return f
}

// texts returns the texts of all events in a calendar.
func (w *world) texts(name string) (all string) {
	w.t.Helper()
	w.ok(w.calendarOf(name).All(bg, groupware.Calendar, true, func(e *groupware.Entry) bool {
		all += string(e.Text)
		return true
	}))
	return strings.ReplaceAll(all, "\r\n ", "")
}

// putEvent stores an event. lines are the properties besides UID and DTSTAMP.
func (w *world) putEvent(name, uid string, lines ...string) {
	w.t.Helper()
	text := "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//test\r\nBEGIN:VEVENT\r\nUID:" + uid +
		"\r\nDTSTAMP:20260101T000000Z\r\n" + strings.Join(lines, "\r\n") + "\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"
	_, _, err := w.calendarOf(name).Put(bg, groupware.Calendar, groupware.DefaultCalendar, uid+".ics", []byte(text),
		groupware.Condition{})
	w.ok(err)
}

// berlin makes the pages of a browser speak English in Berlin's time.
func (b *browser) berlin() *browser {
	b.cookies["doublet-speech"] = &http.Cookie{Name: "doublet-speech", Value: "en|Europe/Berlin"}
	return b
}

func TestCalendarViews(t *testing.T) {
	t.Parallel()
	w := open(t, 0)
	w.putEvent("alice", "one", "SUMMARY:Breakfast <b>", "DTSTART;TZID=Europe/Berlin:20260310T080000",
		"DTEND;TZID=Europe/Berlin:20260310T090000", "LOCATION:Kitchen",
		"DESCRIPTION:Bring https://a.example/x\\nand milk")
	w.putEvent("alice", "days", "SUMMARY:Fair", "DTSTART;VALUE=DATE:20260311", "DTEND;VALUE=DATE:20260314")
	w.putEvent("alice", "series", "SUMMARY:Standup", "DTSTART;TZID=Europe/Berlin:20260302T093000", "DURATION:PT15M",
		"RRULE:FREQ=WEEKLY;BYDAY=MO,TH;UNTIL=20260331T000000Z")
	b := w.signed("alice").berlin()
	b.get(pathCalendar + "?day=2026-03-10")
	b.want(200, "Mon, Mar 9", "Sun, Mar 15", "08:00–09:00", "Breakfast &lt;b&gt;", "Fair", "09:30–09:45")
	if n := strings.Count(b.page, "Standup"); n != 2 {
		t.Errorf("%d times Standup in the week", n)
	}
	if n := strings.Count(b.page, ">Fair<"); n != 3 {
		t.Errorf("Fair on %d days", n)
	}
	b.get(pathCalendar + "?view=day&day=2026-03-10")
	b.want(200, "Tue, Mar 10", "Kitchen", "Breakfast")
	b.lacks("Standup", "Fair")
	b.get(pathCalendar + "?view=month&day=2026-03-10")
	b.want(200, "Mar 2026", "Standup")
	b.get(pathCalendar + "?view=week&day=nonsense")
	b.want(200, "Nothing planned")
	b.get(pathCalendar + "?day=2026-03-10")
	b.follow("Breakfast")
	b.want(200, "Tue, Mar 10, 08:00–09:00 CET", "Kitchen", `<a href="https://a.example/x"`, "and milk")
	b.get(pathCalendar + "?day=2026-03-12")
	b.follow("Standup")
	b.want(200, "Every week (Mon Thu), until")

	// The time zone and the language are those of the page.
	b.cookies["doublet-speech"] = &http.Cookie{Name: "doublet-speech", Value: "de|America/New_York"}
	b.get(pathCalendar + "?view=day&day=2026-03-10")
	b.want(200, "Di., 10. März", "03:00–04:00")
	b.cookies["doublet-speech"] = &http.Cookie{Name: "doublet-speech", Value: "zh|Asia/Shanghai"}
	b.get(pathCalendar + "?view=day&day=2026-03-10")
	b.want(200, "3月10日 周二", "15:00–16:00")
}

func TestEventForm(t *testing.T) {
	t.Parallel()
	w := open(t, 0)
	b := w.signed("alice").berlin()
	b.get(pathCalendar + "?day=2026-03-10")
	b.follow("New event")
	b.send(`name="title"`, nil, "title", "Tea, \"quoted\"", "first", "2026-03-10", "from", "16:00", "last",
		"2026-03-10",
		"to", "15:00", "do", "save")
	b.want(400, "The end is before the start", "Tea, &#34;quoted&#34;")
	b.send(`name="title"`, nil, "to", "17:30", "place", "Room; 1", "text", "two\nlines", "repeat", "weekly", "until",
		"2026-04-30", "alert", "30", "do", "save")
	b.want(200, "Event saved", "16:00–17:30")
	got := w.texts("alice")
	for _, want := range []string{"SUMMARY:Tea\\, \"quoted\"", "DTSTART;TZID=Europe/Berlin:20260310T160000",
		"LOCATION:Room\\; 1", "DESCRIPTION:two\\nlines", "RRULE:FREQ=WEEKLY;UNTIL=20260430T2", "TRIGGER:-PT30M"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}

	// One instance.
	b.get(pathCalendar + "?day=2026-03-17")
	b.follow("Tea")
	b.follow("Edit this event")
	b.want(200, "This changes one event")
	b.send(`name="title"`, nil, "title", "Coffee", "from", "15:00", "do", "save")
	b.get(pathCalendar + "?day=2026-03-17")
	b.want(200, "Coffee", "15:00–17:30")
	b.get(pathCalendar + "?day=2026-03-24")
	b.want(200, "Tea", "16:00–17:30")

	// All instances, moved by a day and an hour: the exception moves too.
	b.get(pathCalendar + "?day=2026-03-24")
	b.follow("Tea")
	b.follow("Edit all events")
	b.want(200, "This changes all events", `value="2026-03-10"`)
	b.send(`name="title"`, nil, "first", "2026-03-11", "last", "2026-03-11", "from", "17:00", "to", "18:30", "do",
		"save")
	b.get(pathCalendar + "?view=day&day=2026-03-25")
	b.want(200, "Tea", "17:00–18:30")
	b.get(pathCalendar + "?view=day&day=2026-03-17")
	b.want(200, "Coffee") // it has a time of its own
	b.get(pathCalendar + "?view=day&day=2026-03-18")
	b.lacks("Tea")

	// One instance is deleted, then all.
	b.get(pathCalendar + "?view=day&day=2026-03-25")
	b.follow("Tea")
	b.follow("Delete")
	b.send("Delete this event?", nil, "do", "delete")
	b.want(200, "Event deleted")
	b.get(pathCalendar + "?view=day&day=2026-03-25")
	b.lacks("Tea")
	b.get(pathCalendar + "?view=day&day=2026-04-01")
	b.follow("Tea")
	b.follow("Delete")
	b.send("Delete this event?", nil, "do", "deleteAll")
	if got := w.texts("alice"); got != "" {
		t.Error(got)
	}

	// Whole days; a form that somebody else overtook changes nothing.
	b.get(pathEvent + "?edit=new&day=2026-05-01")
	b.send(`name="title"`, nil, "title", "Trip", "allday", "yes", "last", "2026-05-03", "do", "save")
	if got := w.texts("alice"); !strings.Contains(got, "DTSTART;VALUE=DATE:20260501\r\n") ||
		!strings.Contains(got, "DTEND;VALUE=DATE:20260504\r\n") {
		t.Error(got)
	}
	b.get(pathCalendar + "?view=day&day=2026-05-03")
	b.follow("Trip")
	b.follow("Edit")
	other := w.signed("alice").berlin()
	other.get(b.at)
	other.send(`name="title"`, nil, "title", "Journey", "do", "save")
	b.send(`name="title"`, nil, "title", "Walk", "do", "save")
	b.want(400, "Somebody changed this entry")
	if got := w.texts("alice"); !strings.Contains(got, "SUMMARY:Journey") || strings.Contains(got, "Walk") {
		t.Error(got)
	}
}

// TestEventKept checks that the form keeps what it does not show.
func TestEventKept(t *testing.T) {
	t.Parallel()
	w := open(t, 0)
	w.putEvent("alice", "odd", "SUMMARY:Odd", "DTSTART;TZID=Europe/Berlin:20260310T080000", "DURATION:PT1H",
		"RRULE:FREQ=MONTHLY;BYDAY=2TU", "X-ODD;P=1:kept", "CATEGORIES:A,B", "BEGIN:VALARM", "ACTION:EMAIL",
		"TRIGGER;RELATED=END:PT1H", "SUMMARY:s", "DESCRIPTION:d", "ATTENDEE:mailto:x@example.com", "END:VALARM")
	b := w.signed("alice").berlin()
	b.get(pathCalendar + "?day=2026-03-10")
	b.follow("Odd")
	b.follow("Edit all events")
	b.want(200, "As before")
	b.send(`name="title"`, nil, "title", "Odder", "do", "save")
	got := w.texts("alice")
	for _, want := range []string{"SUMMARY:Odder", "RRULE:FREQ=MONTHLY;BYDAY=2TU\r\n", "X-ODD;P=1:kept",
		"CATEGORIES:A,B",
		"TRIGGER;RELATED=END:PT1H"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
}

func TestInvitationsLite(t *testing.T) {
	t.Parallel()
	w := open(t, 0)
	w.calendarOf("bob")
	b := w.signed("alice").berlin()
	day := w.fix.Clock.Now().AddDate(0, 0, 3).Format(dayLayout)
	b.get(pathEvent + "?edit=new&day=" + day)
	b.send(`name="title"`, nil, "title", "Plans", "people", "Bob <bob@example.com>; not an address", "do", "save")
	b.want(400, "Plans", "not an address")
	b.send(`name="title"`, nil, "people", "Bob <bob@example.com>\ncarol@example.com, bob@example.com", "do", "save")
	b.want(200, "Event saved")
	if got := w.texts("bob"); strings.Count(got, "ATTENDEE") != 3 || !strings.Contains(got, "ORGANIZER") {
		t.Fatal(got)
	}
	bob := w.signed("bob").berlin()
	bob.get(pathCalendar)
	bob.want(200, "Waiting for your answer", "Plans", "Alice Example")
	bob.send("back", nil, "do", "tentative")
	bob.want(200, "Your answer is sent")
	bob.lacks("Waiting for your answer")
	if got := w.texts("alice"); !strings.Contains(got, "PARTSTAT=TENTATIVE") {
		t.Error(got)
	}
	bob.get(pathCalendar + "?view=day&day=" + day)
	bob.follow("Plans")
	bob.want(200, "You answered that you may come", "no answer yet")
	bob.lacks("edit=1")
	bob.send("You answered", nil, "do", "accepted")
	if got := w.texts("alice"); !strings.Contains(got, "PARTSTAT=ACCEPTED;RSVP") &&
		strings.Count(got, "PARTSTAT=ACCEPTED") != 2 {
		t.Error(got)
	}
	// Bob may not change what is Alice's, nor answer for Carol in Alice's calendar.
	id := regexp.MustCompile(`name="e" value="([0-9a-f]+)"`).FindStringSubmatch(bob.page)[1]
	bob.get(pathEvent + "?edit=1&e=" + id)
	bob.want(403)
	bob.get(pathCalendar)
	_, values := bob.form("sign-out")
	bob.post(pathEvent, url.Values{"csrf": values["csrf"], "e": {id}, "do": {"save"}, "title": {"Mine"}}, nil)
	bob.want(403)
	bob.get(pathEvent + "?e=" + strings.Repeat("a", 32))
	bob.want(404)
}

// TestOneAnswered checks that an answer can concern one instance of a series.
func TestOneAnswered(t *testing.T) {
	t.Parallel()
	w := open(t, 0)
	w.calendarOf("bob")
	b := w.signed("alice").berlin()
	b.get(pathEvent + "?edit=new&day=2026-03-10")
	b.send(`name="title"`, nil, "title", "Weekly", "repeat", "weekly", "people", "bob@example.com", "do", "save")
	bob := w.signed("bob").berlin()
	instance := func(day string) {
		bob.get(pathCalendar + "?view=day&day=" + day)
		m := regexp.MustCompile(`href="(/lite/event\?at=[^"]*)"`).FindStringSubmatch(bob.page)
		bob.get(html.UnescapeString(m[1]))
		bob.want(200, "Weekly")
	}
	instance("2026-03-17")
	action, values := bob.form("scope")
	values.Del("scope")
	values.Set("do", "declined")
	bob.post(action, values, nil)
	bob.want(200, "You declined")
	instance("2026-03-24")
	bob.want(200, "You have not answered yet")
	got := w.texts("alice")
	if strings.Count(got, "PARTSTAT=DECLINED") != 1 || !strings.Contains(got, "RECURRENCE-ID") {
		t.Error(got)
	}
}

// TestMailedInvitation checks the answer to an invitation from another server.
func TestMailedInvitation(t *testing.T) {
	t.Parallel()
	w := open(t, 0)
	w.calendarOf("alice")
	invitation := func(uid, from string) string {
		return "From: " + from + "\nTo: alice@example.com\nSubject: Invitation\nMessage-ID: <" + uid +
			"@far.example>\nMIME-Version: 1.0\nContent-Type: text/calendar; method=REQUEST; charset=utf-8\n\n" +
			"BEGIN:VCALENDAR\nVERSION:2.0\nPRODID:-//far\nMETHOD:REQUEST\nBEGIN:VEVENT\nUID:" + uid +
			"\nDTSTAMP:20260101T000000Z\nDTSTART:20260310T100000Z\nDTEND:20260310T110000Z\nSUMMARY:Far away\n" +
			"ORGANIZER;CN=Eve:mailto:eve@far.example\nATTENDEE;PARTSTAT=NEEDS-ACTION:mailto:alice@example.com\n" +
			"ATTACH;FILENAME=map.png;ENCODING=BASE64;VALUE=BINARY:AAAA\n" +
			"ATTENDEE;PARTSTAT=ACCEPTED:mailto:eve@far.example\nEND:VEVENT\nEND:VCALENDAR\n"
	}
	id := w.put("alice", "INBOX", invitation("far1", "Eve <eve@far.example>"))
	b := w.signed("alice").berlin()
	b.get(pathRead + "?m=" + id)
	b.want(200, "Far away", "Tue, Mar 10, 11:00–12:00 CET", "Organizer: <bdi>Eve", "2 people", "map.png")
	b.lacks("Open in the calendar", "not from the organizer")
	b.send("Accept", nil, "do", "accepted")
	b.want(200, "Your answer is sent", "You accepted", "Open in the calendar")
	mail := b.at
	b.follow("Open in the calendar")
	b.want(200, "map.png", "3 B")
	b.follow("map.png")
	b.want(200)
	if b.page != "\x00\x00\x00" || b.header.Get("Content-Disposition") != "attachment; filename=map.png" {
		t.Errorf("%q %v", b.page, b.header)
	}
	b.get(b.at + "0")
	b.want(404)
	b.get(mail)
	if got := w.texts("alice"); strings.Count(got, "PARTSTAT=ACCEPTED") != 2 || strings.Contains(got, "METHOD") {
		t.Error(got)
	}
	b.send("Accept", nil, "do", "declined")
	b.want(200, "You declined")
	if got := w.texts("alice"); strings.Count(got, "UID:far1") != 1 || !strings.Contains(got, "PARTSTAT=DECLINED") {
		t.Error(got)
	}
	id = w.put("alice", "INBOX", invitation("far2", "Mallory <mallory@bad.example>"))
	b.get(pathRead + "?m=" + id)
	b.want(200, "This message came from mallory@bad.example")
	// A message that is no invitation of the user's is not answered.
	id = w.put("bob", "INBOX", invitation("far3", "Eve <eve@far.example>"))
	bob := w.signed("bob").berlin()
	bob.get(pathRead + "?m=" + id)
	bob.want(200, "Far away")
	bob.lacks("Accept")
	_, values := bob.form("sign-out")
	bob.post(pathEvent, url.Values{"csrf": values["csrf"], "m": {id}, "do": {"accepted"}}, nil)
	bob.want(400)
	// Broken parts are mail as any.
	id = w.put("bob", "INBOX", strings.Replace(invitation("far4", "e@far.example"), "END:VEVENT", "END:NOTHING", 1))
	bob.get(pathRead + "?m=" + id)
	bob.want(200, "Invitation")
}

// TestSharedCalendar checks that access lists hold.
func TestSharedCalendar(t *testing.T) {
	t.Parallel()
	w := open(t, 0)
	w.putEvent("alice", "open", "SUMMARY:Open to all", "DTSTART:20260310T100000Z", "DURATION:PT1H")
	w.putEvent("alice", "mine", "SUMMARY:Secret of mine", "CLASS:PRIVATE", "DTSTART:20260310T120000Z", "DURATION:PT1H")
	ids := map[string]string{}
	w.ok(w.calendarOf("alice").All(bg, groupware.Calendar, false, func(e *groupware.Entry) bool {
		ids[e.UID] = e.UNID.String()
		return true
	}))
	bob := w.signed("bob").berlin()
	db := w.people["alice"].MailDatabase
	at := "&day=2026-03-10&b=" + db.String()
	bob.get(pathCalendar + "?view=day" + at)
	bob.want(404)
	w.ok(w.calendarOf("alice").Change(bg, func(c *groupware.Changing) error {
		return c.Share(groupware.Calendar, groupware.DefaultCalendar,
			map[note.UNID]note.Rights{w.people["bob"].ID: note.Lookup | note.Read})
	}))
	bob.get(pathCalendar + "?view=day" + at)
	bob.want(200, "Open to all")
	bob.lacks("Secret of mine", "New event")
	bob.follow("Open to all")
	bob.want(200, "Open to all")
	bob.lacks("edit=1", "ask=1")
	for _, c := range []struct {
		path string
		want int
	}{{"?e=" + ids["mine"], 404}, {"?edit=1&e=" + ids["open"], 403}, {"?edit=new", 403}} {
		bob.get(pathEvent + c.path + "&b=" + db.String())
		bob.want(c.want)
	}
	bob.get(pathCalendar + "?b=" + db.String())
	_, values := bob.form("sign-out")
	bob.post(pathEvent, url.Values{"csrf": values["csrf"], "b": {db.String()}, "e": {ids["open"]},
		"do": {"deleteAll"}}, nil)
	bob.want(403)
	bob.post(pathEvent, url.Values{"b": {db.String()}, "e": {ids["open"]}, "do": {"deleteAll"}}, nil)
	bob.want(403) // without the token of the session
	w.ok(w.store.SetInfo(note.System, db, func(i *layout.Info) {
		i.ACL = i.ACL.With(note.Entry{ID: w.people["bob"].ID, Level: note.Reader})
	}))
	if got := w.texts("alice"); !strings.Contains(got, "Open to all") {
		t.Error(got)
	}
}

// TestBusyCalendar checks that pages stay small whatever the calendar holds.
func TestBusyCalendar(t *testing.T) {
	t.Parallel()
	w := open(t, 0)
	long := strings.Repeat("<&>", 200)
	for i := range 60 {
		w.putEvent("alice", fmt.Sprint("e", i), "SUMMARY:"+long, "LOCATION:"+long, "DESCRIPTION:"+strings.Repeat(long,
			30),
			fmt.Sprintf("DTSTART:20260310T%02d%02d00Z", i/4, i%4*15), "DURATION:PT10M", "RRULE:FREQ=DAILY;COUNT=30")
	}
	w.putEvent("alice", "people", "SUMMARY:"+long, "DTSTART:20260401T100000Z", "DURATION:PT1H",
		"ORGANIZER:mailto:alice@example.com", strings.Repeat("ATTENDEE;CN=\""+long+"\":mailto:"+strings.Repeat("x", 90)+
			"@far.example\r\n", 300)+"X-END:1")
	b := w.signed("alice").berlin()
	for _, view := range []string{"day", "week", "month"} {
		b.get(pathCalendar + "?day=2026-03-20&view=" + view) // safe checks the size
		b.want(200)
	}
	b.get(pathCalendar + "?day=2026-04-20")
	b.get(pathCalendar + "?view=day&day=2026-04-01")
	b.want(200)
	b.get(pathCalendar + "?view=day&day=2026-03-10")
	b.follow("&lt;")
	b.want(200, "longer than this page")
}
