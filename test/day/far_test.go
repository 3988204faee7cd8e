package day

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"fmt"
	"io"
	"log"
	"math/big"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"doublet/client/dns/zone"
	"doublet/env"
	"doublet/mail/outbound/sink"
)

// farSide holds the mail servers of other domains, each with its own kind of failure.
type farSide struct {
	t     *testing.T
	w     *town
	clock *env.Manual
	zone  *zone.Server
	roots *x509.CertPool
	ca    *x509.Certificate
	key   *ecdsa.PrivateKey
	all   []*domain
	by    map[string]*domain
	calm  bool // the day is over: faults that can end have ended
	// hold, if set, is closed when a message has been received but not yet answered; the answer is then delayed.
	hold atomic.Pointer[chan struct{}]

	mu  sync.Mutex
	rnd *mathrand.Rand
}

// domain is one of the other domains.
type domain struct {
	name string
	// may reports whether mail for a local part may fail permanently.
	may func(local string) bool
	// reply is as in sink.Options, for a session of this domain.
	reply func(x *visit, line string) string
	// reach returns the outcome of a connection attempt; nil means success.
	reach func() reach
	// options are further options of the sink; none means that the domain has no server.
	options sink.Options
	none    bool
	// zone holds the DNS records, with NAME and ADDRESS for the domain's own; empty means goodZone.
	zone string

	far  *farSide
	ip   netip.Addr
	sink *sink.Server
	mu   sync.Mutex
	open map[int]*visit
	seen map[string]time.Time // for greylisting
}

// visit is a session with a domain's server.
type visit struct {
	d       *domain
	session int
	lines   int
	taken   *sink.Message
	began   time.Time // the start of the transaction, in that life of the server
	life    int
	tired   bool // it has delayed its client for so long that the client may be gone
}

// chance returns true with a probability in percent.
func (f *farSide) chance(percent int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.rnd.IntN(100) < percent
}

// hour returns the time since the start of the day.
func (f *farSide) hour() time.Duration { return f.clock.Now().Sub(env.TestStart) }

// troubled reports whether it is before that time of the day and the day is not over.
func (f *farSide) troubled(until time.Duration) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.calm && f.hour() < until
}

func (f *farSide) mayFail(local, name string) bool {
	d := f.by[name]
	return d == nil || d.may != nil && d.may(local)
}

func always(string) bool { return true }

const goodZone = "NAME. IN MX 10 mx.NAME.\nmx.NAME. IN A ADDRESS\n"

// domains returns the domains that mail is sent to.
func (f *farSide) domains() []*domain {
	secure := func() *tls.Config {
		return &tls.Config{Certificates: []tls.Certificate{f.certificate("mx.dane.example")}}
	}
	dane, daneBad := secure(), secure()
	return []*domain{
		{name: "good.example"},
		{name: "loop.example"},
		{name: "grey.example", reply: greylists},
		{name: "flaky.example", reply: flaky},
		{name: "picky.example", may: func(local string) bool { return strings.HasPrefix(local, "bad") },
			reply: func(_ *visit, line string) string {
				if strings.HasPrefix(line, "RCPT TO:<bad") {
					return "550 5.1.1 nobody of that name"
				}
				return ""
			}},
		{name: "busy.example", reply: func(x *visit, line string) string {
			if line == "greeting" && x.d.far.troubled(5*time.Hour) {
				return "421 4.3.2 come again"
			}
			return ""
		}},
		{name: "stuffed.example", reply: func(x *visit, line string) string {
			if line == "." && x.d.far.troubled(7*time.Hour) {
				return "452 4.3.1 no space"
			}
			return ""
		}},
		{name: "garbage.example", reply: func(x *visit, line string) string {
			if x.d.far.troubled(6*time.Hour) && x.d.far.chance(60) {
				return []string{"what?", "2500 yes", "250-and so on", "\x00\xff\xfe", "25", strings.Repeat("a", 3000),
					"554"}[x.lines%7]
			}
			return ""
		}},
		{name: "slow.example", reply: func(x *visit, line string) string {
			if x.d.far.troubled(20*time.Hour) && x.d.far.chance(3) {
				x.tired = true
				x.d.far.clock.Sleep(replyTimeout * 3 / 2) // longer than any client waits
			}
			return ""
		}},
		{name: "closed.example", may: always, none: true, reach: func() reach { return refused }},
		{name: "lost.example", reach: func() reach {
			if f.troubled(8 * time.Hour) {
				return silent
			}
			return reached
		}},
		{name: "half.example", reach: func() reach {
			if f.troubled(30*time.Hour) && f.chance(40) {
				return refused
			}
			return reached
		}},
		{name: "nowhere.example", may: always, none: true, zone: "x.NAME. IN A ADDRESS\n"},
		{name: "nullmx.example", may: always, none: true, zone: "NAME. IN MX 0 .\n"},
		{name: "ours.example", may: always, none: true, zone: "NAME. IN MX 10 " + hostname + ".\n"},
		{name: "liars.example"},
		{name: "many.example", may: always}, // the answers of lying name servers are believed
		{name: "small.example", may: func(local string) bool { return strings.HasPrefix(local, "big") },
			options: sink.Options{Extensions: []string{"PIPELINING", "SIZE 9000", "8BITMIME"}}},
		{name: "old.example", options: sink.Options{Extensions: []string{"HELP"}}},
		{name: "dane.example", options: sink.Options{TLS: dane}, zone: goodZone + tlsa(dane, 0)},
		{name: "forged.example", options: sink.Options{TLS: daneBad},
			zone: strings.ReplaceAll(goodZone, "NAME", "forged.dane.example") +
				"forged.example. IN MX 10 mx.forged.dane.example.\n" + strings.ReplaceAll(tlsa(daneBad, 1), "NAME",
				"forged.dane.example"), may: always},
		{name: "sts.example", options: sink.Options{TLS: f.server("mx.sts.example")},
			zone: goodZone + "_mta-sts.NAME. IN TXT \"v=STSv1; id=1\"\nmta-sts.NAME. IN A 203.0.113.250\n"},
		{name: "stsbad.example", options: sink.Options{TLS: f.server("mx.other.example")}, zone: goodZone +
			"_mta-sts.NAME. IN TXT \"v=STSv1; id=1\"\nmta-sts.NAME. IN A 203.0.113.250\n", may: always},
		{name: "brokentls.example",
			options: sink.Options{TLS: &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate,
				error) {
				return nil, io.EOF
			}}}},
	}
}

// greylists rejects each new pair of sender and recipient temporarily for ten minutes.
func greylists(x *visit, line string) string {
	if !strings.HasPrefix(line, "RCPT") {
		return ""
	}
	x.d.mu.Lock()
	defer x.d.mu.Unlock()
	now := x.d.far.clock.Now()
	first, known := x.d.seen[line]
	if !known {
		x.d.seen[line] = now
	}
	if !known || now.Sub(first) < 10*time.Minute {
		return "451 4.7.1 greylisted"
	}
	return ""
}

// flaky disconnects or fails at any command.
func flaky(x *visit, line string) string {
	if !x.d.far.troubled(30*time.Hour) || !x.d.far.chance(8) {
		return ""
	}
	switch verb, _, _ := strings.Cut(line, " "); verb {
	case "data":
		return sink.Cut
	case ".", "greeting", "EHLO", "MAIL", "RCPT", "DATA":
		return []string{sink.Cut, "421 4.3.2 going down", "451 4.3.0 not now"}[x.lines%3]
	}
	return ""
}

// openFar starts the servers and the zone.
func openFar(t *testing.T, w *town, seed uint64) *farSide {
	t.Helper()
	f := &farSide{t: t, w: w, clock: w.clock, by: map[string]*domain{}, rnd: mathrand.New(mathrand.NewPCG(seed, 2))}
	f.authority()
	e := env.TestRealTime(t).Env
	e.Clock = w.clock
	text := "example.com. IN MX 10 " + hostname + ".\n" + hostname + ". IN A 192.0.2.1\n" +
		"forger.example. IN TXT \"v=spf1 -all\"\n_dmarc.forger.example. IN TXT \"v=DMARC1; p=reject\"\n"
	for i, d := range f.domains() {
		d.far, d.ip = f, netip.AddrFrom4([4]byte{203, 0, 113, byte(i + 1)})
		d.open, d.seen = map[int]*visit{}, map[string]time.Time{}
		f.all, f.by[d.name] = append(f.all, d), d
		if d.zone == "" {
			d.zone = goodZone
		}
		text += strings.NewReplacer("NAME", d.name, "ADDRESS", d.ip.String()).Replace(d.zone)
		p := place{reach: d.reach}
		if p.reach == nil {
			p.reach = func() reach { return reached }
		}
		if !d.none {
			o := d.options
			o.Name, o.Reply, o.Taken = "mx."+d.name, d.answer, d.took
			var err error
			d.sink, err = sink.New(e, "127.0.0.1:0", o)
			w.ok(err)
			t.Cleanup(d.sink.Close)
			p.port = d.sink.Port()
		}
		w.net.places[netip.AddrPortFrom(d.ip, 25)] = p
	}
	f.policies()
	f.zone = zone.Start(t, text)
	f.zone.Secure("dane.example", "forged.example")
	return f
}

// answer returns a domain's reply to a line.
func (d *domain) answer(session int, line string) string {
	d.mu.Lock()
	x := d.open[session]
	if x == nil {
		x = &visit{d: d, session: session}
		d.open[session] = x
	}
	x.lines++
	if strings.HasPrefix(line, "MAIL") {
		x.began, x.life = d.far.clock.Now(), d.far.w.book.life()
	}
	d.mu.Unlock()
	out := ""
	if d.reply != nil {
		out = d.reply(x, line)
	}
	if line == "." {
		if held := d.far.hold.Swap(nil); held != nil {
			close(*held)
			time.Sleep(40 * time.Millisecond)
		}
	}
	if line == "." && x.taken != nil {
		sure := (out == "" || out[0] == '2') && !x.tired && d.far.clock.Now().Sub(x.began) < replyTimeout/2
		if sure || out == sink.Cut || out == "" {
			d.keep(x, sure)
		}
		x.taken = nil
	}
	return out
}

// took records a message that waits for its reply.
func (d *domain) took(m sink.Message) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open[m.Session].taken = &m
}

// keep enters a message into the ledger for each recipient, and sends some back to their forwarder.
func (d *domain) keep(x *visit, sure bool) {
	for _, to := range x.taken.To {
		address, _, _ := strings.Cut(strings.TrimPrefix(to, "<"), ">")
		d.far.w.book.took(address, copied{epoch: x.life, sure: sure, at: x.began, raw: x.taken.Data})
		if address == "round@loop.example" {
			d.far.w.loop(x.taken.Data)
		}
	}
}

// authority creates the authority that issues the certificates of the day.
func (f *farSide) authority() {
	var err error
	f.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	f.w.ok(err)
	f.ca = &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "the day's authority"}, IsCA: true,
		BasicConstraintsValid: true,
		NotBefore:             env.TestStart.Add(-time.Hour), NotAfter: env.TestStart.AddDate(1, 0, 0),
		KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, f.ca, f.ca, &f.key.PublicKey, f.key)
	f.w.ok(err)
	f.ca, err = x509.ParseCertificate(der)
	f.w.ok(err)
	f.roots = x509.NewCertPool()
	f.roots.AddCert(f.ca)
}

func (f *farSide) certificate(host string) tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	f.w.ok(err)
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(2), DNSNames: []string{host}, NotBefore: env.TestStart.Add(-time.Hour),
		NotAfter: env.TestStart.AddDate(1, 0, 0),
	}, f.ca, &key.PublicKey, f.key)
	f.w.ok(err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// client returns the TLS configuration of clients here.
func (f *farSide) client() *tls.Config {
	return &tls.Config{RootCAs: f.roots, ServerName: hostname, Time: f.clock.Now}
}

func (f *farSide) server(host string) *tls.Config {
	return &tls.Config{Certificates: []tls.Certificate{f.certificate(host)}}
}

// tlsa returns the TLSA record of a server's certificate; wrong, if not 0, falsifies it.
func tlsa(c *tls.Config, wrong byte) string {
	sum := sha256.Sum256(c.Certificates[0].Certificate[0])
	sum[0] ^= wrong
	return "_25._tcp.mx.NAME. IN TLSA 3 0 1 " + hex.EncodeToString(sum[:]) + "\n"
}

// policies serves MTA-STS policies that require a certificate for the domain's mail host.
func (f *farSide) policies() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	f.w.ok(err)
	cfg := &tls.Config{GetCertificate: func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
		c := f.certificate(h.ServerName)
		return &c, nil
	}}
	s := &http.Server{ErrorLog: log.New(io.Discard, "", 0),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			fmt.Fprintf(w, "version: STSv1\nmode: enforce\nmx: mx.%s\nmax_age: 604800\n",
				strings.TrimPrefix(r.Host, "mta-sts."))
		})}
	go func() { _ = s.Serve(tls.NewListener(l, cfg)) }()
	f.t.Cleanup(func() { _ = s.Close() })
	f.w.net.places[netip.MustParseAddrPort("203.0.113.250:443")] = place{port: l.Addr().(*net.TCPAddr).Port,
		reach: func() reach { return reached }}
}
