package smtpd

import (
	"strings"
	"testing"

	"doublet/wire/smtp"
)

const beginBDAT = `
		> MAIL FROM:<a@b.example>
		< 250 2.1.0
		> RCPT TO:<alice@example.org>
		< 250 2.1.5
		`

// RFC 3030 §2.
func TestBDAT(t *testing.T) {
	t.Parallel()
	h := open(t, settings{})
	c := h.hello()
	script(t, c, beginBDAT+`> BDAT 6\r\n.\r\nab
		< 250 2.0.0`)
	// The chunk above is ".\r\nab" and the first byte of the script's CRLF. The rest follows now.
	script(t, c, `
		< 500 5.5.2`)
	c = h.hello()
	if err := c.Mail(path("a@b.example"), smtp.MailParams{}); err != nil {
		t.Fatal(err)
	}
	if err := c.Rcpt(path("alice@example.org"), smtp.RcptParams{}); err != nil {
		t.Fatal(err)
	}
	for i, chunk := range []string{"Subject: x\r\n", "\r\n", ".\r\n..\r\n", "",
		strings.Repeat("long\r\n", 50_000), "end"} {
		r, err := c.BDAT([]byte(chunk), i == 5)
		if err != nil || r[0].Code != 250 {
			t.Fatal(i, err, r)
		}
	}
	d := h.backend.delivered()
	if len(d) != 1 || d[0].msg != "Subject: x\r\n\r\n.\r\n..\r\n"+strings.Repeat("long\r\n", 50_000)+"end\r\n" {
		t.Errorf("%d", len(d))
	}
}

// The bytes of a chunk are never commands, whatever is wrong with the chunk.
func TestBDATRefused(t *testing.T) {
	t.Parallel()
	h := open(t, settings{Config: Config{MaxMessage: 100, MaxErrors: 100}})
	script(t, h.hello(), `
		> BDAT 6\r\nNOOP
		< 503 5.5.1 MAIL first
		> MAIL FROM:<>
		< 250 2.1.0
		> BDAT 8 LAST\r\nNOOP\r\n
		< 554 5.5.1 No valid
		> RCPT TO:<alice@example.org>
		< 250 2.1.5
		> BDAT 6\r\nNOOP
		< 250 2.0.0
		> DATA
		< 503 5.5.1
		> RCPT TO:<bob@example.org>
		< 503 5.5.1
		> MAIL FROM:<>
		< 503 5.5.1
		> BDAT 152\r\n`+strings.Repeat("x", 150)+`
		< 552 5.3.4
		> BDAT 6 LAST\r\nNOOP
		< 503 5.5.1
		> RSET
		< 250 2.0.0`+beginBDAT+`> BDAT 6 LAST\r\na\nbc
		< 554 5.6.0`+beginBDAT+`> BDAT 0 LAST
		< 250 2.0.0 OK id1`+beginBDAT+`> BDAT 99999999 LAST
		< 552 5.3.4
		EOF`)
	script(t, h.hello(), beginBDAT+`> BDAT x
		< 501 5.5.4
		EOF`)
}

func TestBDATLMTP(t *testing.T) {
	t.Parallel()
	h := open(t, settings{Config: Config{Kind: LMTP}})
	script(t, h.hello(), beginBDAT+`> RCPT TO:<late@example.org>
		< 250
		> BDAT 6 LAST\r\nline
		< 250 2.0.0 <alice@example.org> OK id1
		< 552 5.2.2
		> NOOP
		< 250 2.0.0 OK`)
}

func TestBDATVanished(t *testing.T) {
	t.Parallel()
	h := open(t, settings{})
	c := h.hello()
	script(t, c, beginBDAT)
	if err := c.Send([]byte("BDAT 100 LAST\r\nhalf")); err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	if d := h.backend.delivered(); len(d) != 0 {
		t.Error(d)
	}
}
