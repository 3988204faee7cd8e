package drive

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"doublet/bench/ledger"
	"doublet/bench/workload"
)

// playPlanner is playJMAP with a calendar, in which an invitation waits.
func playPlanner(t *testing.T) (*jmapPeer, *World) {
	t.Helper()
	p, w := playJMAP(t)
	p.session = strings.Replace(jmapSessionObject, `"primaryAccounts":{`,
		`"primaryAccounts":{"urn:ietf:params:jmap:calendars":"a",`, 1)
	p.says("Calendar/get", `["Calendar/get",{"list":[{"id":"other"},{"id":"cal","isDefault":true}]},"c0"]`)
	p.says("CalendarEvent/query", `["CalendarEvent/query",{"ids":["v1"]},"c0"],["CalendarEvent/get",{"list":[`+
		invited("needs-action")+`]},"c1"]`)
	p.says("CalendarEvent/get", `["CalendarEvent/get",{"list":[`+invited("needs-action")+`]},"c0"]`)
	p.says("CalendarEvent/set", `["CalendarEvent/set",{"created":{"e":{"id":"v2"}},"updated":{"v1":null},`+
		`"destroyed":["v1"]},"c0"]`)
	return p, w
}

// open signs the first user in over JMAP.
func (p *jmapPeer) open(t *testing.T, w *World) *jmapSession {
	t.Helper()
	opened, _, err := w.Open(context.Background(), workload.JMAP, &w.Users[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = opened.Close() })
	return opened.(*jmapSession)
}

// TestPlanner checks the actions of the calendar over JMAP, and what the ledger expects after them.
func TestPlanner(t *testing.T) {
	t.Parallel()
	p, w := playPlanner(t)
	w.Ledger = ledger.New()
	s := p.open(t, w)
	for _, do := range []workload.Verb{workload.Calendar, workload.Appointment, workload.Invite, workload.RSVP} {
		if got, err := act(s, do); err != nil || got.Sent == 0 || got.Received == 0 {
			t.Errorf("%s: %v %v", do, got, err)
		}
	}
	all := strings.Join(p.asked, "\n")
	for _, want := range []string{`"calendarIds":{"cal":true}`, `"expandRecurrences":true`,
		`"sendSchedulingMessages":true`, `"email":"u1@example.com"`,
		`"participants/p0-u0/participationStatus":"accepted"`} {
		if !strings.Contains(all, want) {
			t.Errorf("%s was not sent", want)
		}
	}
	if strings.Contains(all, "Email/import") {
		t.Error("an invitation was mail at a server with calendars")
	}
	// The appointment, the invitation with the organizer's own event, and the answer.
	files := map[string][]ledger.Message{"u0@example.com": nil, "u1@example.com": nil}
	v := w.Ledger.Check("x", files)
	if v.Invitations == 0 || v.Answers != 1 || v.Lost != 2+v.Invitations+v.Answers {
		t.Errorf("all is lost: %+v", v)
	}
	answer := ledger.Message{Folder: ledger.Calendar, ID: ledger.AnswerID("run.7", "u0@example.com")}
	files["u1@example.com"] = []ledger.Message{answer}
	if got := w.Ledger.Check("x", files); got.Lost != v.Lost-1 {
		t.Errorf("the answer is there: %+v", got)
	}
	files["u1@example.com"] = []ledger.Message{answer, answer}
	if got := w.Ledger.Check("x", files); got.Doubled != 1 {
		t.Errorf("the answer is there twice: %+v", got)
	}
}

// TestPlannerRefused checks that each missing effect at the server is an error, and that nothing is acknowledged.
func TestPlannerRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		do                 workload.Verb
		method, says, kind string
	}{
		{workload.Calendar, "Calendar/get", `["Calendar/get",{"list":[]},"c0"]`, "no calendar"},
		{workload.Calendar, "CalendarEvent/query", `["CalendarEvent/query",{"ids":["v1","v2"]},"c0"],` +
			`["CalendarEvent/get",{"list":[{"id":"v1"}]},"c1"]`, "a list without all of its events"},
		{workload.Invite, "CalendarEvent/set", `["CalendarEvent/set",{"notCreated":{"e":{"type":"overQuota"}}},"c0"]`,
			"overQuota"},
		{workload.Appointment, "CalendarEvent/set", `["error",{"type":"forbidden"},"c0"]`, "forbidden"},
		{workload.RSVP, "CalendarEvent/get", `["CalendarEvent/get",{"list":[]},"c0"]`,
			"an invitation that waits is not found"},
		{workload.RSVP, "CalendarEvent/set", `["CalendarEvent/set",{"notUpdated":{"v1":{"type":"forbidden"}}},"c0"]`,
			"forbidden"},
	} {
		p, w := playPlanner(t)
		w.Ledger = ledger.New()
		s := p.open(t, w)
		p.says(c.method, c.says)
		var refused *Refusal
		if _, err := act(s, c.do); Kind(err) != c.kind || !errors.As(err, &refused) {
			t.Errorf("%s, %s: %v, want %s", c.do, c.says, err, c.kind)
		}
		if v := w.Ledger.Check("x", map[string][]ledger.Message{"u0@example.com": nil,
			"u1@example.com": nil}); v.Acknowledged != 0 {
			t.Errorf("%s: %+v", c.do, v)
		}
	}
	p, w := playPlanner(t)
	s := p.open(t, w)
	p.says("CalendarEvent/query", `["CalendarEvent/query",{"ids":["v1"]},"c0"],["CalendarEvent/get",{"list":[`+
		invited("declined")+`]},"c1"]`)
	if _, err := act(s, workload.RSVP); !errors.Is(err, ErrNothing) {
		t.Errorf("nothing waits: %v", err)
	}
}

// TestWithoutCalendars checks that invitations and answers are mail at a server without calendars, that an invitation
// is read before it is answered, and that the rest has nothing to do.
func TestWithoutCalendars(t *testing.T) {
	t.Parallel()
	p, w := playJMAP(t)
	s := p.open(t, w)
	for do, want := range map[workload.Verb]error{workload.Open: nil, workload.Calendar: ErrNothing,
		workload.Appointment: ErrNothing, workload.Invite: nil} {
		if _, err := act(s, do); !errors.Is(err, want) {
			t.Errorf("%s: %v", do, err)
		}
	}
	p.asked = nil
	if _, err := act(s, workload.RSVP); err != nil {
		t.Error(err)
	}
	read := slices.IndexFunc(p.asked, func(s string) bool { return strings.Contains(s, `"Email/get"`) })
	sent := slices.IndexFunc(p.asked, func(s string) bool { return strings.Contains(s, `"Email/import"`) })
	if read < 0 || sent < read {
		t.Errorf("asked: %q", p.asked)
	}
	c, err := w.Capabilities(context.Background(), &w.Users[0])
	if err != nil || c != (Capabilities{Mail: true, Submission: true, Events: true}) {
		t.Error(c, err)
	}
	if _, err := w.Events(context.Background(), &w.Users[0]); err == nil {
		t.Error("the ledger reads calendars that are not there")
	}
}

// TestDeletedInvitation checks that an invitation whose mail the user has deleted is not answered.
func TestDeletedInvitation(t *testing.T) {
	t.Parallel()
	p, w := playJMAP(t)
	p.says("Email/set", `["Email/set",{"destroyed":["e2"]},"c0"]`)
	s := p.open(t, w)
	if _, err := act(s, workload.Open); err != nil {
		t.Fatal(err)
	}
	s.known = []string{"e2"}
	if _, err := act(s, workload.Delete); err != nil {
		t.Fatal(err)
	}
	if _, err := act(s, workload.RSVP); !errors.Is(err, ErrNothing) {
		t.Error(err)
	}
}

// TestEvents checks the events and acceptances that a ledger reads, and that a calendar is emptied without a message.
func TestEvents(t *testing.T) {
	t.Parallel()
	p, w := playPlanner(t)
	own := strings.NewReplacer("u1@", "u0@", "U0@", "Guest@").Replace(invited("accepted"))
	p.says("CalendarEvent/query", `["CalendarEvent/query",{"ids":["v1","v2","v3"]},"c0"],`+
		`["CalendarEvent/get",{"list":[`+own+","+invited("accepted")+`,{"id":"v3","uid":"run.9"}]},"c1"]`)
	list, err := w.Events(context.Background(), &w.Users[0])
	want := []ledger.Message{{Folder: ledger.Calendar, ID: "run.7"},
		{Folder: ledger.Calendar, ID: ledger.AnswerID("run.7", "guest@example.com")},
		{Folder: ledger.Calendar, ID: "run.7"}, {Folder: ledger.Calendar, ID: "run.9"}}
	if err != nil || !slices.Equal(list, want) {
		t.Errorf("%+v, %v", list, err)
	}
	p.asked = nil
	p.then("CalendarEvent/query", `["CalendarEvent/query",{"ids":["v1"]},"c0"]`,
		`["CalendarEvent/query",{"ids":[]},"c0"]`)
	n, err := emptyCalendar(context.Background(), w, &w.Users[0])
	if all := strings.Join(p.asked, "\n"); n != 1 || err != nil || !strings.Contains(all, `"destroy":["v1"]`) ||
		!strings.Contains(all, `"sendSchedulingMessages":false`) {
		t.Error(n, err, all)
	}
}
