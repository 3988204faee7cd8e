package outbound

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"doublet/client/dns"
	"doublet/client/dns/zone"
	"doublet/client/mtasts"
	"doublet/env"
	"doublet/mail/outbound/sink"
	"doublet/wire/smtp"
)

var bg = context.Background()

// authority is a test certificate authority.
type authority struct {
	t    *testing.T
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t}
	a.key, a.cert = a.issue(&x509.Certificate{
		Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign,
	}, time.Hour)
	return a
}

func (a *authority) issue(template *x509.Certificate, life time.Duration) (*ecdsa.PrivateKey, *x509.Certificate) {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore, template.NotAfter = time.Now().Add(-2*time.Hour), time.Now().Add(life)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		a.t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return key, cert
}

// server returns a certificate for a name, with the authority's certificate in its chain.
func (a *authority) server(name string, life time.Duration) *tls.Config {
	a.t.Helper()
	key, cert := a.issue(&x509.Certificate{
		Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, life)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{cert.Raw, a.cert.Raw}, PrivateKey: key,
		Leaf: cert}}}
}

func (a *authority) pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.cert)
	return p
}

type fixed struct {
	enforce bool
	hosts   []string
}

func (f fixed) Policy(context.Context, string) mtasts.Answer {
	p := mtasts.Policy{Mode: mtasts.Testing, MX: f.hosts, MaxAge: time.Hour}
	if f.enforce {
		p.Mode = mtasts.Enforce
	}
	if f.hosts == nil {
		return mtasts.Answer{}
	}
	return mtasts.Answer{Policy: &p}
}

const domainZone = "far.example. IN MX 10 mx.far.example.\nmx.far.example. IN A 127.0.0.1\n"

func start(t *testing.T, o sink.Options) (*sink.Server, *zone.Server, *env.Fixture) {
	t.Helper()
	fix := env.TestRealTime(t)
	s, err := sink.New(fix.Env, "127.0.0.1:0", o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s, zone.Start(t, domainZone), fix
}

func mailer(fix *env.Fixture, s *sink.Server, z *zone.Server, change func(*Options)) *Mailer {
	o := Options{
		Hostname: "mx.example.com", Port: s.Port(), ConnectTimeout: 5 * time.Second, Timeout: 5 * time.Second,
		Resolver: dns.New(fix.Env, dns.Options{Servers: []string{z.Addr()}, Timeout: time.Second, Attempts: 1}),
	}
	if change != nil {
		change(&o)
	}
	return New(fix.Env, o)
}

func tlsa(usage, selector, matching int, c *x509.Certificate) string {
	data := c.Raw
	if selector == 1 {
		data = c.RawSubjectPublicKeyInfo
	}
	switch matching {
	case 1:
		sum := sha256.Sum256(data)
		data = sum[:]
	case 2:
		sum := sha512.Sum512(data)
		data = sum[:]
	}
	return fmt.Sprintf("%d %d %d %s", usage, selector, matching, hex.EncodeToString(data))
}

// TestSecurity checks which servers may be used, and how they are protected, for each setting of the target and policy
// of the domain.
func TestSecurity(t *testing.T) {
	t.Parallel()
	ca, stranger := newAuthority(t), newAuthority(t)
	good, self := ca.server("mx.far.example", time.Hour), stranger.server("mx.far.example", time.Hour)
	other, expired := ca.server("other.example", time.Hour), ca.server("mx.far.example", -time.Hour)
	byDomain := stranger.server("far.example", time.Hour)
	leaf := func(c *tls.Config) *x509.Certificate { return c.Certificates[0].Leaf }
	old := &tls.Config{Certificates: self.Certificates, MaxVersion: tls.VersionTLS10, MinVersion: tls.VersionTLS10}
	enforced, testing1 := fixed{true, []string{"mx.far.example"}}, fixed{false, []string{"elsewhere.example"}}
	for _, c := range []struct {
		name     string
		security Security
		tls      *tls.Config
		tlsa     string // records, separated by ","
		insecure bool   // the zone is not signed
		sts      fixed
		want     string // Session.Secure, or the failure's enhanced code
	}{
		{name: "opportunistic without TLS", want: ""},
		{name: "opportunistic", tls: good, want: "TLS"},
		{name: "opportunistic, self-signed", tls: self, want: "TLS"},
		{name: "opportunistic, expired", tls: expired, want: "TLS"},
		{name: "opportunistic, a version that is too old", tls: old, want: ""},
		{name: "none", security: Plain, tls: good, want: ""},
		{name: "encrypt without TLS", security: Encrypted, want: "4.7.5"},
		{name: "encrypt", security: Encrypted, tls: self, want: "TLS"},
		{name: "encrypt, too old", security: Encrypted, tls: old, want: "4.7.5"},
		{name: "verify", security: Verified, tls: good, want: "TLS, verified"},
		{name: "verify, self-signed", security: Verified, tls: self, want: "4.7.5"},
		{name: "verify, another name", security: Verified, tls: other, want: "4.7.5"},
		{name: "verify, expired", security: Verified, tls: expired, want: "4.7.5"},

		{name: "DANE-EE 3 1 1", tls: self, tlsa: tlsa(3, 1, 1, leaf(self)), want: "TLS, DANE"},
		{name: "DANE-EE 3 0 2", tls: self, tlsa: tlsa(3, 0, 2, leaf(self)), want: "TLS, DANE"},
		{name: "DANE-EE 3 1 0", tls: self, tlsa: tlsa(3, 1, 0, leaf(self)), want: "TLS, DANE"},
		{name: "DANE-EE counts no dates", tls: expired, tlsa: tlsa(3, 1, 1, leaf(expired)), want: "TLS, DANE"},
		{name: "DANE-EE counts no names", tls: other, tlsa: tlsa(3, 1, 1, leaf(other)), want: "TLS, DANE"},
		{name: "DANE-EE of another key", tls: self, tlsa: tlsa(3, 1, 1, leaf(good)), want: "4.7.5"},
		{name: "DANE, the second record fits", tls: self, tlsa: tlsa(3, 1, 1, leaf(good)) + "," +
			tlsa(3, 1, 1, leaf(self)), want: "TLS, DANE"},
		{name: "DANE-TA 2 1 1", tls: self, tlsa: tlsa(2, 1, 1, stranger.cert), want: "TLS, DANE"},
		{name: "DANE-TA 2 0 0", tls: self, tlsa: tlsa(2, 0, 0, stranger.cert), want: "TLS, DANE"},
		{name: "DANE-TA by the domain's name", tls: byDomain, tlsa: tlsa(2, 1, 1, stranger.cert), want: "TLS, DANE"},
		{name: "DANE-TA counts names", tls: other, tlsa: tlsa(2, 1, 1, ca.cert), want: "4.7.5"},
		{name: "DANE-TA counts dates", tls: expired, tlsa: tlsa(2, 1, 1, ca.cert), want: "4.7.5"},
		{name: "DANE-TA of another authority", tls: good, tlsa: tlsa(2, 1, 1, stranger.cert), want: "4.7.5"},
		{name: "DANE without TLS", tlsa: tlsa(3, 1, 1, leaf(self)), want: "4.7.5"},
		{name: "DANE in a zone that is not signed", tls: self, tlsa: tlsa(3, 1, 1, leaf(good)), insecure: true,
			want: "TLS"},
		{name: "DANE with records of no use demands TLS", tls: self, tlsa: tlsa(1, 1, 1, leaf(good)), want: "TLS"},
		{name: "DANE with records of no use, no TLS", tlsa: tlsa(0, 1, 1, leaf(good)), want: "4.7.5"},
		{name: "DANE goes before MTA-STS", tls: self, tlsa: tlsa(3, 1, 1, leaf(self)), sts: enforced,
			want: "TLS, DANE"},

		{name: "MTA-STS", tls: good, sts: enforced, want: "TLS, MTA-STS"},
		{name: "MTA-STS, self-signed", tls: self, sts: enforced, want: "4.7.5"},
		{name: "MTA-STS, expired", tls: expired, sts: enforced, want: "4.7.5"},
		{name: "MTA-STS, another name", tls: other, sts: enforced, want: "4.7.5"},
		{name: "MTA-STS without TLS", sts: enforced, want: "4.7.5"},
		{name: "MTA-STS, another host", tls: good, sts: fixed{true, []string{"elsewhere.example"}}, want: "4.7.5"},
		{name: "MTA-STS in testing", tls: self, sts: testing1, want: "TLS"},
		{name: "MTA-STS does not make none stronger", security: Plain, tls: self, sts: enforced, want: ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s, z, fix := start(t, sink.Options{TLS: c.tls})
			if c.tlsa != "" {
				for r := range strings.SplitSeq(c.tlsa, ",") {
					z.Add(fmt.Sprintf("_%d._tcp.mx.far.example. IN TLSA %s\n", s.Port(), r))
				}
			}
			if !c.insecure {
				z.Secure("far.example")
			}
			seen := &observer{}
			m := mailer(fix, s, z, func(o *Options) { o.Roots, o.Policies, o.Observer = ca.pool(), c.sts, seen })
			session, fail := m.Connect(bg, &Target{Domain: "far.example", Security: c.security})
			got := ""
			if fail != nil {
				got = fail.Reply.Enhanced.String()
				if fail.Permanent {
					t.Error("it is permanent")
				}
			} else {
				got = session.Secure
				res := session.Send(&Message{To: []Recipient{{To: smtp.Path{Local: "u", Domain: "far.example"}}},
					Data: []byte("Subject: x\r\n\r\nx\r\n")})
				session.Quit()
				if !res.Replies[0].Positive() || s.Messages()[0].TLS != (got != "") {
					t.Errorf("%+v", res.Replies[0])
				}
			}
			if got != c.want {
				t.Errorf("%q, want %q (%v)", got, c.want, fail)
			}
			if told, want := strings.Join(seen.told, ", "), observed[c.name]; told != want {
				t.Errorf("the observer is told %q, want %q", told, want)
			}
		})
	}
}

// TestTLSALookupFails checks that a failed TLSA lookup does not weaken the connection.
func TestTLSALookupFails(t *testing.T) {
	t.Parallel()
	s, z, fix := start(t, sink.Options{})
	z.Secure("far.example")
	z.Fail(fmt.Sprintf("_%d._tcp.mx.far.example.", s.Port()), zone.ServFail)
	_, fail := mailer(fix, s, z, nil).Connect(bg, &Target{Domain: "far.example"})
	if fail == nil || fail.Permanent || fail.Reply.Enhanced.String() != "4.7.5" || s.Sessions() != 0 {
		t.Errorf("%+v", fail)
	}
}

func TestOrderOfHosts(t *testing.T) {
	t.Parallel()
	s, z, fix := start(t, sink.Options{})
	z.Set(`
d.example. IN MX 20 c.d.example.
d.example. IN MX 10 a.d.example.
d.example. IN MX 10 b.d.example.
self.example. IN MX 5 a.d.example.
self.example. IN MX 10 b.d.example.
self.example. IN MX 10 MX.example.COM.
self.example. IN MX 20 c.d.example.
`)
	m := mailer(fix, s, z, nil)
	first := map[string]int{}
	for range 50 {
		list, fail := m.hosts(bg, &Target{Domain: "d.example"})
		if fail != nil || len(list) != 3 || list[2].name != "c.d.example" {
			t.Fatal(list, fail)
		}
		first[list[0].name]++
	}
	if first["a.d.example"] == 0 || first["b.d.example"] == 0 {
		t.Errorf("always the same first: %v", first)
	}
	list, fail := m.hosts(bg, &Target{Domain: "self.example"})
	if fail != nil || len(list) != 1 || list[0].name != "a.d.example" {
		t.Error(list, fail)
	}
	z.Fail("many.example", zone.ManyMX)
	if list, fail := m.hosts(bg, &Target{Domain: "many.example"}); fail == nil && len(list) > maxHosts {
		t.Errorf("%d hosts", len(list))
	}
	h := host{name: "both.example"}
	z.Add("both.example. IN A 127.0.0.1\nboth.example. IN A 127.0.0.2\nboth.example. IN AAAA ::1\n")
	at, _, err := m.addresses(bg, &h)
	if err != nil || len(at) != 3 || !at[0].Is6() || !at[1].Is4() || !at[2].Is4() {
		t.Error(at, err)
	}
}

// TestNextHost checks that servers that do not answer or reject are skipped, and that both address families are tried.
func TestNextHost(t *testing.T) {
	t.Parallel()
	s, z, fix := start(t, sink.Options{})
	busy, err := sink.New(fix.Env, fmt.Sprintf("127.0.0.3:%d", s.Port()),
		sink.Options{Reply: func(int, string) string { return "421 4.3.2 busy" }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(busy.Close)
	z.Set(`
d.example. IN MX 10 dead.d.example.
d.example. IN MX 20 busy.d.example.
d.example. IN MX 30 nowhere.d.example.
d.example. IN MX 40 live.d.example.
dead.d.example. IN A 127.0.0.2
busy.d.example. IN A 127.0.0.3
live.d.example. IN A 127.0.0.4
live.d.example. IN A 127.0.0.1
`)
	session, fail := mailer(fix, s, z, nil).Connect(bg, &Target{Domain: "d.example"})
	if fail != nil {
		t.Fatal(fail)
	}
	defer session.Quit()
	if session.Host != "live.d.example[127.0.0.1]" || busy.Sessions() != 1 {
		t.Error(session.Host)
	}
	six, err := sink.New(fix.Env, "[::1]:0", sink.Options{})
	if err != nil {
		t.Skip("no IPv6 here")
	}
	t.Cleanup(six.Close)
	z.Add("six.example. IN AAAA ::1\n")
	session6, fail := mailer(fix, six, z, nil).Connect(bg, &Target{Domain: "six.example"})
	if fail != nil || session6.Host != "six.example[::1]" {
		t.Fatal(fail)
	}
	session6.Quit()
}

// TestWords checks that a message is converted to the extensions of the server, or returned.
func TestWords(t *testing.T) {
	t.Parallel()
	eight := "Subject: x\r\n\r\ngrüße\r\n"
	intl := "Subject: grüße\r\n\r\nx\r\n"
	long := "Subject: x\r\n\r\n" + strings.Repeat("x\r\n", 1000)
	for _, c := range []struct {
		name, extensions string
		msg              Message
		to               string
		want             string // MAIL's argument and the recipients, or the code of the reply
	}{
		{"plain", "", Message{Data: []byte("\r\nx\r\n")}, "u@far.example", "<a@b.example> | <u@far.example>"},
		{"size", "SIZE 100000", Message{Data: []byte("\r\nx\r\n"), Prefix: []byte("A: b\r\n")}, "u@far.example",
			"<a@b.example> SIZE=11 | <u@far.example>"},
		{"too large", "SIZE 1000", Message{Data: []byte(long)}, "u@far.example", "5.3.4"},
		{"no limit", "SIZE 0", Message{Data: []byte(long)}, "u@far.example",
			fmt.Sprintf("<a@b.example> SIZE=%d | <u@far.example>", len(long))},
		{"8 bits", "8BITMIME", Message{Data: []byte(eight)}, "u@far.example",
			"<a@b.example> BODY=8BITMIME | <u@far.example>"},
		{"8 bits, not taken", "", Message{Data: []byte(eight)}, "u@far.example", "5.6.3"},
		{"raw header", "8BITMIME", Message{Data: []byte(intl)}, "u@far.example",
			"<a@b.example> BODY=8BITMIME | <u@far.example>"},
		{"international", "8BITMIME SMTPUTF8", Message{Data: []byte(intl), UTF8: true}, "u@far.example",
			"<a@b.example> BODY=8BITMIME SMTPUTF8 | <u@far.example>"},
		{"international, not taken", "8BITMIME", Message{Data: []byte(intl), UTF8: true}, "u@far.example", "5.6.7"},
		{"domain", "", Message{Data: []byte("\r\nx\r\n")}, "u@bücher.example",
			"<a@b.example> | <u@xn--bcher-kva.example>"},
		{"domain, as it is", "SMTPUTF8", Message{Data: []byte("\r\nx\r\n")}, "u@bücher.example",
			"<a@b.example> SMTPUTF8 | <u@bücher.example>"},
		{"local part", "", Message{Data: []byte("\r\nx\r\n")}, "jürgen@far.example", "5.6.7"},
		{"local part, taken", "SMTPUTF8", Message{Data: []byte("\r\nx\r\n")}, "jürgen@far.example",
			"<a@b.example> SMTPUTF8 | <jürgen@far.example>"},
		{"DSN", "DSN", Message{Data: []byte("\r\nx\r\n"), EnvID: "a b", Ret: smtp.RetFull}, "u@far.example",
			"<a@b.example> RET=FULL ENVID=a+20b | <u@far.example> NOTIFY=DELAY ORCPT=rfc822;o@x"},
		{"no DSN", "", Message{Data: []byte("\r\nx\r\n"), EnvID: "a b", Ret: smtp.RetFull}, "u@far.example",
			"<a@b.example> | <u@far.example>"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			extensions := []string{"X"}
			for _, e := range []string{"SIZE", "8BITMIME", "SMTPUTF8", "DSN"} {
				if i := strings.Index(c.extensions, e); i >= 0 {
					line := e
					if e == "SIZE" {
						line = c.extensions
					}
					extensions = append(extensions, line)
				}
			}
			s, z, fix := start(t, sink.Options{Extensions: extensions})
			session, fail := mailer(fix, s, z, nil).Connect(bg, &Target{Domain: "far.example"})
			if fail != nil {
				t.Fatal(fail)
			}
			defer session.Quit()
			to, err := smtp.ParsePath(c.to)
			if err != nil {
				t.Fatal(err)
			}
			c.msg.From = smtp.Path{Local: "a", Domain: "b.example"}
			c.msg.To = []Recipient{{To: to, Params: smtp.RcptParams{Notify: smtp.NotifyDelay, ORcpt: "rfc822;o@x"}}}
			res := session.Send(&c.msg)
			if !res.Replies[0].Positive() {
				if got := res.Replies[0].Enhanced.String(); got != c.want || !res.Own {
					t.Errorf("%s, want %s", got, c.want)
				}
				return
			}
			m := s.Messages()[0]
			if got := m.From + " | " + strings.Join(m.To, " "); got != c.want {
				t.Errorf("%s\nwant %s", got, c.want)
			}
			if m.Data != string(c.msg.Prefix)+string(c.msg.Data) {
				t.Errorf("%q", m.Data)
			}
		})
	}
}

func TestSmarthost(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	for _, c := range []struct {
		name, extension string
		tls             bool
		want            string
	}{
		{"PLAIN", "AUTH LOGIN PLAIN", false, "me:secret"},
		{"LOGIN", "AUTH LOGIN", false, "me:secret"},
		{"SCRAM", "AUTH PLAIN SCRAM-SHA-256", true, "me:secret"},
		{"nothing", "AUTH GSSAPI", true, "4.7.5"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			o := sink.Options{Extensions: []string{c.extension}, Password: "secret"}
			if c.tls {
				o.TLS, o.Implicit = ca.server("relay.far.example", time.Hour), true
			}
			s, z, fix := start(t, o)
			z.Add("relay.far.example. IN A 127.0.0.1\n")
			target := &Target{Host: "relay.far.example", Port: s.Port(), User: "me", Password: "secret"}
			if c.tls {
				target.Security = Implicit
			}
			session, fail := mailer(fix, s, z, func(o *Options) { o.Roots, o.Port = ca.pool(), 1 }).Connect(bg, target)
			if fail != nil {
				if got := fail.Reply.Enhanced.String(); got != c.want {
					t.Errorf("%s: %v", got, fail)
				}
				return
			}
			session.Send(&Message{To: []Recipient{{To: smtp.Path{Local: "u", Domain: "x.example"}}},
				Data: []byte("\r\nx\r\n")})
			session.Quit()
			if got := s.Messages()[0].User; got != c.want {
				t.Errorf("signed in as %s", got)
			}
		})
	}
	s, z, fix := start(t, sink.Options{Extensions: []string{"AUTH SCRAM-SHA-256"}, Password: "other"})
	if _, fail := mailer(fix, s, z, nil).Connect(bg, &Target{Host: "127.0.0.1", Port: s.Port(), User: "me",
		Password: "secret"}); fail == nil || fail.Permanent {
		t.Errorf("%v", fail)
	}
}

// TestOurselves checks that a server with this server's own name is treated as a mail loop.
func TestOurselves(t *testing.T) {
	t.Parallel()
	s, z, fix := start(t, sink.Options{Name: "mx.example.com"})
	_, fail := mailer(fix, s, z, nil).Connect(bg, &Target{Domain: "far.example"})
	if fail == nil || !fail.Permanent || fail.Reply.Enhanced.String() != "5.4.6" {
		t.Errorf("%v", fail)
	}
}

func TestDomain(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"Far.Example": "far.example", "bücher.example": "xn--bcher-kva.example", "[127.0.0.1]": "[127.0.0.1]",
		"[IPv6:::1]": "[ipv6:::1]", "": "",
	} {
		if got, ok := Domain(in); got != want || ok != (want != "") {
			t.Errorf("%s: %s", in, got)
		}
	}
}

func TestHigh(t *testing.T) {
	t.Parallel()
	for n := range 40 {
		b := []byte(strings.Repeat("x", n))
		if high(b) {
			t.Fatal(n)
		}
		for i := range b {
			b[i] = 0x80
			if !high(b) {
				t.Fatal(n, i)
			}
			b[i] = 'x'
		}
	}
}
