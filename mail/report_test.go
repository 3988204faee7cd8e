package mail

import (
	"strings"
	"testing"
	"time"

	"doublet/directory"
	"doublet/mail/queue"
	"doublet/note"
	"doublet/wire/mime"
	"doublet/wire/smtp"
)

// parsed is a parsed report.
type parsed struct {
	raw    string
	parts  []*mime.Part
	bodies []string
	status []map[string]string // the groups of fields
}

func parseReport(t *testing.T, raw string) parsed {
	t.Helper()
	b := []byte(raw)
	root := mime.Parse(b, mime.DefaultLimits)
	if root.Type != "multipart" || root.Subtype != "report" || root.Param("report-type") != "delivery-status" ||
		len(root.Children) != 3 {
		t.Fatalf("no report (%s/%s, %d parts):\n%s", root.Type, root.Subtype, len(root.Children), raw)
	}
	p := parsed{raw: raw, parts: root.Children}
	for _, c := range root.Children {
		p.bodies = append(p.bodies, string(c.Body(b)))
	}
	for _, group := range strings.Split(strings.TrimRight(p.bodies[1], "\r\n"), "\r\n\r\n") {
		m := map[string]string{}
		for f := range mime.Fields([]byte(group + "\r\n")) {
			m[string(f.Name)] = f.Text()
		}
		p.status = append(p.status, m)
	}
	return p
}

func (p parsed) field(t *testing.T, group int, name, want string) {
	t.Helper()
	if group >= len(p.status) || p.status[group][name] != want {
		t.Errorf("group %d: field %s is not %q in\n%s", group, name, want, p.bodies[1])
	}
}

// stuck deposits a message to bob, whose mail file is full, and to alice, and lets it expire.
func (w *world) stuck(sub *Submission) {
	w.t.Helper()
	w.deposit(sub)
	w.fix.Time.Advance(25 * time.Hour)
	w.route()
}

func TestReportToLocalSender(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	alice, bob, sender := w.person("alice"), w.person("bob"), w.person("sender")
	w.quota(bob, 10)
	sub := w.from("sender@example.com", "alice@example.com", "bob@example.com")
	sub.Params.EnvID = "order+7"
	sub.Recipients[1].Params.ORcpt = "rfc822;Bob@Example.com"
	w.stuck(sub)
	w.has(alice, 1)
	w.queue(0)
	got := w.has(sender, 1)[0]
	if !strings.HasPrefix(got,
		"Return-Path: <>\r\nFrom: Mail Delivery Subsystem <postmaster@example.com>\r\nTo: <sender@example.com>\r\n") {
		t.Errorf("report begins:\n%.300s", got)
	}
	for _, want := range []string{"\r\nAuto-Submitted: auto-replied\r\n", "\r\nIn-Reply-To: <1@far.example>\r\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("report lacks %q:\n%s", want, got)
		}
	}
	p := parseReport(t, got)
	p.field(t, 0, "Reporting-MTA", "dns; mx.example.com")
	p.field(t, 0, "Original-Envelope-Id", "order+2B7")
	p.field(t, 1, "Original-Recipient", "rfc822;Bob@Example.com")
	p.field(t, 1, "Final-Recipient", "rfc822;bob@example.com")
	p.field(t, 1, "Action", "failed")
	p.field(t, 1, "Status", "5.2.2")
	p.field(t, 1, "Diagnostic-Code", "smtp; 552 5.2.2 The mail file is full")
	if len(p.status) != 2 {
		t.Errorf("status:\n%s", p.bodies[1])
	}
	if c := p.parts[2]; !c.IsMessage() || !strings.HasSuffix(p.bodies[2], strings.TrimSuffix(plain, "\r\n")) &&
		!strings.HasSuffix(p.bodies[2], plain) {
		t.Errorf("returned %s/%s:\n%s", c.Type, c.Subtype, p.bodies[2])
	}
	if strings.Contains(p.bodies[2], "Return-Path") {
		t.Error("the Return-Path field is returned too")
	}
	w.shows("Mail.TotalFailures = 1", "Mail.TotalReports = 1", "Mail.Waiting = 0", "Mail.WaitingRecipients = 0",
		"Mail.Dead = 0")
}

func TestReportReturnsHeader(t *testing.T) {
	t.Parallel()
	big := plain + strings.Repeat(strings.Repeat("x", 70)+"\r\n", 1000)
	for _, c := range []struct {
		name, message string
		ret           smtp.Ret
		whole         bool
	}{
		{"small", plain, smtp.RetUnset, true},
		{"small, header asked for", plain, smtp.RetHeaders, false},
		{"big", big, smtp.RetUnset, false},
		{"big, all asked for", big, smtp.RetFull, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := open(t, Options{})
			w.person("alice")
			bob, sender := w.person("bob"), w.person("sender")
			w.quota(bob, 10)
			sub := w.from("sender@example.com", "alice@example.com", "bob@example.com")
			sub.Message, sub.Params.Ret = []byte(c.message), c.ret
			w.stuck(sub)
			p := parseReport(t, w.has(sender, 1)[0])
			if p.parts[2].IsMessage() != c.whole || strings.Contains(p.bodies[2], "\r\n\r\nHello, world.") != c.whole {
				t.Errorf("returned %s/%s of %d bytes", p.parts[2].Type, p.parts[2].Subtype, len(p.bodies[2]))
			}
			if !strings.Contains(p.bodies[2], "Subject: hello\r\n") {
				t.Errorf("no header:\n%.500s", p.bodies[2])
			}
		})
	}
}

func TestReportNotify(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		alice    smtp.Notify // receives the message
		bob      smtp.Notify // has a full mail file
		reports  int
		actions  string
		failures string
	}{
		{"never", smtp.NotifyNever, smtp.NotifyNever, 0, "", "Mail.TotalFailures = 1"},
		{"success alone", 0, smtp.NotifySuccess, 0, "", "Mail.TotalFailures = 1"},
		{"failure", smtp.NotifyFailure, smtp.NotifyFailure, 1, "failed", "Mail.TotalFailures = 1"},
		{"success", smtp.NotifySuccess, smtp.NotifyNever, 1, "delivered", "Mail.TotalFailures = 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := open(t, Options{})
			alice, bob, sender := w.person("alice"), w.person("bob"), w.person("sender")
			w.quota(bob, 10)
			sub := w.from("sender@example.com", "alice@example.com", "bob@example.com")
			sub.Recipients[0].Params.Notify, sub.Recipients[1].Params.Notify = c.alice, c.bob
			w.stuck(sub)
			w.has(alice, 1)
			w.queue(0)
			got := w.has(sender, c.reports)
			if c.reports > 0 {
				parseReport(t, got[0]).field(t, 1, "Action", c.actions)
			}
			w.shows(c.failures, "Mail.Waiting = 0")
		})
	}
}

func TestNoReportToNullSender(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	alice, bob := w.person("alice"), w.person("bob")
	w.quota(bob, 10)
	w.stuck(w.from("", "alice@example.com", "bob@example.com"))
	w.has(alice, 1)
	e := w.queue(1)[0]
	if !e.Dead || e.Recipients[0].State != queue.Failed {
		t.Errorf("%+v", e)
	}
	w.shows("Mail.Dead = 1", "Mail.Waiting = 0", "Mail.TotalReports = 0", "Mail.TotalFailures = 1")
	// An administrator makes room and retries.
	w.quota(bob, 0)
	w.ok(w.Retry(bg, e.ID))
	w.route()
	w.has(bob, 1)
	w.queue(0)
	w.shows("Mail.Dead = 0")
}

func TestReportToStrangerWaits(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	w.person("alice")
	bob := w.person("bob")
	w.quota(bob, 10)
	w.stuck(w.from("eve@far.example", "alice@example.com", "bob@example.com"))
	e := w.queue(1)[0]
	if !e.From.IsNull() || len(e.Recipients) != 1 || e.Recipients[0].Address != "eve@far.example" ||
		e.Recipients[0].State != queue.Waiting {
		t.Fatalf("%+v", e)
	}
	raw, err := w.Queue.Message(bg, w.Queue.Boxes.KeyOf(&e), 0)
	w.ok(err)
	parseReport(t, string(raw))
	if !strings.HasPrefix(string(raw[e.ReturnPath:]), "From: ") {
		t.Errorf("%.100s", raw[e.ReturnPath:])
	}
}

func TestReportThatCannotBeDeliveredIsDead(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	w.person("alice")
	bob := w.person("bob")
	w.quota(bob, 10)
	w.stuck(w.from("nobody@example.com", "alice@example.com", "bob@example.com"))
	e := w.queue(1)[0]
	if !e.Dead || !e.From.IsNull() || e.Recipients[0].Address != "nobody@example.com" {
		t.Errorf("%+v", e)
	}
	w.shows("Mail.Dead = 1", "Mail.WaitingRecipients = 1")
}

func TestReportWaitsForRoom(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	w.person("alice")
	bob, sender := w.person("bob"), w.person("sender")
	w.quota(bob, 10)
	w.quota(sender, 10)
	w.stuck(w.from("sender@example.com", "alice@example.com", "bob@example.com"))
	w.has(sender, 0)
	if e := w.queue(1)[0]; !e.From.IsNull() || e.Recipients[0].State != queue.Pending {
		t.Fatalf("%+v", e)
	}
	w.quota(sender, 0)
	w.fix.Time.Advance(time.Hour)
	w.route()
	parseReport(t, w.has(sender, 1)[0])
	w.queue(0)
}

func TestRefusedAmongOthersIsReported(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	w.person("alice")
	w.person("bob", func(s *directory.PersonSpec) { s.SizeLimit = 20 })
	sender := w.person("sender")
	for _, err := range w.deposit(w.from("sender@example.com", "bob@example.com", "alice@example.com")) {
		if err != nil {
			t.Error(err)
		}
	}
	w.route()
	parseReport(t, w.has(sender, 1)[0]).field(t, 1, "Status", "5.2.3")
	w.queue(0)
}

func TestRemovedPersonIsReported(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	w.person("alice")
	bob, sender := w.person("bob"), w.person("sender")
	w.quota(bob, 10)
	w.deposit(w.from("sender@example.com", "bob@example.com", "alice@example.com"))
	w.ok(w.people.People.Remove(bg, note.System, bob.ID))
	w.fix.Time.Advance(time.Hour)
	w.route()
	parseReport(t, w.has(sender, 1)[0]).field(t, 1, "Status", "5.1.1")
}

func TestReportOfInternationalMail(t *testing.T) {
	t.Parallel()
	w := open(t, Options{})
	w.person("alice")
	bob := w.person("bob", func(s *directory.PersonSpec) { s.InternetAddress = "jürgen@example.com" })
	sender := w.person("sender")
	w.quota(bob, 10)
	sub := w.from("sender@example.com", "jürgen@example.com", "alice@example.com")
	sub.Message = []byte(strings.Replace(plain, "hello", "grüße", 1))
	w.stuck(sub)
	p := parseReport(t, w.has(sender, 1)[0])
	p.field(t, 1, "Final-Recipient", "utf-8;jürgen@example.com")
	if p.parts[1].Subtype != "global-delivery-status" || p.parts[2].Subtype != "global" {
		t.Errorf("%s, %s", p.parts[1].Subtype, p.parts[2].Subtype)
	}
}
