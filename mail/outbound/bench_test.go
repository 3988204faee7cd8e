//go:build unix

package outbound_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"doublet/client/dns"
	"doublet/directory"
	"doublet/directory/password"
	"doublet/env"
	"doublet/mail"
	"doublet/mail/outbound"
	"doublet/mail/outbound/sink"
	"doublet/mail/queue"
	"doublet/mail/trace"
	"doublet/mailbox"
	"doublet/note"
	"doublet/stat"
	"doublet/store"
	"doublet/wire/smtp"
)

const sinkProcess = "DOUBLET_SINK_PROCESS"

// TestMain runs the tests, or the sink in the child process that farSink starts. The sink runs in its own process so
// that the measured CPU time is the router's only.
func TestMain(m *testing.M) {
	if os.Getenv(sinkProcess) == "" {
		os.Exit(m.Run())
	}
	s, err := sink.New(env.Real(slog.New(slog.DiscardHandler)), "127.0.0.1:0", sink.Options{Discard: true})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(s.Port())
	_, _ = io.Copy(io.Discard, os.Stdin) // until the parent exits
	os.Exit(0)
}

// farSink starts a sink in a child process and returns its port.
func farSink(b *testing.B) int {
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), sinkProcess+"=1")
	in, err := c.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := c.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = in.Close()
		_ = c.Wait()
	})
	var port int
	if _, err := fmt.Fscan(out, &port); err != nil {
		b.Fatal(err)
	}
	return port
}

// everywhere is a DNS in which every domain has one server, on this machine.
type everywhere struct{}

func (everywhere) MX(_ context.Context, domain string) ([]dns.MX, bool, error) {
	return []dns.MX{{Pref: 10, Host: "mx." + domain}}, false, nil
}

func (everywhere) Addresses(context.Context, string) ([]netip.Addr, bool, error) {
	return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}, false, nil
}

func (everywhere) TLSA(context.Context, string) ([]dns.TLSA, bool, error) {
	return nil, false, dns.ErrNotFound
}

func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

type lab struct {
	b     *testing.B
	store *store.Store
	mail  *mail.Service
	tree  *stat.Tree
	n     atomic.Int64

	people  *directory.Directory
	files   *mailbox.Service
	small   bool // messages of 300 bytes
	domains int
}

// alice returns a local recipient.
func (l *lab) alice() []mail.Recipient {
	ctx := context.Background()
	db, err := l.files.Make(ctx, note.UNID{}, "alice", 0, 0)
	if err == nil {
		_, err = l.people.People.Add(ctx, note.System, directory.PersonSpec{PersonFields: directory.PersonFields{
			FullName: []string{"Alice Example"}, ShortName: "alice", MailDatabase: db,
		}})
	}
	if err != nil {
		l.b.Fatal(err)
	}
	t, err := l.people.Names.Resolve(ctx, "alice@example.com")
	if err != nil {
		l.b.Fatal(err)
	}
	return []mail.Recipient{{To: smtp.Path{Local: "alice", Domain: "example.com"}, Target: t}}
}

// message returns the i-th message.
func (l *lab) message(i int64, to []mail.Recipient) *mail.Submission {
	body := "x\r\n"
	if !l.small {
		body = longBody
	}
	return &mail.Submission{
		From: smtp.Path{Local: "alice", Domain: "example.com"}, Recipients: to,
		Message: fmt.Appendf(nil,
			"From: Alice <alice@example.com>\r\nTo: u@example.net\r\nSubject: message %d\r\n"+
				"Message-ID: <%d@example.com>\r\nDate: Mon, 5 Jan 2026 09:00:00 +0000\r\n\r\n%s", i, i, body),
		Received: &mail.Received{Helo: "x.example.com", Protocol: "ESMTPSA"},
	}
}

var longBody = strings.Repeat(strings.Repeat("x", 74)+"\r\n", 4096/76)

func newLab(b *testing.B, boxes int, sinks bool) *lab {
	e := env.Real(slog.New(slog.DiscardHandler))
	l := &lab{b: b, tree: stat.New(e.Clock)}
	ok := func(err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	var err error
	l.store, err = store.Open(e, b.TempDir(), store.Options{Ballast: -1,
		Indexes: append(directory.Indexes(), trace.Indexes()...)})
	ok(err)
	d, err := directory.Open(l.store, e, password.New(e, 2, 100), directory.Options{Domain: "example.com"})
	ok(err)
	l.people, l.files, l.domains = d, mailbox.New(l.store, e, mailbox.Options{}), 100
	o := mail.Options{Hostname: "mx.example.com", Boxes: boxes, Stats: l.tree, Mailer: nowhere{}}
	if sinks {
		o.Mailer = outbound.New(e, outbound.Options{Hostname: "mx.example.com", Resolver: everywhere{},
			Port: farSink(b), Stats: l.tree})
	}
	l.mail, err = mail.Open(l.store, e, d, l.files, o)
	ok(err)
	b.Cleanup(func() {
		d.Close()
		_ = l.store.Close()
	})
	return l
}

// fill deposits messages for 100 destinations, 64 at a time.
func (l *lab) fill(n int) {
	var group atomic.Int64
	done := make(chan error, 64)
	for range 64 {
		go func() {
			for group.Add(1) <= int64(n) {
				i := l.n.Add(1)
				to := []mail.Recipient{{To: smtp.Path{Local: "u", Domain: "d" + strconv.Itoa(int(i)%l.domains) +
					".example"}, Outside: true}}
				_, err := l.mail.Deposits.Deposit(context.Background(), l.message(i, to), nil)
				if err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for range 64 {
		if err := <-done; err != nil {
			l.b.Fatal(err)
		}
	}
}

// route runs the router until mail.box is empty.
func (l *lab) route(fn func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	changed := make(chan struct{}, 1)
	for i := range queue.MaxBoxes {
		stop, err := l.store.Watch(queue.BoxID+note.DatabaseID(i)<<16, func() {
			select {
			case changed <- struct{}{}:
			default:
			}
		})
		if err == nil {
			defer stop()
		}
	}
	go func() { ended <- l.mail.Router.Run(ctx) }()
	if fn != nil {
		fn()
	}
	for l.waiting() > 0 {
		select {
		case <-changed:
		case <-time.After(20 * time.Millisecond):
		}
	}
	l.b.StopTimer()
	cancel()
	if err := <-ended; err != nil {
		l.b.Fatal(err)
	}
}

func (l *lab) waiting() int64 { return l.tree.Gauge("Mail.WaitingRecipients", "").Value() }

func (l *lab) report(before time.Duration) {
	l.b.ReportMetric((cpu()-before).Seconds()/float64(l.b.N)*1000, "cpu-s/1000")
	l.b.ReportMetric(float64(l.b.N)/l.b.Elapsed().Seconds(), "msg/s")
}

// BenchmarkTransfer sends messages of 4 KB that wait in mail.box to 100 destinations.
func BenchmarkTransfer(b *testing.B) {
	for _, boxes := range []int{1, 4} {
		b.Run(fmt.Sprintf("boxes=%d", boxes), func(b *testing.B) {
			l := newLab(b, boxes, true)
			l.fill(b.N)
			b.ReportAllocs()
			b.ResetTimer()
			before := cpu()
			l.route(nil)
			l.report(before)
		})
	}
}

var waitingMessages = flag.Int("waiting", 50_000, "messages that wait while BenchmarkLocalBesideWaiting delivers here")

// nowhere is a mailer that fails to connect to any server.
type nowhere struct{}

func (nowhere) Connect(context.Context, *outbound.Target) (*outbound.Session, *outbound.Failure) {
	return nil, &outbound.Failure{Reply: smtp.NewReply(451, 4, 4, 1, "nobody answers")}
}

// BenchmarkLocalBesideWaiting measures local delivery, 32 messages at a time, while the router runs. It compares an
// empty mail.box with one that has many messages for 1,000 unreachable destinations, and also reports the memory that
// the router's index of them needs.
func BenchmarkLocalBesideWaiting(b *testing.B) {
	for _, n := range []int{0, *waitingMessages} {
		b.Run(fmt.Sprintf("waiting=%d", n), func(b *testing.B) {
			l := newLab(b, 1, false)
			l.small, l.domains = true, 1000
			alice := l.alice()
			heap := func() float64 {
				runtime.GC()
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				return float64(m.HeapAlloc) / (1 << 20)
			}
			start := time.Now()
			l.fill(n)
			b.Logf("%d messages entered in %s", n, time.Since(start))
			before := heap()
			ctx, cancel := context.WithCancel(context.Background())
			ended := make(chan error, 1)
			start = time.Now()
			go func() { ended <- l.mail.Router.Run(ctx) }()
			appointments := func() float64 {
				for _, e := range l.tree.Snapshot("Mail.Transfer.Appointments") {
					return e.Value
				}
				return 0
			}
			for appointments() < 2*float64(n)-2000 {
				time.Sleep(50 * time.Millisecond)
			}
			b.Logf("read in %s, %.0f appointments", time.Since(start), appointments())
			time.Sleep(time.Second)
			index := heap() - before
			b.ResetTimer()
			cpuBefore := cpu()
			b.SetParallelism(16)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					i := l.n.Add(1)
					if _, err := l.mail.Deposits.Deposit(context.Background(), l.message(i, alice), nil); err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.StopTimer()
			l.report(cpuBefore)
			b.ReportMetric(index, "MB-index")
			cancel()
			if err := <-ended; err != nil {
				b.Fatal(err)
			}
		})
	}
}

// BenchmarkThrough measures accepting messages and sending them on at the same time.
func BenchmarkThrough(b *testing.B) {
	l := newLab(b, 1, true)
	b.ReportAllocs()
	b.ResetTimer()
	before := cpu()
	l.route(func() { l.fill(b.N) })
	l.report(before)
}
