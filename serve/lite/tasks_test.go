package lite

import (
	"fmt"
	"net/url"
	"strings"
	"testing"

	"doublet/groupware"
	"doublet/note"
)

// putTask stores a task. lines are the properties besides UID and DTSTAMP.
func (w *world) putTask(name, uid string, lines ...string) {
	w.t.Helper()
	text := "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//test\r\nBEGIN:VTODO\r\nUID:" + uid +
		"\r\nDTSTAMP:20260101T000000Z\r\n" + strings.Join(lines, "\r\n") + "\r\nEND:VTODO\r\nEND:VCALENDAR\r\n"
	_, _, err := w.calendarOf(name).Put(bg, groupware.Calendar, groupware.DefaultTasks, uid+".ics", []byte(text),
		groupware.Condition{})
	w.ok(err)
}

// TestTasks lists tasks, adds one, ticks it and takes that back, edits, moves and deletes it.
func TestTasks(t *testing.T) {
	t.Parallel()
	w := open(t, 0)
	now := w.fix.Clock.Now()
	day := func(n int) string { return now.AddDate(0, 0, n).Format(dayLayout) }
	w.putTask("alice", "late", "SUMMARY:Late <b>", "DUE;VALUE=DATE:"+now.AddDate(0, 0, -2).Format("20060102"),
		"PRIORITY:1")
	b := w.signed("alice").berlin()
	b.get(pathCalendar)
	b.follow("Tasks")
	b.want(200, "Late &lt;b&gt;", "overdue", "<b title=\"High\">!</b>")
	b.send(`name="title"`, nil, "title", "Pay rent", "due", day(1), "do", "save")
	b.want(200, "Saved", "Pay rent")
	if strings.Index(b.page, "Late &lt;b&gt;") > strings.Index(b.page, ">Pay rent<") {
		t.Error("not in the order of due times")
	}
	b.send(`aria-label="Done: Pay rent"`, nil, "do", "done")
	b.lacks("Pay rent")
	if text := w.texts("alice"); !strings.Contains(text, "STATUS:COMPLETED") ||
		!strings.Contains(text, "PERCENT-COMPLETE:100") {
		t.Error(text)
	}
	b.follow("Tasks that are done")
	b.want(200, "Pay rent")
	b.lacks("Late &lt;b&gt;")
	b.send("Not done: Pay rent", nil, "do", "open")
	b.want(200, "Pay rent", "Late &lt;b&gt;")
	b.follow("Pay rent")
	b.want(200, `value="`+day(1)+`"`)
	b.submit("text", "To the landlord", "time", "18:30", "priority", "5", "do", "save")
	b.want(200, "18:30")
	if text := w.texts("alice"); !strings.Contains(text, "DUE;TZID=Europe/Berlin:") ||
		!strings.Contains(text, "DESCRIPTION:To the landlord") || !strings.Contains(text, "PRIORITY:5") ||
		strings.Contains(text, "COMPLETED") {
		t.Error(text)
	}
	b.follow("Pay rent")
	_, stale := b.form("text")
	b.submit("title", "", "do", "save")
	b.want(400, "needs a title")
	b.get(pathTask + "?e=" + stale.Get("e"))
	b.submit("title", "Pay the rent", "do", "save")
	b.want(200, "Pay the rent")
	stale.Set("do", "save")
	b.post(pathTask, stale, nil)
	b.want(400, "changed") // by the form before
	b.get(pathTask + "?e=" + stale.Get("e"))
	b.submit("do", "delete")
	b.want(200)
	b.lacks("Pay the rent")
}

// TestTaskRepeats completes one time of a task that repeats, moves its series, and ends it.
func TestTaskRepeats(t *testing.T) {
	t.Parallel()
	w := open(t, 0)
	now := w.fix.Clock.Now()
	day := func(n int) string { return now.AddDate(0, 0, n).Format(dayLayout) }
	b := w.signed("alice").berlin()
	b.get(pathTasks)
	b.follow("New task")
	b.submit("title", "Water", "repeat", "daily", "do", "save")
	b.want(400, "has a due date")
	b.submit("due", day(0), "do", "save")
	b.want(200, "Water")
	first := b.page
	b.send("Done: Water", nil, "do", "done")
	b.want(200, "Water")
	if b.page == first || strings.Count(w.texts("alice"), "RECURRENCE-ID") != 1 {
		t.Error(b.page, w.texts("alice"))
	}
	b.follow("Water")
	b.submit("due", day(3), "do", "save")
	b.want(200, "Water")
	moved := "RECURRENCE-ID;VALUE=DATE:" + now.AddDate(0, 0, 3).Format("20060102")
	if text := w.texts("alice"); !strings.Contains(text, moved) {
		t.Error("the time that is done did not move along:", text)
	}
	b.follow("Water")
	b.submit("repeat", "never", "do", "save")
	b.want(200)
	if text := w.texts("alice"); strings.Contains(text, "RRULE") {
		t.Error(text)
	}
}

// TestTaskRights checks that readers of a task list change nothing, and that strangers learn nothing.
func TestTaskRights(t *testing.T) {
	t.Parallel()
	w := open(t, 0)
	w.putTask("alice", "one", "SUMMARY:Hers")
	b := w.signed("alice")
	b.get(pathTasks)
	b.follow("Hers")
	_, values := b.form("text")
	db := w.people["alice"].MailDatabase.String()
	bob := w.signed("bob")
	bob.get(pathTasks)
	_, own := bob.form("sign-out")
	bob.get(pathTask + "?e=" + values.Get("e"))
	bob.want(404)
	w.ok(w.calendarOf("alice").Change(bg, func(c *groupware.Changing) error {
		return c.Share(groupware.Calendar, groupware.DefaultTasks,
			map[note.UNID]note.Rights{w.people["bob"].ID: note.Lookup | note.Read})
	}))
	bob.get(pathTasks + "?b=" + db)
	bob.want(200, "Hers")
	bob.lacks("Done: Hers", "New task")
	bob.get(pathTask + "?b=" + db + "&e=" + values.Get("e"))
	bob.want(403)
	for _, do := range []string{"done", "delete", "save"} {
		bob.post(pathTask, url.Values{"csrf": own["csrf"], "b": {db}, "e": values["e"], "do": {do}, "title": {"His"},
			"list": values["list"], "state": values["state"]}, nil)
		bob.want(403)
	}
	if text := w.texts("alice"); strings.Contains(text, "His") || strings.Contains(text, "COMPLETED") {
		t.Error(text)
	}
}

// TestManyLists: a change of the title leaves a task in its list.
func TestManyLists(t *testing.T) {
	t.Parallel()
	w := open(t, 0)
	f := w.calendarOf("alice")
	for i := range 30 {
		w.ok(f.Change(bg, func(c *groupware.Changing) error {
			return c.Create(groupware.Calendar, fmt.Sprintf("l%02d", i), groupware.Properties{
				Title: fmt.Sprintf("List %02d", i), Components: []string{"VTODO"}})
		}))
	}
	text := "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//test\r\nBEGIN:VTODO\r\nUID:x\r\nDTSTAMP:20260101T000000Z\r\n" +
		"SUMMARY:Here\r\nEND:VTODO\r\nEND:VCALENDAR\r\n"
	e, _, err := f.Put(bg, groupware.Calendar, "l29", "x.ics", []byte(text), groupware.Condition{})
	w.ok(err)
	b := w.signed("alice")
	b.get(pathTask + "?e=" + e.UNID.String())
	b.submit("title", "Renamed", "do", "save")
	if _, err := f.Entry(bg, groupware.Calendar, "l29", "x.ics"); err != nil {
		t.Errorf("the task left its list: %v", err)
	}
}

// TestUntilAlone: the end of a rule does not move the start of a task.
func TestUntilAlone(t *testing.T) {
	t.Parallel()
	w := open(t, 0)
	w.putTask("alice", "y", "SUMMARY:Weekly", "DTSTART;TZID=Europe/Berlin:20260107T090000",
		"DUE;TZID=Europe/Berlin:20260107T170000", "RRULE:FREQ=WEEKLY")
	b := w.signed("alice").berlin()
	b.get(pathTasks)
	b.follow("Weekly")
	b.submit("until", "2028-01-05", "do", "save")
	if s := w.texts("alice"); !strings.Contains(s, "DTSTART;TZID=Europe/Berlin:20260107T090000") {
		t.Error(s)
	}
}

// TestManyTasks lists a new task beside more that are done than the page sorts.
func TestManyTasks(t *testing.T) {
	t.Parallel()
	w := open(t, 0)
	for i := range maxTasks + 1 {
		w.putTask("alice", fmt.Sprint("done", i), "SUMMARY:Old", "STATUS:COMPLETED")
	}
	w.putTask("alice", "new", "SUMMARY:The newest")
	b := w.signed("alice")
	b.get(pathTasks)
	b.want(200, "The newest")
	b.lacks("Old")
	b.get(pathTasks + "?done=1")
	b.want(200, "Old")
	b.lacks("The newest")
}
