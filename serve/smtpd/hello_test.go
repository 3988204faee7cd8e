package smtpd

import (
	"strings"
	"testing"
)

// RFC 5321 §4.1.1.1, RFC 1870 §3, RFC 9422.
func TestEHLO(t *testing.T) {
	t.Parallel()
	h := open(t, settings{tls: true, Config: Config{Hostname: "mx.example.org", MaxMessage: 12345}})
	c := h.dial()
	if got := c.Greeting.Error(); got != "220 mx.example.org ESMTP Doublet" {
		t.Error(got)
	}
	r, err := c.Raw("EHLO [192.0.2.1]")
	if err != nil {
		t.Fatal(err)
	}
	want := "mx.example.org PIPELINING|SIZE 12345|8BITMIME|SMTPUTF8|CHUNKING|DSN|MT-PRIORITY MIXER|STARTTLS|AUTH " +
		"SCRAM-SHA-256 PLAIN LOGIN|LIMITS RCPTMAX=1000|ENHANCEDSTATUSCODES"
	if got := strings.Replace(strings.Join(r.Lines, "|"), "|", " ", 1); got != want {
		t.Error(got)
	}
	script(t, c, `
		> EHLO
		< 501 5.5.4
		> EHLO a b
		< 501 5.5.4
		> LHLO me
		< 500 5.5.1
		> HELO me
		< 250 mx.example.org
		> AUTH PLAIN
		< 503 5.5.1`)
}

// A new EHLO ends the transaction.
func TestEHLOResets(t *testing.T) {
	t.Parallel()
	h := open(t, settings{})
	script(t, h.dial(), `
		> MAIL FROM:<>
		< 503 5.5.1 Say EHLO first
		> EHLO me
		< 250
		> MAIL FROM:<>
		< 250 2.1.0
		> EHLO me
		< 250
		> RCPT TO:<alice@example.org>
		< 503 5.5.1 MAIL first`)
}

// RFC 2033 §4.1.
func TestLHLO(t *testing.T) {
	t.Parallel()
	h := open(t, settings{Config: Config{Kind: LMTP}})
	c := h.dial()
	script(t, c, `
		> EHLO me
		< 500 5.5.1
		> HELO me
		< 500 5.5.1
		> LHLO me
		< 250`)
	if err := c.Hello("me"); err != nil {
		t.Fatal(err)
	}
	if _, ok := c.Ext("AUTH"); ok {
		t.Error("LMTP offers AUTH")
	}
}
