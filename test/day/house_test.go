package day

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"doublet/admin"
	"doublet/client/dns"
	"doublet/client/mtasts"
	"doublet/directory"
	"doublet/directory/password"
	"doublet/env"
	"doublet/mail"
	"doublet/mail/inbound"
	"doublet/mail/outbound"
	"doublet/mail/sign"
	"doublet/mail/trace"
	"doublet/mail/verify"
	"doublet/mailbox"
	"doublet/note"
	"doublet/serve/imapd"
	"doublet/serve/listen"
	"doublet/serve/pop3d"
	"doublet/serve/signin"
	"doublet/serve/smtpd"
	"doublet/stat"
	"doublet/store"
	"doublet/store/check"
)

var bg = context.Background()

const hostname = "mx.example.com"

// life is the server from one start to its end: all rooms of mail, composed as in the program.
type life struct {
	fix    *env.Fixture
	wire   *wire
	store  *store.Store
	people *directory.Directory
	files  *mailbox.Service
	mail   *mail.Service
	front  *listen.Server
	stats  *stat.Tree
	doors  map[string]string
	once   sync.Once
	after  chan *env.Fixture // receives the content of the disk after its end
	// flushes is called before each flush of the disk.
	flushes flushes
	gone    atomic.Bool // it has ended completely
	stop    context.CancelFunc
	routed  chan error
	// torn is closed after a panic of the storage engine because the log cannot be flushed. The real process would have
	// ended. Here the engine keeps its lock, and a goroutine that needs it waits forever.
	torn  chan struct{}
	tears sync.Once
}

// tear ends a goroutine that panicked because the log cannot be flushed, as the end of the process would.
func (l *life) tear() {
	r := recover()
	if r == nil {
		return
	}
	if err, ok := r.(error); !ok || !errors.Is(err, env.ErrInjected) {
		panic(r)
	}
	l.tears.Do(func() { close(l.torn) })
}

// flushes is a clock for env.SlowSync, which calls Sleep before each flush. It makes flushes slow, so that many
// operations are under way at any time, and calls a function at one of them.
type flushes struct {
	env.Clock
	at atomic.Pointer[func()]
	in atomic.Int64
}

func (f *flushes) Sleep(time.Duration) {
	time.Sleep(300 * time.Microsecond)
	if fn := f.at.Load(); fn != nil && f.in.Add(-1) == 0 {
		(*fn)()
	}
}

// next makes fn run before the n-th flush from now.
func (f *flushes) next(n int64, fn func()) {
	f.in.Store(n)
	f.at.Store(&fn)
}

// lifeClock is the clock of one life. After the end of that life its timers do nothing.
type lifeClock struct {
	env.Clock
	gone *atomic.Bool
}

func (c *lifeClock) AfterFunc(d time.Duration, f func()) func() bool {
	return c.Clock.AfterFunc(d, func() {
		if !c.gone.Load() {
			f()
		}
	})
}

// town is the server and the world around it.
type town struct {
	t     *testing.T
	net   *network
	clock *env.Manual
	dns   string // the address of the name server
	book  *ledger
	far   *farSide
	crew  *crew

	mu      sync.Mutex
	now     *life // nil while the server is down
	secrets map[string]string
	lives   int
}

func (w *town) ok(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// start starts the server on the content of the disk.
func (w *town) start(fix *env.Fixture) *life {
	w.t.Helper()
	l := &life{fix: fix, wire: &wire{clock: w.clock}, doors: map[string]string{}, after: make(chan *env.Fixture, 1),
		routed: make(chan error, 1), torn: make(chan struct{})}
	e := w.net.join(fix.Env, l.wire)
	e.FS = env.SlowSync(e.FS, &l.flushes, 0)
	e.Clock = &lifeClock{Clock: e.Clock, gone: &l.gone}
	e.Go = func(_ string, f func()) {
		go func() {
			defer l.tear()
			f()
		}()
	}
	var err error
	l.stats = stat.New(e.Clock)
	l.store, err = store.Open(e, "data", store.Options{
		CacheSize: 8 << 20, MemTableSize: 2 << 20, FloorBytes: 64 << 20, FloorPercent: -1, Ballast: -1,
		Indexes: append(directory.Indexes(), trace.Indexes()...), LogSyncInterval: 50 * time.Microsecond,
		Stats:   l.stats,
		OnFatal: func(error) { w.cut(l, 100, 0) }, // the process ends
	})
	w.ok(err)
	l.people, err = directory.Open(l.store, e, password.New(e, 2, 100), directory.Options{
		Domain: "example.com", MailFiles: admin.MailFiles{Store: l.store},
	})
	w.ok(err)
	l.files = mailbox.New(l.store, e, mailbox.Options{})
	resolver := dns.New(e, dns.Options{Servers: []string{w.dns}, Timeout: 5 * time.Minute, Attempts: 2, Stats: l.stats})
	policies := mtasts.New(e, mtasts.Options{Resolver: resolver, Roots: w.far.roots, Stats: l.stats})
	l.mail, err = mail.Open(l.store, e, l.people, l.files, mail.Options{
		Hostname: hostname, MaxLocal: 20, Boxes: 2, Stats: l.stats,
		RetryFirst: 5 * time.Minute, RetryMax: time.Hour, KeepOverQuota: 3 * time.Hour, KeepOther: 10 * time.Hour,
		DelayReport: 2 * time.Hour, KeepDead: 2 * time.Hour, KeepTrace: 72 * time.Hour,
		Connections: 30, PerDestination: 4, PerConnection: 20, IdleTimeout: 2 * time.Minute,
		Signer: sign.New(e, l.people, l.stats),
		Mailer: outbound.New(e, outbound.Options{
			Hostname: hostname, Resolver: resolver, Policies: policies, Roots: w.far.roots, Stats: l.stats,
			ConnectTimeout: 20 * time.Minute, Timeout: replyTimeout, Grace: replyTimeout,
		}),
	})
	w.ok(err)
	w.open(l, e, resolver)
	ctx, cancel := context.WithCancel(bg)
	l.stop = cancel
	e.Go("router", func() { l.routed <- l.mail.Router.Run(ctx) })
	return l
}

// replyTimeout is the timeout of a reply from another server.
const replyTimeout = time.Hour

// open opens the doors.
func (w *town) open(l *life, e *env.Env, resolver *dns.Resolver) {
	w.t.Helper()
	in := signin.New(signin.PeopleOf(l.people), e, signin.Options{Stats: l.stats, Failures: -1})
	b := smtpd.NewBackend(in, l.people, l.mail, e)
	checks := inbound.New(e, inbound.Options{Hostname: hostname, Stats: l.stats,
		Verify: verify.New(e, resolver, verify.Options{
			Hostname: hostname, SPF: verify.Reject, DMARC: verify.Reject, Defer: true, GreylistDelay: 5 * time.Minute,
			Timeout: time.Hour, Stats: l.stats,
		})})
	cert := &tls.Config{Certificates: []tls.Certificate{w.far.certificate(hostname)}}
	l.front = listen.New(e, listen.Options{HandshakeTimeout: time.Hour, WriteTimeout: time.Hour}, nil)
	smtp := func(k smtpd.Kind) *smtpd.Server {
		return smtpd.New(e, smtpd.Config{Kind: k, Hostname: hostname, Inbound: checks, CommandTimeout: 2 * time.Hour,
			DataTimeout: 2 * time.Hour}, b, nil)
	}
	imap := imapd.New(e, imapd.Config{Hostname: hostname, LoginTimeout: 2 * time.Hour, IdleTimeout: 4 * time.Hour,
		DataTimeout: 2 * time.Hour}, imapd.NewBackend(in, l.people, l.files), l.stats)
	pop := pop3d.New(e, pop3d.Config{Hostname: hostname, LoginTimeout: 2 * time.Hour, IdleTimeout: 4 * time.Hour}, in,
		l.files, l.stats)
	for name, serve := range map[string]func(*listen.Conn){
		"smtp": smtp(smtpd.SMTP).Serve, "submission": smtp(smtpd.Submission).Serve, "lmtp": smtp(smtpd.LMTP).Serve,
		"imap": imap.Serve, "pop3": pop.Serve,
	} {
		at, err := l.front.Open(listen.Door{Name: name, Network: "tcp", Address: "127.0.0.1:0", TLS: cert,
			Serve: serve})
		w.ok(err)
		l.doors[name] = at.Addr().String()
	}
}

// door returns the current address of a door, "" while the server is down.
func (w *town) door(name string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.now == nil {
		return ""
	}
	return w.now.doors[name]
}

func (w *town) begin(fix *env.Fixture) {
	w.t.Helper()
	l := w.start(fix)
	w.mu.Lock()
	w.now = l
	w.lives++
	w.mu.Unlock()
}

// down makes the server unreachable.
func (w *town) down() *life {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := w.now
	w.now = nil
	return l
}

// cut ends a life as a power cut does: no more output leaves the server, and percent of the unflushed data is lost.
func (w *town) cut(l *life, percent int, seed uint64) {
	l.once.Do(func() {
		l.wire.cut(func() {
			w.book.mu.Lock()
			w.book.crash[w.book.epoch] = true
			w.book.epoch++
			w.book.mu.Unlock()
			l.after <- l.fix.Crash(percent, seed)
		})
	})
}

// rise waits for the power cut of a life, and starts the next life after a while.
func (w *town) rise(l *life, off time.Duration) {
	w.t.Helper()
	after := <-l.after
	w.down()
	l.fix.Faults.SetSpace(1 << 40) // let the old life end without further errors
	l.fix.Faults.Heal()
	w.end(l, false)
	w.clock.Sleep(off)
	w.begin(after)
}

// crash cuts the power at the flush-th flush of the disk from now; the server starts again after a while.
func (w *town) crash(flush int64, percent int, seed uint64, off time.Duration) {
	w.t.Helper()
	l := w.now
	l.flushes.next(flush, func() { w.cut(l, percent, seed) })
	w.rise(l, off)
}

// restart stops the server cleanly and starts it again while a message is on its way to another server.
func (w *town) restart(off time.Duration) {
	w.t.Helper()
	held := make(chan struct{})
	w.far.hold.Store(&held)
	<-held
	l := w.down()
	fix := l.fix
	w.end(l, true)
	w.book.mu.Lock()
	w.book.epoch++
	w.book.mu.Unlock()
	w.clock.Sleep(off)
	w.begin(fix)
}

// end ends a life. A clean end must have no error.
func (w *town) end(l *life, clean bool) {
	w.t.Helper()
	ended := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(bg, 30*time.Second)
		defer cancel()
		err := l.front.Shutdown(ctx)
		l.stop()
		err = errors.Join(err, <-l.routed)
		l.people.Close()
		ended <- errors.Join(err, l.store.Close())
	}()
	if clean {
		if err := <-ended; err != nil {
			w.t.Errorf("stop: %v", err)
		}
	} else {
		select {
		case <-ended:
		case <-l.torn:
		case <-time.After(30 * time.Second): // a session panicked, and the door recovered from it
		}
	}
	l.gone.Store(true)
}

// check verifies every invariant of the store.
func (w *town) check() {
	w.t.Helper()
	r, err := check.Run(bg, w.now.store, check.Options{Deep: true})
	w.ok(err)
	for _, f := range r.Findings {
		w.t.Errorf("check: %s", f)
	}
}

// settle creates the people, groups and lists of the town, and gives some of them passwords.
func (w *town) settle() {
	w.t.Helper()
	l := w.now
	add := func(name string, change func(*directory.PersonFields)) {
		f := directory.PersonFields{FullName: []string{name}, ShortName: name, InternetAddress: name + "@example.com"}
		if change != nil {
			change(&f)
		}
		p, err := l.people.People.Add(bg, note.System, directory.PersonSpec{PersonFields: f})
		w.ok(err)
		_, secret, err := l.people.Passwords.AddApp(bg, note.System, p.ID, "day")
		w.ok(err)
		w.secrets[name] = secret
	}
	for i := range people {
		add(name(i), nil)
	}
	add("away", func(f *directory.PersonFields) { f.Forward = []string{"away@good.example"} })
	add("moved", func(f *directory.PersonFields) {
		f.Forward, f.ForwardOnly = []string{name(3) + "@example.com"}, true
	})
	add("round", func(f *directory.PersonFields) { f.Forward = []string{"round@loop.example"} })
	add("full", func(f *directory.PersonFields) { f.Quota = 20_000 })
	w.secrets["full"] = ""
	members := func(from, to int, more ...string) []string {
		for i := from; i < to; i++ {
			more = append(more, name(i))
		}
		return more
	}
	for _, g := range []directory.GroupFields{
		{Name: "team", Members: members(0, 10, "team@good.example")},
		{Name: "crowd", Members: members(20, 80, "full")},
		{Name: "talk", Members: members(10, 20), Kind: directory.GroupMail,
			List: directory.ListFields{On: true, Post: directory.PostAnyone}},
	} {
		g.InternetAddress = g.Name + "@example.com"
		_, err := l.people.Groups.Add(bg, note.System, g)
		w.ok(err)
	}
	_, err := sign.Add(bg, l.people, note.System, "example.com", sign.Ed25519, "day", directory.KeyActive,
		w.clock.Now())
	w.ok(err)
}

// people is the number of ordinary people.
const people = 100

func name(i int) string { return fmt.Sprintf("p%02d", i) }

// ends returns the mail files and addresses that receive mail for an address.
func (w *town) ends(address string) []end {
	here := func(names ...string) (out []end) {
		for _, n := range names {
			out = append(out, end{address: n + "@example.com", local: true, reportAs: address, may: n == "full"})
		}
		return out
	}
	local, domain, _ := cutLast(address, '@')
	if domain != "example.com" {
		return []end{{address: address, reportAs: address, may: w.far.mayFail(local, domain)}}
	}
	all := func(from, to int) (out []string) {
		for i := from; i < to; i++ {
			out = append(out, name(i))
		}
		return out
	}
	switch local {
	case "away":
		return append(here(local), end{address: "away@good.example", reportAs: "away@good.example"})
	case "moved":
		return here(name(3))
	case "round":
		return append(here(local), end{address: "round@loop.example", reportAs: "round@loop.example"})
	case "team":
		return append(here(all(0, 10)...), end{address: "team@good.example", reportAs: "team@good.example"})
	case "crowd":
		return append(here(all(20, 80)...), here("full")...)
	case "talk":
		return here(all(10, 20)...)
	}
	return here(local)
}

func cutLast(s string, sep byte) (before, after string, found bool) {
	for i := len(s) - 1; i >= 0; i-- {
		if s[i] == sep {
			return s[:i], s[i+1:], true
		}
	}
	return s, "", false
}
