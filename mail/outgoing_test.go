package mail

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"doublet/directory"
	"doublet/mail/outbound/sink"
	"doublet/note"
	"doublet/wire/smtp"
)

// TestRelayed checks that a sender who asked for a report is told if the message was relayed to a server without DSN.
func TestRelayed(t *testing.T) {
	t.Parallel()
	f := openFar(t, Options{}, sink.Options{Extensions: []string{"PIPELINING"}})
	sender := f.person("sender")
	sub := f.from("sender@example.com", "u@far.example", "v@far.example")
	sub.Recipients[0].Params.Notify = smtp.NotifySuccess
	sub.Params.EnvID = "x"
	f.deposit(sub)
	f.flush()
	f.queue(0)
	p := parseReport(t, f.has(sender, 1)[0])
	p.field(t, 1, "Action", "relayed")
	p.field(t, 1, "Status", "2.0.0")
	p.field(t, 1, "Remote-MTA", "dns; mx.far.example")
	if len(p.status) != 2 {
		t.Errorf("%s", p.bodies[1])
	}
	if got := f.sink.Messages(); len(got) != 1 || got[0].From != "<sender@example.com>" ||
		strings.Contains(got[0].To[0], "NOTIFY") {
		t.Errorf("%+v", got)
	}
}

func TestRoutes(t *testing.T) {
	t.Parallel()
	f := openFar(t, Options{}, sink.Options{Extensions: []string{"AUTH PLAIN LOGIN"}})
	add := func(r directory.RouteFields) {
		t.Helper()
		_, err := f.people.Routes.Add(bg, note.System, r)
		f.ok(err)
	}
	add(directory.RouteFields{Pattern: "*", Host: "127.0.0.1", Port: f.sink.Port(), User: "me", Password: "secret"})
	add(directory.RouteFields{Pattern: "*.Held.example", Hold: true})
	add(directory.RouteFields{Pattern: "far.example"})
	f.deposit(f.from("alice@example.com", "u@nowhere.example", "v@elsewhere.example", "w@sub.held.example"))
	f.deposit(f.from("alice@example.com", "x@far.example"))
	f.flush()
	got := f.sink.Messages()
	if len(got) != 2 {
		t.Fatalf("%+v", got)
	}
	slices.SortFunc(got, func(a, b sink.Message) int { return len(a.To) - len(b.To) })
	if got[0].User != "" || got[1].User != "me:secret" || len(got[1].To) != 2 {
		t.Errorf("%+v", got)
	}
	e := f.queue(1)[0]
	f.Router.Known(bg, &e)
	if len(e.Recipients) != 1 || e.Recipients[0].Reply != "the route is on hold" {
		t.Errorf("%+v", e)
	}
	r, err := f.people.Routes.Named(bg, "*.held.example")
	f.ok(err)
	_, err = f.people.Routes.Set(bg, note.System, r.ID,
		func(f *directory.RouteFields) error { f.Hold = false; return nil })
	f.ok(err)
	f.zone.Add("sub.held.example. IN MX 10 mx.far.example.\n")
	f.flush()
	f.queue(0)
	if f.sink.Count() != 3 {
		t.Errorf("%d messages", f.sink.Count())
	}
}

func TestUrgency(t *testing.T) {
	t.Parallel()
	f := openFar(t, Options{PerDestination: 1}, sink.Options{})
	for i, field := range []string{"", "Priority: non-urgent\r\n", "Importance: High\r\n", "X-Priority: 5 (Lowest)\r\n",
		"X-Priority: 1\r\n", ""} {
		sub := f.from("alice@example.com", fmt.Sprintf("u%d@far.example", i))
		sub.Message = []byte(field + plain)
		f.deposit(sub)
	}
	f.flush()
	order := ""
	for _, m := range f.sink.Messages() {
		order += m.To[0][2:3]
	}
	if order != "240513" {
		t.Errorf("sent in the order %s", order)
	}
}

// TestBoxes checks that entries are spread over several mail.box databases, and that all operations read all of them.
func TestBoxes(t *testing.T) {
	t.Parallel()
	f := openFar(t, Options{Boxes: 4}, sink.Options{})
	sender := f.person("sender")
	var ids []note.UNID
	for i := range 40 {
		sub := f.from("sender@example.com", fmt.Sprintf("u%d@far.example", i), "u@null.example")
		f.deposit(sub)
		ids = append(ids, sub.ID)
	}
	f.zone.Add("null.example. IN MX 0 .\n")
	used := map[note.DatabaseID]bool{}
	for _, e := range f.queue(40) {
		used[e.Box()] = true
	}
	if len(used) != 4 {
		t.Errorf("boxes %v", used)
	}
	for _, id := range ids[:8] {
		f.ok(f.Hold(bg, id))
		if e, _, err := f.Show(bg, id); err != nil || !e.Held {
			t.Error(e, err)
		}
	}
	f.ok(f.Drop(bg, ids[0]))
	var listed int
	for after := ""; ; {
		list, next, err := f.Queue.List(bg, 7, after)
		f.ok(err)
		listed += len(list)
		if after = next; after == "" {
			break
		}
	}
	if listed != 39 {
		t.Errorf("%d listed", listed)
	}
	f.flush()
	f.queue(7)
	// With fewer boxes, messages in the other ones are still sent.
	f.opt.Boxes = 1
	f.stop()
	f.closed = false
	f.start()
	for _, id := range ids[1:8] {
		f.ok(f.Moderation.Release(bg, id))
	}
	f.flush()
	f.queue(0)
	if f.sink.Count() != 39 {
		t.Errorf("%d messages arrived", f.sink.Count())
	}
	f.has(sender, 39)
}

func TestTrace(t *testing.T) {
	t.Parallel()
	f := openFar(t, Options{}, sink.Options{Reply: once("RCPT TO:<u@", "451 4.7.1 later")})
	alice := f.person("alice")
	sub := f.from("alice@example.com", "u@far.example", "alice@example.com")
	f.deposit(sub)
	f.flush()
	events := func(what string) string {
		hops, err := f.Trace.Find(bg, what)
		f.ok(err)
		out := ""
		for _, h := range hops {
			out += string(h.Event) + " "
			if h.ID != sub.ID || h.MessageID != "<1@far.example>" || h.To != "u@far.example" ||
				h.From != "alice@example.com" || h.Accepted.IsZero() {
				t.Errorf("%+v", h)
			}
		}
		return out
	}
	if got := events("u@far.example"); got != "deferred waiting " {
		t.Error(got)
	}
	f.after(time.Hour)
	for _, what := range []string{"U@far.example", "alice@example.com", sub.ID.String(), "1@far.example",
		"<1@far.example>"} {
		if got := events(what); got != "deferred sent " {
			t.Errorf("%s: %s", what, got)
		}
	}
	if hops, _ := f.Trace.Find(bg, "u@far.example"); hops[1].Host != "mx.far.example[127.0.0.1]" ||
		hops[1].Reply != "250 2.0.0 taken" {
		t.Errorf("%+v", hops)
	}
	if at, found, err := f.Trace.Delivered(bg, sub.ID, "alice@example.com"); err != nil || !found || at.IsZero() {
		t.Error(at, found, err)
	}
	if _, found, err := f.Trace.Delivered(bg, note.UNID{1}, "alice@example.com"); err != nil || found {
		t.Error(found, err)
	}
	f.has(alice, 1)
	f.clock.advance(8 * 24 * time.Hour)
	f.deposit(f.from("alice@example.com", "w@far.example"))
	f.flush()
	f.after(2 * time.Hour)
	if got := events("u@far.example"); got != "" {
		t.Errorf("remembered too long: %s", got)
	}
}

func TestSendLimits(t *testing.T) {
	t.Parallel()
	f := openFar(t, Options{MessagesPerDay: 2, RecipientsPerDay: 5}, sink.Options{})
	f.person("bob")
	send := func(who note.Who, to ...string) error {
		sub := f.from("alice@example.com", to...)
		sub.Submitter = &Submitter{Who: who, Address: "alice@example.com"}
		sub.Message = []byte("Subject: x\r\n\r\nx\r\n")
		_, err := f.Deposits.Deposit(bg, sub, nil)
		return err
	}
	alice := f.person("alice")
	who := note.Who{Person: alice.ID}
	f.ok(send(who, "a@far.example"))
	if err := send(who, "a@far.example", "b@far.example", "c@far.example", "d@far.example",
		"e@far.example"); replyCode(err) != "450 4.7.1" {
		t.Error(err)
	}
	f.ok(send(who, "a@far.example"))
	if err := send(who, "a@far.example"); replyCode(err) != "450 4.7.1" {
		t.Error(err)
	}
	f.ok(send(who, "bob@example.com")) // a local recipient does not count
	f.ok(send(note.Who{Person: note.UNID{2}}, "a@far.example"))
	f.ok(send(note.Who{Person: alice.ID, Roles: []string{RoleBulk}}, "a@far.example"))
	// The counts persist across a restart.
	again := f.Router.opt
	f.ok(f.memory.Flush(bg))
	s, err := Open(f.db, f.fix.Env, f.people, f.files, *again)
	f.ok(err)
	f.Service = s
	if err := send(who, "a@far.example"); replyCode(err) != "450 4.7.1" {
		t.Error(err)
	}
	f.ok(send(note.Who{Person: note.UNID{2}}, "a@far.example"))
	if err := send(note.Who{Person: note.UNID{2}}, "a@far.example"); replyCode(err) != "450 4.7.1" {
		t.Error(err)
	}
	f.clock.advance(24 * time.Hour)
	f.ok(send(who, "a@far.example"))
	f.clock.advance(24 * time.Hour)
	if _, err := Open(f.db, f.fix.Env, f.people, f.files, *again); err != nil {
		t.Fatal(err)
	}
	f.ok(again.Keep.Each(bg, func(string, string) { t.Error("counts of yesterday are kept") }))
}
