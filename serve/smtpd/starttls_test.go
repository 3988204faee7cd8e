package smtpd

import (
	"testing"

	"doublet/test/door"
)

// RFC 3207.
func TestSTARTTLS(t *testing.T) {
	t.Parallel()
	h := open(t, settings{tls: true, remote: true})
	c := h.hello()
	script(t, c, `
		> STARTTLS now
		< 501 5.5.4
		> AUTH PLAIN AGFsaWNlAHNlY3JldA==
		< 538 5.7.11
		> MAIL FROM:<>
		< 250 2.1.0
		> STARTTLS
		< 503 5.5.1
		> RSET
		< 250 2.0.0
		> MAIL FROM:<> REQUIRETLS
		< 555 5.5.4`)
	if _, ok := c.Ext("REQUIRETLS"); ok {
		t.Error("REQUIRETLS is offered in the clear")
	}
	if _, ok := c.Ext("AUTH"); ok {
		t.Error("AUTH is offered in the clear")
	}
	if err := c.StartTLS(door.ClientTLS); err != nil {
		t.Fatal(err)
	}
	script(t, c, `
		> MAIL FROM:<>
		< 503 5.5.1 Say EHLO first`)
	if err := c.Hello("again"); err != nil {
		t.Fatal(err)
	}
	if _, ok := c.Ext("STARTTLS"); ok {
		t.Error("STARTTLS is offered twice")
	}
	if _, ok := c.Ext("REQUIRETLS"); !ok {
		t.Error("REQUIRETLS is not offered over TLS")
	}
	script(t, c, `
		> STARTTLS
		< 503 5.5.1 TLS is already on
		> AUTH PLAIN AGFsaWNlAHNlY3JldA==
		< 235 2.7.0`+`
		> MAIL FROM:<alice@b.example> REQUIRETLS
		< 250 2.1.0
		> RCPT TO:<alice@example.org>
		< 250 2.1.5
		> DATA
		< 354
		> x\r\n.
		< 250 2.0.0`)
	d := h.backend.delivered()
	if len(d) != 1 || d[0].proto != "ESMTPSA" || d[0].helo != "again" || d[0].env.TLSName == "" ||
		!d[0].env.Params.RequireTLS {
		t.Errorf("%+v", d)
	}
}

// Commands injected in the clear after STARTTLS are never executed.
func TestSTARTTLSInjection(t *testing.T) {
	t.Parallel()
	h := open(t, settings{tls: true})
	c := h.hello()
	if err := c.Send([]byte("STARTTLS\r\nEHLO evil\r\nMAIL FROM:<evil@b.example>\r\n")); err != nil {
		t.Fatal(err)
	}
	if r, err := c.Reply(); err != nil || r.Code != 220 {
		t.Fatal(r, err)
	}
	// The injected commands are gone: the client's own commands come first.
	c2 := tlsOver(t, h, c)
	script(t, c2, `
		> RCPT TO:<alice@example.org>
		< 503 5.5.1 MAIL first
		> MAIL FROM:<>
		< 503 5.5.1 Say EHLO first`)
}

func TestSTARTTLSUnavailable(t *testing.T) {
	t.Parallel()
	script(t, open(t, settings{}).hello(), `
		> STARTTLS
		< 502 5.5.1`)
	// A client that sends invalid data instead of a TLS handshake is disconnected.
	script(t, open(t, settings{tls: true}).hello(), `
		> STARTTLS
		< 220 2.0.0
		> NOOP is no ClientHello
		EOF`)
}
