package smtpd

import (
	"strings"
	"testing"

	"doublet/test/program"
)

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

// TestRCPTLog checks that rejected recipients are logged with the client and the reason, up to a limit, and not at all
// with Quiet.
func TestRCPTLog(t *testing.T) {
	t.Parallel()
	for _, quiet := range []bool{false, true} {
		log := &program.Output{}
		h := open(t, settings{Config: Config{Quiet: quiet, MaxErrors: 100}, log: log})
		text := "> MAIL FROM:<eve@far.example>\n< 250 2.1.0\n" +
			strings.Repeat("> RCPT TO:<nobody@example.org>\n< 550 5.1.1\n", maxRefusedLines+5)
		script(t, h.hello(), text)
		lines := strings.Count(log.String(), "recipient refused")
		if quiet && lines != 0 || !quiet && lines != maxRefusedLines {
			t.Errorf("quiet %v: %d lines", quiet, lines)
		}
		for _, part := range []string{"from=eve@far.example", "to=nobody@example.org", `reply="550 5.1.1`} {
			if !quiet && !strings.Contains(log.String(), part) {
				t.Errorf("no %s in\n%s", part, log)
			}
		}
	}
}
