package outbound

import (
	"crypto/tls"
	"fmt"
	"testing"
	"time"

	"doublet/mail/outbound/sink"
	"doublet/wire/smtp"
)

// TestDemand checks that mail with REQUIRETLS is sent only to servers that authenticate themselves and offer
// REQUIRETLS, and that "TLS-Required: No" overrides only the policies of the recipient's domain.
func TestDemand(t *testing.T) {
	t.Parallel()
	ca, stranger := newAuthority(t), newAuthority(t)
	good, self := ca.server("mx.far.example", time.Hour), stranger.server("mx.far.example", time.Hour)
	enforced, elsewhere := fixed{true, []string{"mx.far.example"}}, fixed{true, []string{"elsewhere.example"}}
	daneSelf := tlsa(3, 1, 1, self.Certificates[0].Leaf)
	for _, c := range []struct {
		name     string
		demand   Demand
		security Security
		tls      *tls.Config
		tlsa     string
		insecure bool
		sts      fixed
		silent   bool   // REQUIRETLS is not offered
		host     string // a fixed route
		want     string // Session.Secure, or the failure's enhanced code
	}{
		{name: "DNSSEC and a certificate of the name", demand: Required, tls: good, want: "TLS, verified"},
		{name: "DANE", demand: Required, tls: self, tlsa: daneSelf, want: "TLS, DANE"},
		{name: "DANE of another key", demand: Required, tls: good, tlsa: daneSelf, want: "5.7.10"},
		{name: "MTA-STS", demand: Required, tls: good, insecure: true, sts: enforced, want: "TLS, MTA-STS"},
		{name: "MTA-STS in testing", demand: Required, tls: good, insecure: true, sts: fixed{false, enforced.hosts},
			want: "TLS, verified"},
		{name: "MTA-STS names another host", demand: Required, tls: good, sts: elsewhere, want: "5.7.10"},
		{name: "nobody vouches for the MX", demand: Required, tls: good, insecure: true, want: "5.7.10"},
		{name: "no TLS", demand: Required, want: "5.7.10"},
		{name: "self-signed", demand: Required, tls: self, want: "5.7.10"},
		{name: "no promise", demand: Required, tls: good, silent: true, want: "5.7.30"},
		{name: "a route without TLS", demand: Required, tls: good, security: Plain, want: "5.7.10"},
		{name: "a route with any certificate", demand: Required, tls: self, security: Encrypted, want: "5.7.10"},
		{name: "a route to a server", demand: Required, tls: good, host: "mx.far.example", insecure: true,
			security: Encrypted, want: "TLS, verified"},

		{name: "relaxed, MTA-STS", demand: Relaxed, tls: self, sts: enforced, want: "TLS"},
		{name: "relaxed, MTA-STS names another host", demand: Relaxed, tls: self, sts: elsewhere, want: "TLS"},
		{name: "relaxed, no TLS", demand: Relaxed, sts: enforced, want: ""},
		{name: "relaxed, DANE of another key", demand: Relaxed, tls: good, tlsa: daneSelf, want: "TLS"},
		{name: "relaxed, a route that verifies", demand: Relaxed, tls: self, security: Verified, want: "4.7.5"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			o := sink.Options{TLS: c.tls, Extensions: []string{"PIPELINING", "8BITMIME", "REQUIRETLS"}}
			if c.silent {
				o.Extensions = o.Extensions[:2]
			}
			s, z, fix := start(t, o)
			if c.tlsa != "" {
				z.Add(fmt.Sprintf("_%d._tcp.mx.far.example. IN TLSA %s\n", s.Port(), c.tlsa))
			}
			if !c.insecure {
				z.Secure("far.example")
			}
			m := mailer(fix, s, z, func(o *Options) { o.Roots, o.Policies = ca.pool(), c.sts })
			target := &Target{Domain: "far.example", Security: c.security, TLS: c.demand}
			if c.host != "" {
				target.Domain, target.Host = "", c.host
			}
			session, fail := m.Connect(bg, target)
			if fail != nil {
				if got := fail.Reply.Enhanced.String(); got != c.want || fail.Permanent != (c.demand == Required) {
					t.Errorf("%q, want %q (%v)", got, c.want, fail)
				}
				return
			}
			defer session.Quit()
			res := session.Send(&Message{RequireTLS: c.demand == Required,
				To:   []Recipient{{To: smtp.Path{Local: "u", Domain: "far.example"}}},
				Data: []byte("Subject: x\r\n\r\nx\r\n")})
			if session.Secure != c.want || !res.Replies[0].Positive() {
				t.Errorf("%q, want %q; %v", session.Secure, c.want, res.Replies[0])
			}
			want := "<>"
			if c.demand == Required {
				want = "<> REQUIRETLS"
			}
			if from := s.Messages()[0].From; from != want {
				t.Errorf("MAIL FROM:%s, want %s", from, want)
			}
		})
	}
}

// TestDemandNextHost checks that the next server is tried if one does not meet the demand, and that mail waits if some
// server could not be asked.
func TestDemandNextHost(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	s, z, fix := start(t, sink.Options{TLS: ca.server("mx2.far.example", time.Hour),
		Extensions: []string{"REQUIRETLS"}})
	z.Add("far.example. IN MX 20 mx2.far.example.\nmx2.far.example. IN A 127.0.0.1\n")
	z.Secure("far.example")
	m := mailer(fix, s, z, func(o *Options) { o.Roots = ca.pool() })
	session, fail := m.Connect(bg, &Target{Domain: "far.example", TLS: Required})
	if fail != nil || session.Name != "mx2.far.example" {
		t.Fatal(fail)
	}
	session.Quit()
	z.Set("far.example. IN MX 10 mx.far.example.\nfar.example. IN MX 20 mx2.far.example.\n" +
		"mx.far.example. IN A 127.0.0.1\nmx2.far.example. IN A 127.0.0.9\n")
	z.Secure("far.example")
	if _, fail := mailer(fix, s, z, func(o *Options) { o.Roots = ca.pool() }).Connect(bg,
		&Target{Domain: "far.example", TLS: Required}); fail == nil || fail.Permanent {
		t.Errorf("%v", fail)
	}
}

// TestDemandOfMessage checks that a session for other mail rejects a message with REQUIRETLS.
func TestDemandOfMessage(t *testing.T) {
	t.Parallel()
	s, z, fix := start(t, sink.Options{Extensions: []string{"REQUIRETLS"}})
	session, fail := mailer(fix, s, z, nil).Connect(bg, &Target{Domain: "far.example"})
	if fail != nil {
		t.Fatal(fail)
	}
	defer session.Quit()
	res := session.Send(&Message{RequireTLS: true, To: []Recipient{{To: smtp.Path{Local: "u", Domain: "far.example"}}},
		Data: []byte("Subject: x\r\n\r\nx\r\n")})
	if r := res.Replies[0]; !res.Own || r.Enhanced.String() != "5.7.30" || s.Count() != 0 {
		t.Errorf("%v", r)
	}
}
