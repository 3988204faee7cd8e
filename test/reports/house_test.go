// Package reports makes several servers exchange mail, and then the reports about it, over a network of the test's own.
package reports

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"doublet/admin"
	"doublet/client/dns"
	"doublet/client/dns/zone"
	"doublet/client/mtasts"
	"doublet/directory"
	"doublet/directory/password"
	"doublet/env"
	"doublet/mail"
	"doublet/mail/inbound"
	"doublet/mail/keep"
	"doublet/mail/outbound"
	"doublet/mail/reports"
	"doublet/mail/sign"
	"doublet/mail/trace"
	"doublet/mail/verify"
	"doublet/mailbox"
	"doublet/note"
	"doublet/serve/listen"
	"doublet/serve/signin"
	"doublet/serve/smtpd"
	"doublet/stat"
	"doublet/store"
	"doublet/wire/smtp"
)

var bg = context.Background()

// shifted is the real clock with an offset that a test advances, because sockets know only real time.
type shifted struct {
	env.Clock
	mu sync.Mutex
	by time.Duration
}

func (c *shifted) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.by)
}

// until advances the clock to an hour of the day, today or tomorrow.
func (c *shifted) until(hour int) {
	now := c.Now().UTC()
	next := now.Truncate(24 * time.Hour).Add(time.Duration(hour) * time.Hour)
	if !next.After(now) {
		next = next.Add(24 * time.Hour)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.by += next.Sub(now)
}

// town holds the servers, their zone and their network.
type town struct {
	t      *testing.T
	clock  *shifted
	zone   *zone.Server
	doors  map[string]string // the loopback address of the server at each address
	houses []*house
	reader string // of TLS reports about the server that is created
}

// house is a server.
type house struct {
	t      *testing.T
	fix    *env.Fixture
	domain string
	ip     string
	store  *store.Store
	people *directory.Directory
	memory *keep.Memory
	mail   *mail.Service
	front  *listen.Server
	book   *reports.Book
	log    *reports.Log
	desk   *reports.Desk
	sender *reports.Sender
	policy *mtasts.Answer // the policy for its outgoing mail
	// sending are the options of sender.
	sending reports.Options
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// open creates servers of domains a.example, b.example, …, at 192.0.2.1 and so on. Each publishes the records of dns
// show. readers replace the addresses for TLS reports of the first domains.
func open(t *testing.T, n int, readers ...string) *town {
	t.Helper()
	w := &town{t: t, doors: map[string]string{}, clock: &shifted{Clock: env.TestRealTime(t).Clock}}
	w.clock.until(10)
	w.zone = zone.Start(t, "example. SOA ns.example. h.example. 1 3600 600 86400 300\n")
	for i := range n {
		w.reader = "mailto:postmaster@" + string('a'+rune(i)) + ".example"
		if i < len(readers) {
			w.reader = readers[i]
		}
		w.houses = append(w.houses, w.house(string('a'+rune(i))+".example",
			netip.AddrFrom4([4]byte{192, 0, 2, byte(i + 1)}).String()))
	}
	return w
}

func (w *town) house(domain, ip string) *house {
	t := w.t
	h := &house{t: t, fix: env.TestRealTime(t), domain: domain, ip: ip, policy: &mtasts.Answer{}}
	e := h.fix.Env
	e.Clock = w.clock
	e.Dial = w.dial(ip)
	stats := stat.New(e.Clock)
	var err error
	h.store, err = store.Open(e, "data", store.Options{FloorBytes: -1, Ballast: -1,
		Indexes: append(directory.Indexes(), trace.Indexes()...)})
	ok(t, err)
	h.people, err = directory.Open(h.store, e, password.New(e, 1, 10), directory.Options{
		Domain: domain, MailFiles: admin.MailFiles{Store: h.store},
	})
	ok(t, err)
	files := mailbox.New(h.store, e, mailbox.Options{})
	h.memory, err = keep.Open(h.store, e, nil)
	ok(t, err)
	h.book, err = reports.OpenBook(e, h.memory, stats)
	ok(t, err)
	h.log, err = reports.OpenLog(e, h.memory)
	ok(t, err)
	resolver := dns.New(e, dns.Options{Servers: []string{w.zone.Addr()}, Timeout: 5 * time.Second, Attempts: 2})
	hostname := "mx." + domain
	signer := sign.New(e, h.people, stats)
	h.mail, err = mail.Open(h.store, e, h.people, files, mail.Options{
		Hostname: hostname, Signer: signer, Sealer: signer.Sealer(), Stats: stats,
		Mailer: outbound.New(e, outbound.Options{
			Hostname: hostname, Resolver: resolver, Policies: h, Observer: h.book, ConnectTimeout: 20 * time.Second,
			Timeout: 20 * time.Second,
		}),
	})
	ok(t, err)
	h.sending = reports.Options{
		Hostname: hostname, Local: "postmaster", TLS: true, DMARC: true, DNS: resolver, Directory: h.people,
		Post: h.mail.Deposits, Stats: stats,
	}
	h.sender = reports.NewSender(e, h.book, h.sending)
	h.open(w, resolver, stats)
	h.settle(w)
	t.Cleanup(h.close)
	return h
}

// open opens the SMTP door, which sees other servers at their own addresses.
func (h *house) open(w *town, resolver *dns.Resolver, stats *stat.Tree) {
	e, hostname := h.fix.Env, "mx."+h.domain
	h.desk = reports.NewDesk(e, h.book, h.log, h.people, "postmaster", hostname, stats)
	in := signin.New(signin.PeopleOf(h.people), e, signin.Options{Failures: -1})
	checks := inbound.New(e, inbound.Options{
		Hostname: hostname, Observer: h.desk,
		Verify: verify.New(e, resolver, verify.Options{Hostname: hostname, SPF: verify.Mark, DMARC: verify.Reject}),
	})
	h.front = listen.New(e, listen.Options{Proxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}, nil)
	door := smtpd.New(e, smtpd.Config{Kind: smtpd.SMTP, Hostname: hostname, Inbound: checks},
		smtpd.NewBackend(in, h.people, h.mail, e), nil)
	at, err := h.front.Open(listen.Door{
		Name: "smtp", Network: "tcp", Address: "127.0.0.1:0", Serve: door.Serve,
		TLS: &tls.Config{Certificates: []tls.Certificate{selfSigned(h.t, hostname, w.clock.Now())}},
	})
	ok(h.t, err)
	w.doors[h.ip+":25"] = at.Addr().String()
}

// settle creates the people of the server and publishes its records.
func (h *house) settle(w *town) {
	for _, name := range []string{"ada", "boss"} {
		f := directory.PersonFields{FullName: []string{name}, ShortName: name, InternetAddress: name + "@" + h.domain}
		if name == "boss" {
			f.Roles = []string{directory.RoleAdmin}
		}
		_, err := h.people.People.Add(bg, note.System, directory.PersonSpec{PersonFields: f})
		ok(h.t, err)
	}
	k, err := sign.Add(bg, h.people, note.System, h.domain, sign.RSA, "s", directory.KeyActive, w.clock.Now())
	ok(h.t, err)
	name, record, err := sign.Record(&k)
	ok(h.t, err)
	r := strings.NewReplacer("DOMAIN", h.domain, "IP", h.ip, "KEYNAME", name, "KEY1", record[:200], "KEY2",
		record[200:], "READER", w.reader)
	w.zone.Add(r.Replace(`DOMAIN. MX 10 mx.DOMAIN.
mx.DOMAIN. A IP
DOMAIN. TXT "v=spf1 mx -all"
KEYNAME. TXT "KEY1" "KEY2"
_dmarc.DOMAIN. TXT "v=DMARC1; p=quarantine; rua=mailto:postmaster@DOMAIN"
_smtp._tls.DOMAIN. TXT "v=TLSRPTv1; rua=READER"
`))
}

func (h *house) close() {
	ctx, cancel := context.WithTimeout(bg, 20*time.Second)
	defer cancel()
	if err := h.front.Shutdown(ctx); err != nil {
		h.t.Error(err)
	}
	if err := h.desk.Close(ctx); err != nil {
		h.t.Error(err)
	}
	if err := h.memory.Close(ctx); err != nil {
		h.t.Error(err)
	}
	h.people.Close()
	if err := h.store.Close(); err != nil {
		h.t.Error(err)
	}
}

// Policy implements outbound.Policies.
func (h *house) Policy(context.Context, string) mtasts.Answer { return *h.policy }

// dial connects from an address, which the server learns from a PROXY protocol header.
func (w *town) dial(from string) func(string, string, time.Duration) (net.Conn, error) {
	return func(network, address string, timeout time.Duration) (net.Conn, error) {
		at := w.doors[address]
		if at == "" {
			return net.DialTimeout(network, address, timeout) // name servers
		}
		conn, err := net.DialTimeout(network, at, timeout)
		if err == nil {
			_, err = conn.Write([]byte("PROXY TCP4 " + from + " 127.0.0.1 40000 25\r\n"))
		}
		return conn, err
	}
}

func selfSigned(t *testing.T, host string, now time.Time) tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	ok(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{host}, NotBefore: now.Add(-time.Hour),
		NotAfter: now.AddDate(1, 0, 0)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	ok(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// write sends a message from ada of a house, with any author, and waits until it is sent.
func (h *house) write(from, to, author string) {
	h.t.Helper()
	sub := mail.Submission{
		From: path(h.t, from), Params: smtp.MailParams{Size: -1}, Answer: mail.AnswerNone,
		Message: []byte("From: " + author + "\r\nTo: " + to + "\r\nSubject: hello\r\nMessage-ID: <" + author + "." +
			to + ">\r\n\r\nHello.\r\n"),
		Recipients: []mail.Recipient{{To: path(h.t, to), Outside: true}},
	}
	_, err := h.mail.Deposits.Deposit(bg, &sub, nil)
	ok(h.t, err)
	h.flush()
}

func (h *house) flush() {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(bg, 60*time.Second)
	defer cancel()
	ok(h.t, h.mail.Router.Flush(ctx))
}

// send sends the reports of the past days and returns their number.
func (h *house) send() int {
	h.t.Helper()
	ok(h.t, h.book.Save())
	n, err := h.sender.Send(bg, h.fix.Env.Clock.Now().UTC().Format(time.DateOnly))
	ok(h.t, err)
	h.flush()
	return n
}

// received returns the reports that a house has received.
func (h *house) received() (out []*reports.Received) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(bg, time.Minute)
	defer cancel()
	ok(h.t, h.desk.Wait(ctx))
	ok(h.t, h.log.Each(bg, time.Time{}, "", func(r *reports.Received) { out = append(out, r) }))
	return out
}

func path(t *testing.T, s string) smtp.Path {
	t.Helper()
	p, err := smtp.ParsePath(s)
	ok(t, err)
	return p
}
