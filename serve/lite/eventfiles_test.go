package lite

import (
	"net/url"
	"strings"
	"testing"

	"doublet/groupware"
)

// TestEventFiles checks that the page of an event adds, serves and removes attachments, that those invited read them
// and change none, and that others do neither.
//
// Implements: RFC 8607 §3.12.2 Access Control
func TestEventFiles(t *testing.T) {
	t.Parallel()
	w := open(t, 0)
	w.calendarOf("bob")
	b := w.signed("alice").berlin()
	day := w.fix.Clock.Now().AddDate(0, 0, 3).Format(dayLayout)
	b.get(pathEvent + "?edit=new&day=" + day)
	b.send(`name="title"`, nil, "title", "Plans", "people", "bob@example.com", "do", "save")
	b.get(pathCalendar + "?view=day&day=" + day)
	b.follow("Plans")
	b.want(200, "Attachments", "≤ 10")
	b.send(`name="upload"`, nil, "do", "attach")
	b.want(200, "No file was chosen.")
	b.send(`name="upload"`, map[string]string{"../plan.html": "<script>agenda</script>"}, "do", "attach")
	b.want(200, "Event saved", "plan.html", "23 B")
	b.lacks("../plan")
	page := b.at
	b.follow("plan.html")
	b.want(200, "<script>agenda</script>")
	for name, want := range map[string]string{"Content-Type": "application/octet-stream",
		"Content-Disposition": "attachment; filename=plan.html", "Content-Security-Policy": policyForeign} {
		if got := b.header.Get(name); got != want {
			t.Errorf("%s: %s", name, got)
		}
	}
	file := b.at

	bob := w.signed("bob").berlin()
	bob.get(pathCalendar + "?view=day&day=" + day)
	bob.follow("Plans")
	bob.want(200, "plan.html")
	bob.lacks(`name="upload"`, `value="detach:`)
	bob.follow("plan.html")
	bob.want(200, "<script>agenda</script>")
	// Not from Alice's mail file, which is not Bob's to read, nor changed in his own.
	bob.get(file)
	bob.want(404)
	bob.get(pathCalendar)
	_, values := bob.form("sign-out")
	id := entryID(t, w, "bob")
	_, raw, _ := strings.Cut(file, "?")
	query, err := url.ParseQuery(raw)
	w.ok(err)
	for _, do := range []string{"attach", "detach:" + query.Get("file")} {
		bob.post(pathEvent, url.Values{"csrf": values["csrf"], "e": {id}, "do": {do}}, map[string]string{"a": "b"})
		bob.want(403)
	}

	b.get(page)
	big := map[string]string{"big": strings.Repeat("x", groupware.MaxAttachment+2<<20)}
	b.send(`name="upload"`, big, "do", "attach")
	b.want(413, "10")
	b.get(page)
	b.send(`value="detach:`, nil, "do", "detach:"+query.Get("file"))
	b.want(200, "Event saved")
	b.lacks("plan.html")
	b.get(file)
	b.want(404)
	bob.get(pathEvent + "?e=" + id)
	bob.want(200, "Plans")
	bob.lacks("plan.html")
}

// entryID returns the id of the only event of a person.
func entryID(t *testing.T, w *world, name string) (id string) {
	t.Helper()
	w.ok(w.calendarOf(name).All(bg, groupware.Calendar, false, func(e *groupware.Entry) bool {
		id = e.UNID.String()
		return true
	}))
	return id
}

// TestLinkOfStranger checks that a link among the attachments shows the host that it leads to, whatever its name says.
func TestLinkOfStranger(t *testing.T) {
	t.Parallel()
	w := open(t, 0)
	w.putEvent("alice", "far", "SUMMARY:Far", "DTSTART:20260310T080000Z", "DTEND:20260310T090000Z",
		"ATTACH;FILENAME=www.bank.example/statement.pdf:https://elsewhere.example/a")
	b := w.signed("alice").berlin()
	b.get(pathCalendar + "?view=day&day=2026-03-10")
	b.follow("Far")
	b.want(200, "statement.pdf", `<span class="quiet">elsewhere.example</span>`)
}
