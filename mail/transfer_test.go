package mail

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"doublet/client/dns"
	"doublet/client/dns/zone"
	"doublet/directory"
	"doublet/env"
	"doublet/mail/outbound"
	"doublet/mail/outbound/sink"
	"doublet/note"
	"doublet/wire/smtp"
)

// shifted is the real clock, moved on by a test: sockets know no other time.
type shifted struct {
	mu sync.Mutex
	by time.Duration
}

func (c *shifted) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.by)
}
func (c *shifted) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.by += d
}
func (c *shifted) After(d time.Duration) <-chan time.Time { return time.After(d) }
func (c *shifted) Sleep(d time.Duration)                  { time.Sleep(d) }
func (c *shifted) AfterFunc(d time.Duration, f func()) func() bool {
	return time.AfterFunc(d, f).Stop
}

// far is a server with the servers of others around it: a zone, and a sink at 127.0.0.1 whose
// domain is far.example.
type far struct {
	*world
	clock *shifted
	zone  *zone.Server
	sink  *sink.Server
}

const farZone = `
far.example. IN MX 10 mx.far.example.
mx.far.example. IN A 127.0.0.1
`

func openFar(t *testing.T, o Options, s sink.Options) *far {
	t.Helper()
	fix := env.TestRealTime(t)
	f := &far{clock: &shifted{}, zone: zone.Start(t, farZone)}
	fix.Env.Clock = f.clock
	var err error
	if f.sink, err = sink.New(fix.Env, "127.0.0.1:0", s); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.sink.Close)
	o.Mailer = f.mailer(fix.Env)
	f.world = openOn(t, fix, o)
	return f
}

func (f *far) mailer(e *env.Env) *outbound.Mailer {
	return outbound.New(e, outbound.Options{
		Hostname: "mx.example.com", Port: f.sink.Port(), Timeout: 10 * time.Second, ConnectTimeout: 5 * time.Second,
		Resolver: dns.New(e, dns.Options{Servers: []string{f.zone.Addr()}, Timeout: time.Second, Attempts: 1}),
	})
}

// flush does all that is due.
func (f *far) flush() {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(bg, 30*time.Second)
	defer cancel()
	f.ok(f.Flush(ctx))
}

// after does what is due after a time.
func (f *far) after(d time.Duration) {
	f.t.Helper()
	f.clock.advance(d)
	f.flush()
}

// once is a Reply that answers lines which begin so with the replies given, one after the other, and
// then as ever.
func once(prefix string, replies ...string) func(int, string) string {
	var mu sync.Mutex
	return func(_ int, line string) string {
		mu.Lock()
		defer mu.Unlock()
		if !strings.HasPrefix(line, prefix) || len(replies) == 0 {
			return ""
		}
		r := replies[0]
		replies = replies[1:]
		return r
	}
}

func TestTransfer(t *testing.T) {
	t.Parallel()
	f := openFar(t, Options{PerDestination: 1}, sink.Options{})
	for i := range 10 {
		sub := f.from("alice@example.com", fmt.Sprintf("u%d@far.example", i))
		sub.Params.EnvID, sub.Params.Ret = "e 1", smtp.RetHeaders
		sub.Recipients[0].Params = smtp.RcptParams{Notify: smtp.NotifyFailure, ORcpt: "rfc822;x@far.example"}
		f.deposit(sub)
	}
	f.flush()
	f.queue(0)
	got := f.sink.Messages()
	if len(got) != 10 || f.sink.Sessions() != 1 {
		t.Fatalf("%d messages over %d connections", len(got), f.sink.Sessions())
	}
	m := got[0]
	if !strings.HasPrefix(m.Data, "Received: ") || !strings.HasSuffix(m.Data, plain) || strings.Contains(m.Data, "Return-Path") {
		t.Errorf("sent:\n%s", m.Data)
	}
	if want := fmt.Sprintf("<alice@example.com> SIZE=%d RET=HDRS ENVID=e+201", len(m.Data)); m.From != want {
		t.Errorf("MAIL FROM:%s, want %s", m.From, want)
	}
	if m.To[0] != "<u0@far.example> NOTIFY=FAILURE ORCPT=rfc822;x@far.example" {
		t.Errorf("RCPT TO:%s", m.To)
	}
	f.shows("Mail.Transferred = 10", "Mail.Waiting = 0", "Mail.WaitingRecipients = 0", "Mail.WaitingForTransfer = 0", "Mail.Transfer.Appointments = 0", "Mail.Transfer.Destinations = 0")
}

// TestTransferRecipients: each recipient of one transaction has a fate of its own.
func TestTransferRecipients(t *testing.T) {
	t.Parallel()
	first := map[string]bool{}
	var mu sync.Mutex
	f := openFar(t, Options{}, sink.Options{Reply: func(_ int, line string) string {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case strings.HasPrefix(line, "RCPT TO:<bad@"):
			return "550 5.1.1 nobody of that name"
		case strings.HasPrefix(line, "RCPT TO:<grey@") && !first[line]:
			first[line] = true
			return "451 4.7.1 greylisted"
		}
		return ""
	}})
	sender := f.person("sender")
	f.deposit(f.from("sender@example.com", "good@far.example", "bad@far.example", "grey@far.example"))
	f.flush()
	if got := f.sink.Messages(); len(got) != 1 || len(got[0].To) != 1 {
		t.Fatalf("%+v", got)
	}
	e := f.queue(1)[0]
	q := e.Recipients[0]
	if len(e.Recipients) != 1 || q.Address != "grey@far.example" || q.Attempts != 1 || q.Reply != "451 4.7.1 greylisted" ||
		!strings.HasPrefix(q.Remote, "mx.far.example[127.0.0.1]") || q.Next.Sub(f.clock.Now()) > 5*time.Minute {
		t.Fatalf("%+v", e)
	}
	p := parseReport(t, f.has(sender, 1)[0])
	p.field(t, 1, "Final-Recipient", "rfc822;bad@far.example")
	p.field(t, 1, "Action", "failed")
	p.field(t, 1, "Status", "5.1.1")
	p.field(t, 1, "Remote-MTA", "dns; mx.far.example")
	p.field(t, 1, "Diagnostic-Code", "smtp; 550 5.1.1 nobody of that name")
	f.flush() // before its time
	if f.sink.Count() != 1 {
		t.Fatal("sent before it was due")
	}
	f.after(5 * time.Minute)
	f.queue(0)
	if f.sink.Count() != 2 {
		t.Fatalf("%+v", f.sink.Messages())
	}
	f.shows("Mail.Transferred = 2", "Mail.TransferFailures = 1")
}

// TestTransferBreaks: whatever breaks off, the message is sent later and nothing is lost.
func TestTransferBreaks(t *testing.T) {
	t.Parallel()
	for name, reply := range map[string]func(int, string) string{
		"in the data":         once("data", sink.Cut),
		"before the answer":   once(".", sink.Cut),
		"at MAIL":             once("MAIL", sink.Cut),
		"at RCPT":             once("RCPT", sink.Cut),
		"421 at MAIL":         once("MAIL", "421 4.3.2 going down"),
		"421 at the greeting": once("greeting", "421 4.3.2 busy"),
		"554 at the greeting": once("greeting", "554 5.7.1 go away"),
		"4xx at EHLO":         once("EHLO", "451 4.3.0 not now"),
		"4xx after the data":  once(".", "451 4.3.0 not now"),
		"4xx at DATA":         once("DATA", "451 4.3.0 not now"),
		"garbage":             once("greeting", "hello my friend"),
		"garbage at RCPT":     once("RCPT", "999999"),
		"long garbage":        once("EHLO", strings.Repeat("250-x", 5000)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := openFar(t, Options{}, sink.Options{Reply: reply})
			f.deposit(f.from("alice@example.com", "u@far.example"))
			f.flush()
			e := f.queue(1)[0]
			if q := e.Recipients[0]; q.State != Waiting || q.Attempts != 1 || q.Reply == "" || f.sink.Count() != 0 {
				t.Fatalf("%+v", q)
			}
			f.after(6 * time.Minute)
			f.queue(0)
			if f.sink.Count() != 1 {
				t.Fatalf("%d messages arrived", f.sink.Count())
			}
		})
	}
}

// TestTransferIdleCut: a server may close a connection that is kept for more; the next message goes
// over another one, at once.
func TestTransferIdleCut(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	mails := 0
	f := openFar(t, Options{PerDestination: 1}, sink.Options{Reply: func(_ int, line string) string {
		mu.Lock()
		defer mu.Unlock()
		if strings.HasPrefix(line, "MAIL") {
			if mails++; mails == 2 {
				return sink.Cut
			}
		}
		return ""
	}})
	f.deposit(f.from("alice@example.com", "u@far.example"))
	f.deposit(f.from("alice@example.com", "v@far.example"))
	f.flush()
	f.queue(0)
	if f.sink.Count() != 2 || f.sink.Sessions() != 2 {
		t.Errorf("%d messages over %d connections", f.sink.Count(), f.sink.Sessions())
	}
}

// TestDeadDestination: a destination that cannot be reached costs one connection for all its
// messages, holds up no other, tells senders after four hours and gives up after five days.
func TestDeadDestination(t *testing.T) {
	t.Parallel()
	f := openFar(t, Options{Connections: 3}, sink.Options{})
	f.zone.Add("dead.example. IN MX 10 mx.dead.example.\nmx.dead.example. IN A 127.0.0.9\n")
	sender := f.person("sender")
	for range 30 {
		f.deposit(f.from("", "u@dead.example"))
	}
	sub := f.from("sender@example.com", "u@dead.example", "quiet@dead.example")
	sub.Recipients[1].Params.Notify = smtp.NotifyFailure
	f.deposit(sub)
	f.deposit(f.from("sender@example.com", "u@far.example"))
	f.flush()
	f.shows("Mail.Transfer.Unreachable = 1")
	if f.sink.Count() != 1 {
		t.Fatal("another destination was held up")
	}
	tried := 0
	for _, e := range f.queue(31) {
		tried += e.Recipients[0].Attempts
	}
	if tried != 1 {
		t.Errorf("%d attempts for one dead destination", tried)
	}
	if d := f.Destinations(); len(d) != 1 || d[0].Destination != "dead.example" || d[0].Failures != 1 || d[0].Due+d[0].Waiting != 31 || !strings.Contains(d[0].Reply, "refused") {
		t.Errorf("%+v", d)
	}
	e, _, err := f.Show(bg, sub.ID)
	f.ok(err)
	f.Known(bg, &e)
	if q := e.Recipients[0]; !strings.Contains(q.Reply, "mx.dead.example[127.0.0.9]") || q.Next.IsZero() {
		t.Errorf("%+v", q)
	}
	f.after(4*time.Hour + time.Minute)
	p := parseReport(t, f.has(sender, 1)[0])
	p.field(t, 1, "Action", "delayed")
	p.field(t, 1, "Status", "4.4.1")
	p.field(t, 1, "Final-Recipient", "rfc822;u@dead.example")
	if len(p.status) != 2 {
		t.Errorf("told of one who does not want it:\n%s", p.bodies[1])
	}
	f.after(time.Hour)
	f.has(sender, 1) // once
	f.after(5 * 24 * time.Hour)
	p = parseReport(t, f.has(sender, 2)[1])
	p.field(t, 1, "Action", "failed")
	p.field(t, 1, "Status", "5.4.7")
	if len(p.status) != 3 || !strings.Contains(p.bodies[1], "refused") {
		t.Errorf("%s", p.bodies[1])
	}
	for _, e := range f.queue(30) {
		if !e.Dead {
			t.Fatalf("%+v", e)
		}
	}
	f.after(31 * 24 * time.Hour)
	f.queue(0)
}

// TestRetryReachesDeadDestination: an administrator need not wait.
func TestRetryReachesDeadDestination(t *testing.T) {
	t.Parallel()
	f := openFar(t, Options{}, sink.Options{Reply: once("greeting", "421 4.3.2 busy")})
	sub := f.from("alice@example.com", "u@far.example")
	f.deposit(sub)
	f.flush()
	f.queue(1)
	f.ok(f.Retry(bg, sub.ID))
	f.flush()
	f.queue(0)
}

// TestCrashAfterAnswer: a power cut between a server's answer and what it changes here sends twice,
// and loses nothing.
func TestCrashAfterAnswer(t *testing.T) {
	t.Parallel()
	f := openFar(t, Options{}, sink.Options{})
	f.deposit(f.from("alice@example.com", "u@far.example"))
	var crashed *env.Fixture
	f.beforeSettle = func() { crashed = f.fix.Crash(0, 1) }
	f.flush()
	if f.sink.Count() != 1 || crashed == nil {
		t.Fatal("not sent")
	}
	after := openOn(t, crashed, f.opt)
	after.queue(1)
	after.ok(after.Flush(bg))
	after.queue(0)
	if f.sink.Count() != 2 {
		t.Errorf("%d messages arrived", f.sink.Count())
	}
	last := openOn(t, after.fix.Crash(0, 2), f.opt)
	last.queue(0)
}

func TestNoSuchDestination(t *testing.T) {
	t.Parallel()
	f := openFar(t, Options{}, sink.Options{})
	f.zone.Add(`
null.example. IN MX 0 .
loop.example. IN MX 10 MX.example.com.
loop.example. IN MX 20 mx.far.example.
backup.example. IN MX 10 mx.far.example.
backup.example. IN MX 20 mx.example.com.
backup.example. IN MX 30 mx.dead.example.
addr.example. IN A 127.0.0.1
ghost.example. IN MX 10 nowhere.example.
many.example. IN MX 10 mx.dead.example.
many.example. IN MX 20 mx.far.example.
mx.dead.example. IN A 127.0.0.9
`)
	f.zone.Fail("servfail.example", zone.ServFail)
	people := 0
	for domain, status := range map[string]string{
		"null.example": "5.1.10", "loop.example": "5.4.6", "nothing.example": "5.1.2", "ghost.example": "5.1.2",
		"backup.example": "", "addr.example": "", "many.example": "", "[127.0.0.1]": "", "FAR.example": "",
	} {
		people++
		sender := f.person(fmt.Sprintf("sender%d", people))
		f.deposit(f.from(sender.InternetAddress, "u@"+domain))
		f.flush()
		f.queue(0)
		reports := f.inbox(sender.MailDatabase)
		if status == "" {
			if got := f.sink.Messages(); len(reports) != 0 || len(got) == 0 || !strings.HasPrefix(got[len(got)-1].To[0], "<u@"+domain+">") {
				t.Fatalf("%s: %v, %v", domain, got, reports)
			}
			continue
		}
		if len(reports) != 1 {
			t.Fatalf("%s: %d reports", domain, len(reports))
		}
		parseReport(t, reports[0]).field(t, 1, "Status", status)
	}
	f.deposit(f.from("", "u@servfail.example"))
	f.flush()
	if q := f.queue(1)[0].Recipients[0]; !strings.HasPrefix(q.Reply, "451 4.4.3") {
		t.Errorf("%+v", q)
	}
}

// TestRelayed: where a server knows nothing of DSN, the sender who asked hears that it was handed on.
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
	if got := f.sink.Messages(); len(got) != 1 || got[0].From != "<sender@example.com>" || strings.Contains(got[0].To[0], "NOTIFY") {
		t.Errorf("%+v", got)
	}
}

func TestRoutes(t *testing.T) {
	t.Parallel()
	f := openFar(t, Options{}, sink.Options{Extensions: []string{"AUTH PLAIN LOGIN"}})
	add := func(r directory.RouteFields) {
		t.Helper()
		_, err := f.people.AddRoute(bg, note.System, r)
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
	f.Known(bg, &e)
	if len(e.Recipients) != 1 || e.Recipients[0].Reply != "the route is on hold" {
		t.Errorf("%+v", e)
	}
	r, err := f.people.RouteNamed(bg, "*.held.example")
	f.ok(err)
	_, err = f.people.SetRoute(bg, note.System, r.ID, func(f *directory.RouteFields) error { f.Hold = false; return nil })
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
	for i, field := range []string{"", "Priority: non-urgent\r\n", "Importance: High\r\n", "X-Priority: 5 (Lowest)\r\n", "X-Priority: 1\r\n", ""} {
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

// TestBoxes: entries are spread over several mail.box databases, and everything reads all of them.
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
	used := map[int]bool{}
	for _, e := range f.queue(40) {
		used[e.box] = true
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
		list, next, err := f.List(bg, 7, after)
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
	// Fewer boxes: what is in the others still goes out.
	f.opt.Boxes = 1
	f.stop()
	f.closed = false
	f.start()
	for _, id := range ids[1:8] {
		f.ok(f.Release(bg, id))
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
		hops, err := f.Trace(bg, what)
		f.ok(err)
		out := ""
		for _, h := range hops {
			out += string(h.Event) + " "
			if h.ID != sub.ID || h.MessageID != "<1@far.example>" || h.To != "u@far.example" || h.From != "alice@example.com" || h.Accepted.IsZero() {
				t.Errorf("%+v", h)
			}
		}
		return out
	}
	if got := events("u@far.example"); got != "deferred waiting " {
		t.Error(got)
	}
	f.after(time.Hour)
	for _, what := range []string{"U@far.example", "alice@example.com", sub.ID.String(), "1@far.example", "<1@far.example>"} {
		if got := events(what); got != "deferred sent " {
			t.Errorf("%s: %s", what, got)
		}
	}
	if hops, _ := f.Trace(bg, "u@far.example"); hops[1].Host != "mx.far.example[127.0.0.1]" || hops[1].Reply != "250 2.0.0 taken" {
		t.Errorf("%+v", hops)
	}
	if at, found, err := f.Delivered(bg, sub.ID, "alice@example.com"); err != nil || !found || at.IsZero() {
		t.Error(at, found, err)
	}
	if _, found, err := f.Delivered(bg, note.UNID{1}, "alice@example.com"); err != nil || found {
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
		_, err := f.Deposit(bg, sub, nil)
		return err
	}
	alice := f.person("alice")
	who := note.Who{Person: alice.ID}
	f.ok(send(who, "a@far.example"))
	if err := send(who, "a@far.example", "b@far.example", "c@far.example", "d@far.example", "e@far.example"); replyCode(err) != "450 4.7.1" {
		t.Error(err)
	}
	f.ok(send(who, "a@far.example"))
	if err := send(who, "a@far.example"); replyCode(err) != "450 4.7.1" {
		t.Error(err)
	}
	f.ok(send(who, "bob@example.com")) // that is not outside
	f.ok(send(note.Who{Person: note.UNID{2}}, "a@far.example"))
	f.ok(send(note.Who{Person: alice.ID, Roles: []string{RoleBulk}}, "a@far.example"))
	// A restart takes nothing back.
	again := f.Service.opt
	f.ok(f.memory.Flush(bg))
	s, err := Open(f.store, f.fix.Env, f.people, f.files, again)
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
	if _, err := Open(f.store, f.fix.Env, f.people, f.files, again); err != nil {
		t.Fatal(err)
	}
	f.ok(again.Keep.Each(bg, func(string, string) { t.Error("counts of yesterday are kept") }))
}

// signer signs for far.example, and counts.
type signer struct{ made atomic.Int32 }

func (g *signer) Header(_ context.Context, domain string, message []byte) ([]byte, error) {
	if domain != "far.example" || !strings.HasSuffix(string(message), "world.\r\n") {
		return nil, errors.New("not ours")
	}
	return fmt.Appendf(nil, "DKIM-Signature: n%d\r\n", g.made.Add(1)), nil
}

func TestSignedAndRound(t *testing.T) {
	t.Parallel()
	f := openFar(t, Options{Signer: &signer{}}, sink.Options{})
	sender := f.person("sender")
	sub := f.from("sender@example.com", "u@far.example")
	sub.Proven = true
	f.deposit(sub)
	sub = f.from("sender@example.com", "round@far.example")
	sub.Message = []byte(strings.Repeat("Received: from x by mx.example.com; Mon, 5 Jan 2026 08:00:00 +0000\r\n", 11) + plain)
	f.deposit(sub)
	f.flush()
	if got := f.sink.Messages(); len(got) != 1 || !strings.HasPrefix(got[0].Data, "DKIM-Signature: n1\r\nReceived:") {
		t.Errorf("%+v", got)
	}
	parseReport(t, f.has(sender, 1)[0]).field(t, 1, "Status", "5.4.6")
}

// TestSignsOnce: a signature costs more than the rest of a message's way, so it is made once, however
// many destinations there are and however often they put it off, and not for a server that is not
// there.
func TestSignsOnce(t *testing.T) {
	t.Parallel()
	g := &signer{}
	f := openFar(t, Options{Signer: g}, sink.Options{Reply: once("DATA", "451 4.3.0 later")})
	f.zone.Set(farZone + "second.example. IN A 127.0.0.1\nthird.example. IN A 127.0.0.1\ndown.example. IN A 127.0.0.9\n")
	sub := f.from("eve@far.example", "u@far.example", "v@second.example", "w@third.example", "x@down.example")
	sub.Proven = true
	f.deposit(sub)
	f.flush()
	f.after(6 * time.Minute)
	if got := f.sink.Messages(); len(got) != 3 || g.made.Load() != 1 {
		t.Errorf("%d sent, %d signatures", len(got), g.made.Load())
	}
	for _, m := range f.sink.Messages() {
		if !strings.HasPrefix(m.Data, "DKIM-Signature: n1\r\n") {
			t.Errorf("%.60s", m.Data)
		}
	}
}

// TestNotSignedForStrangers: a stranger's message in the name of somebody here goes on to the address
// elsewhere that a person or a list names, and must not get the signature that would prove it.
func TestNotSignedForStrangers(t *testing.T) {
	t.Parallel()
	g := &signer{}
	f := openFar(t, Options{Signer: g}, sink.Options{})
	alice := f.person("alice")
	f.set(alice, func(p *directory.PersonFields) { p.Forward = []string{"a@far.example"} })
	_, err := f.people.AddGroup(bg, note.System, directory.GroupFields{Name: "Team", InternetAddress: "team@example.com", Members: []string{"b@far.example"}})
	f.ok(err)
	f.mailingList(func(l *directory.GroupFields) { l.List.Post, l.List.Rewrite = directory.PostAnyone, "never" }, "c@far.example")
	to := []string{"alice@example.com", "team@example.com", "chess@example.com"}
	f.deposit(f.from("eve@far.example", to...))
	f.flush()
	if got := f.sink.Messages(); len(got) != 3 || g.made.Load() != 0 {
		t.Errorf("%d sent, %d signatures", len(got), g.made.Load())
	}
	sub := f.from("eve@far.example", to...)
	sub.Proven = true
	f.deposit(sub)
	f.flush()
	if got := f.sink.Messages(); len(got) != 6 || g.made.Load() == 0 {
		t.Errorf("%d sent, %d signatures", len(got), g.made.Load())
	}
	// Who sends a colleague's message again does not prove that it is the colleague's.
	before := g.made.Load()
	sub = f.from("alice@example.com", "d@far.example")
	sub.Message = []byte("Resent-From: alice@example.com\r\n" + plain)
	who, err := f.people.WhoOf(bg, alice.ID)
	f.ok(err)
	sub.Submitter = &Submitter{Who: who, Address: "alice@example.com"}
	f.deposit(sub)
	f.flush()
	if got := f.sink.Messages(); len(got) != 7 || g.made.Load() != before {
		t.Errorf("%d sent, %d signatures more", len(got), g.made.Load()-before)
	}
}

// TestRunSends: the router itself, woken by what is deposited, with many connections and
// destinations at once; everything arrives once.
func TestRunSends(t *testing.T) {
	t.Parallel()
	f := openFar(t, Options{Boxes: 3, Connections: 5, PerDestination: 2, PerConnection: 7, IdleTimeout: 10 * time.Millisecond}, sink.Options{})
	var records strings.Builder
	for i := range 20 {
		fmt.Fprintf(&records, "d%d.example. IN MX 10 mx.far.example.\n", i)
	}
	f.zone.Add(records.String())
	ctx, cancel := context.WithCancel(bg)
	ended := make(chan error, 1)
	f.env.Go("router", func() { ended <- f.Run(ctx) })
	empty := make(chan struct{}, 1)
	for _, box := range f.boxes {
		stop, err := f.store.Watch(boxID(box), func() { nudge(empty) })
		f.ok(err)
		defer stop()
	}
	const n = 200
	var group sync.WaitGroup
	for g := range 4 {
		group.Go(func() {
			for i := g; i < n; i += 4 {
				sub := f.from("alice@example.com", fmt.Sprintf("u%d@d%d.example", i, i%20), fmt.Sprintf("v%d@d%d.example", i, (i+7)%20))
				if _, err := f.Deposit(bg, sub, nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	for {
		list, _, err := f.List(bg, 1, "")
		f.ok(err)
		if len(list) == 0 {
			break
		}
		<-empty
	}
	cancel()
	f.ok(<-ended)
	seen := map[string]int{}
	for _, m := range f.sink.Messages() {
		for _, to := range m.To {
			seen[to]++
		}
	}
	if len(seen) != 2*n {
		t.Errorf("%d recipients, want %d", len(seen), 2*n)
	}
	for to, k := range seen {
		if k != 1 {
			t.Errorf("%s got it %d times", to, k)
		}
	}
	f.shows("Mail.Transferred = 400", "Mail.WaitingRecipients = 0", "Mail.Transfer.OpenConnections = 0")
}
