package mail

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"doublet/directory"
	"doublet/mail/outbound/sink"
	"doublet/test/door"
)

// secureFar is a remote server with a certificate that DANE authenticates.
func secureFar(t *testing.T, extensions ...string) *far {
	t.Helper()
	cert := door.Certificate()
	f := openFar(t, Options{PerDestination: 1}, sink.Options{TLS: &tls.Config{Certificates: []tls.Certificate{cert}},
		Extensions: extensions})
	leaf, err := x509.ParseCertificate(cert.Certificate[0])
	f.ok(err)
	sum := sha256.Sum256(leaf.RawSubjectPublicKeyInfo)
	f.zone.Add(fmt.Sprintf("_%d._tcp.mx.far.example. IN TLSA 3 1 1 %s\n", f.sink.Port(), hex.EncodeToString(sum[:])))
	f.zone.Secure("far.example")
	return f
}

// TestRequireTLS checks that the demand stays with the message in mail.box, with forwarded copies, and with reports.
func TestRequireTLS(t *testing.T) {
	t.Parallel()
	f := secureFar(t, "REQUIRETLS", "DSN")
	f.set(f.person("bob"), func(p *directory.PersonFields) { p.Forward = []string{"bob@far.example"} })
	for _, required := range []bool{true, false} {
		sub := f.from("alice@far.example", "u@far.example", "bob@example.com")
		sub.Params.RequireTLS = required
		sub.Message = []byte("Subject: x\r\nTLS-Required: No\r\n\r\nx\r\n")
		f.deposit(sub)
	}
	f.stop() // the demand persists across a restart
	f.start()
	f.flush()
	got := map[bool]int{}
	for _, m := range f.sink.Messages() {
		if !m.TLS {
			t.Errorf("sent in the clear: %+v", m)
		}
		got[strings.Contains(m.From, " REQUIRETLS")]++
	}
	if got[true] != 2 || got[false] != 2 {
		t.Errorf("%v", f.sink.Messages())
	}
	f.queue(0)
}

// TestRequireTLSFails checks that a message whose demand the server does not meet is returned without its body, and
// that the report has the same demand. Other mail to that server is not delayed.
func TestRequireTLSFails(t *testing.T) {
	t.Parallel()
	f := secureFar(t, "DSN")
	alice := f.person("alice")
	sub := f.from(alice.InternetAddress, "u@far.example")
	sub.Params.RequireTLS = true
	sub.Message = []byte("Subject: secret\r\n\r\nthe text\r\n")
	f.deposit(sub)
	f.deposit(f.from(alice.InternetAddress, "v@far.example"))
	f.flush()
	f.queue(0)
	reports := f.inbox(alice.MailDatabase)
	if len(reports) != 1 || f.sink.Count() != 1 {
		t.Fatalf("%d reports, %d sent", len(reports), f.sink.Count())
	}
	parseReport(t, reports[0]).field(t, 1, "Status", "5.7.30")
	if !strings.Contains(reports[0], "Subject: secret") || strings.Contains(reports[0], "the text") {
		t.Errorf("%s", reports[0])
	}
	sub = f.from("carol@far.example", "nobody@other.example")
	sub.Params.RequireTLS = true
	f.deposit(sub)
	f.flush() // the domain does not exist; the report to carol requires TLS too, and cannot be sent
	if e := f.queue(1)[0]; !e.Dead || !strings.Contains(e.Recipients[0].Reply, "5.7.30") {
		t.Errorf("%+v", e)
	}
}

// TestTLSNotRequired checks that mail with "TLS-Required: No" is delivered although the certificate does not match the
// domain's policy.
func TestTLSNotRequired(t *testing.T) {
	t.Parallel()
	f := secureFar(t, "DSN")
	f.zone.Set(farZone + fmt.Sprintf("_%d._tcp.mx.far.example. IN TLSA 3 1 1 %s\n", f.sink.Port(),
		strings.Repeat("00", 32)))
	f.zone.Secure("far.example")
	for _, field := range []string{"TLS-Required: No\r\n", "", "TLS-Required: yes\r\n"} {
		sub := f.from("alice@far.example", "u@far.example")
		sub.Message = []byte(field + "Subject: x\r\n\r\nx\r\n")
		f.deposit(sub)
	}
	f.flush()
	if got := f.sink.Messages(); len(got) != 1 || !strings.Contains(got[0].Data, "TLS-Required: No\r\n") {
		t.Errorf("%v", got)
	}
	f.queue(2)
}
