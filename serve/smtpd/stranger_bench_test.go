//go:build unix

package smtpd

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"fmt"
	"strings"
	"testing"
	"time"

	"doublet/client/dns"
	"doublet/client/dns/zone"
	client "doublet/client/smtp"
	"doublet/mail/inbound"
	"doublet/mail/verify"
	"doublet/wire/dkim"
	"doublet/wire/smtp"
)

// BenchmarkStranger delivers 1 KB messages from an unknown sender over one loopback connection. Client and server run
// in this process, and DNS answers are cached. The cases are: no checks; the default settings and a message with an SPF
// pass; the same with two DKIM signatures; and LMTP and authenticated submission, which are not checked.
func BenchmarkStranger(b *testing.B) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		b.Fatal(err)
	}
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		b.Fatal(err)
	}
	signers := []dkim.Signer{{Domain: "far.example", Selector: "r", Key: key},
		{Domain: "far.example", Selector: "e", Key: ed}}
	text := "$TTL 3600\n. IN SOA ns.example. h.example. 1 3600 600 86400 300\n" +
		"far.example. IN SOA ns.example. h.example. 1 3600 600 86400 300\n" +
		"far.example. IN TXT \"v=spf1 ip4:192.0.2.7 -all\"\n_dmarc.far.example. IN TXT \"v=DMARC1; p=reject\"\n" +
		"7.2.0.192.in-addr.arpa. IN PTR client.far.example.\nclient.far.example. IN A 192.0.2.7\n" +
		"client.far.example. IN TXT \"v=spf1 a -all\"\n"
	for _, s := range signers {
		record, err := dkim.Record(s.Key.Public())
		if err != nil {
			b.Fatal(err)
		}
		text += fmt.Sprintf("%s._domainkey.far.example. IN TXT \"%s\" \"%s\"\n", s.Selector, record[:len(record)/2],
			record[len(record)/2:])
	}
	plain := "From: <eve@far.example>\r\nTo: alice@example.com\r\nSubject: s\r\n" +
		"Date: Mon, 5 Jan 2026 09:00:00 +0000\r\nMessage-ID: <1@far.example>\r\n\r\n" +
		strings.Repeat(strings.Repeat("x", 74)+"\r\n", 13)
	head, err := dkim.New([]byte(plain)).AppendSignatures(nil, signers, time.Now())
	if err != nil {
		b.Fatal(err)
	}
	for _, mode := range []string{"off", "spf", "signed", "lmtp", "submission"} {
		b.Run(mode, func(b *testing.B) {
			s := serve(b)
			z := zone.Start(b, text)
			v := verify.New(s.env, dns.New(s.env, dns.Options{Servers: []string{z.Addr()}}),
				verify.Options{Hostname: "mx.example.com", SPF: verify.Mark, DMARC: verify.Reject})
			o := inbound.Options{Verify: v}
			sender, message := "eve@far.example", plain
			var c *client.Client
			switch mode {
			case "off":
				c = s.strangers(inbound.Options{}, Config{})()
			case "lmtp":
				c = s.dial(LMTP)
			case "submission":
				sender, message = "alice@example.com", strings.Replace(plain, "eve@far.example", "alice@example.com", 1)
				c = s.signed(Submission, "alice")
			case "signed":
				message = string(head) + plain
				c = s.strangers(o, Config{})()
			default:
				c = s.strangers(o, Config{})()
			}
			m := client.Outgoing{From: path(sender), To: []smtp.Path{path("alice@example.com")},
				Message: []byte(message)}
			send := func() {
				if res, err := c.Deliver(&m); err != nil || !res.Accepted(0) {
					b.Fatal(err, codes(res.Final))
				}
			}
			send() // its DNS answers are cached from here on
			b.ReportAllocs()
			b.ResetTimer()
			before := cpu()
			for range b.N {
				send()
			}
			b.StopTimer()
			b.ReportMetric(float64((cpu()-before).Microseconds())/float64(b.N), "cpu-µs/msg")
		})
	}
}
