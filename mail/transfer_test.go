package mail

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"doublet/client/dns"
	"doublet/client/dns/zone"
	"doublet/env"
	"doublet/mail/outbound"
	"doublet/mail/outbound/sink"
	"doublet/mail/queue"
	"doublet/wire/smtp"
)

// shifted is the real clock plus an offset that the test sets, because sockets need real time.
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

// far is a server with simulated remote servers: a DNS zone, and a sink at 127.0.0.1 for the domain far.example.
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

// flush does all due work.
func (f *far) flush() {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(bg, 30*time.Second)
	defer cancel()
	f.ok(f.Router.Flush(ctx))
}

// after does the work that is due after a time.
func (f *far) after(d time.Duration) {
	f.t.Helper()
	f.clock.advance(d)
	f.flush()
}

// once returns a Reply function that gives each reply once, in order, to lines with a prefix. After that the normal
// replies follow.
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
	if !strings.HasPrefix(m.Data, "Received: ") || !strings.HasSuffix(m.Data, plain) ||
		strings.Contains(m.Data, "Return-Path") {
		t.Errorf("sent:\n%s", m.Data)
	}
	if want := fmt.Sprintf("<alice@example.com> SIZE=%d RET=HDRS ENVID=e+201", len(m.Data)); m.From != want {
		t.Errorf("MAIL FROM:%s, want %s", m.From, want)
	}
	if m.To[0] != "<u0@far.example> NOTIFY=FAILURE ORCPT=rfc822;x@far.example" {
		t.Errorf("RCPT TO:%s", m.To)
	}
	f.shows("Mail.Transferred = 10", "Mail.Waiting = 0", "Mail.WaitingRecipients = 0", "Mail.WaitingForTransfer = 0",
		"Mail.Transfer.Appointments = 0", "Mail.Transfer.Destinations = 0")
}

// TestTransferRecipients checks that the recipients of one transaction can have different outcomes.
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
	if len(e.Recipients) != 1 || q.Address != "grey@far.example" || q.Attempts != 1 ||
		q.Reply != "451 4.7.1 greylisted" ||
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

// TestTransferBreaks checks that a message is sent later, and nothing is lost, wherever the connection breaks.
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
			if q := e.Recipients[0]; q.State != queue.Waiting || q.Attempts != 1 || q.Reply == "" ||
				f.sink.Count() != 0 {
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

// TestTransferIdleCut checks that, if the server closes an idle connection, the next message is sent at once over a new
// one.
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

// TestDeadDestination checks that an unreachable destination costs one connection attempt for all its messages and does
// not delay others. Its senders get a notice after four hours, and the messages are returned after five days.
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
	if d := f.Router.Destinations(); len(d) != 1 || d[0].Destination != "dead.example" || d[0].Failures != 1 ||
		d[0].Due+d[0].Waiting != 31 || !strings.Contains(d[0].Reply, "refused") {
		t.Errorf("%+v", d)
	}
	e, _, err := f.Show(bg, sub.ID)
	f.ok(err)
	f.Router.Known(bg, &e)
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

// TestRetryReachesDeadDestination checks that an administrator's retry ignores the suspension of a destination.
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

// TestCrashAfterAnswer checks that a power failure between a server's reply and its recording causes a second transfer,
// but no loss.
func TestCrashAfterAnswer(t *testing.T) {
	t.Parallel()
	f := openFar(t, Options{}, sink.Options{})
	f.deposit(f.from("alice@example.com", "u@far.example"))
	var crashed *env.Fixture
	f.Router.outcomes.beforeSettle = func() { crashed = f.fix.Crash(0, 1) }
	f.flush()
	if f.sink.Count() != 1 || crashed == nil {
		t.Fatal("not sent")
	}
	after := openOn(t, crashed, f.opt)
	after.queue(1)
	after.ok(after.Router.Flush(bg))
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
			if got := f.sink.Messages(); len(reports) != 0 || len(got) == 0 ||
				!strings.HasPrefix(got[len(got)-1].To[0], "<u@"+domain+">") {
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

// TestRunSends runs the router, which deposits wake up, with many connections and destinations. Each message arrives
// once.
func TestRunSends(t *testing.T) {
	t.Parallel()
	f := openFar(t, Options{Boxes: 3, Connections: 5, PerDestination: 2, PerConnection: 7,
		IdleTimeout: 10 * time.Millisecond}, sink.Options{})
	var records strings.Builder
	for i := range 20 {
		fmt.Fprintf(&records, "d%d.example. IN MX 10 mx.far.example.\n", i)
	}
	f.zone.Add(records.String())
	ctx, cancel := context.WithCancel(bg)
	ended := make(chan error, 1)
	f.fix.Env.Go("router", func() { ended <- f.Router.Run(ctx) })
	empty := make(chan struct{}, 1)
	for _, box := range f.Queue.Boxes.Led() {
		stop, err := f.db.Watch(box.ID, func() { nudge(empty) })
		f.ok(err)
		defer stop()
	}
	const n = 200
	var group sync.WaitGroup
	for g := range 4 {
		group.Go(func() {
			for i := g; i < n; i += 4 {
				sub := f.from("alice@example.com", fmt.Sprintf("u%d@d%d.example", i, i%20),
					fmt.Sprintf("v%d@d%d.example", i, (i+7)%20))
				if _, err := f.Deposits.Deposit(bg, sub, nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	for {
		list, _, err := f.Queue.List(bg, 1, "")
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
