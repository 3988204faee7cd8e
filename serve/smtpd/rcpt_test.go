package smtpd

import "testing"

// RFC 5321 §4.1.1.3.
func TestRCPT(t *testing.T) {
	t.Parallel()
	h := open(t, settings{})
	script(t, h.hello(), `
		> RCPT TO:<alice@example.org>
		< 503 5.5.1 MAIL first
		> MAIL FROM:<>
		< 250 2.1.0
		> RCPT TO:<alice@example.org> NOTIFY=SUCCESS,DELAY ORCPT=rfc822;a@b
		< 250 2.1.5
		> RCPT TO:<postmaster>
		< 250 2.1.5
		> RCPT TO:<PostMaster@example.org>
		< 250 2.1.5
		> RCPT TO:<>
		< 501 5.1.3
		> RCPT TO:<a@b@c>
		< 501 5.1.3
		> RCPT TO:<alice>
		< 501 5.1.3
		> RCPT TO:<nobody@example.org>
		< 550 5.1.1 No such user
		> RCPT TO:<a@elsewhere.example>
		< 550 5.7.1 Relaying denied
		> RCPT TO:<full@example.org>
		< 452 4.2.2 Mailbox full
		> RCPT TO:<alice@example.org> NOTIFY=NEVER,SUCCESS
		< 501 5.5.4
		> RCPT TO:<ä@example.org>
		< 553 5.6.7`)
}

// RFC 5321 §4.5.3.1.10.
func TestRCPTLimit(t *testing.T) {
	t.Parallel()
	h := open(t, settings{Config: Config{MaxRecipients: 2}})
	script(t, h.hello(), `
		> MAIL FROM:<>
		< 250 2.1.0
		> RCPT TO:<alice@example.org>
		< 250 2.1.5
		> RCPT TO:<nobody@example.org>
		< 550 5.1.1
		> RCPT TO:<bob@example.org>
		< 250 2.1.5
		> RCPT TO:<alice@example.org>
		< 452 4.5.3
		> DATA
		< 354
		> .
		< 250 2.0.0`)
	if d := h.backend.delivered(); len(d) != 1 || len(d[0].to) != 2 {
		t.Error(d)
	}
}
