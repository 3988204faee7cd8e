package smtpd

import (
	"bytes"
	"context"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	client "doublet/client/smtp"
	"doublet/serve/listen"
	"doublet/wire/smtp"
)

const begin = `
		> MAIL FROM:<a@b.example>
		< 250 2.1.0
		> RCPT TO:<alice@example.org>
		< 250 2.1.5
		> DATA
		< 354
		`

// RFC 5321 §4.1.1.4, §4.5.2.
func TestDATA(t *testing.T) {
	t.Parallel()
	h := open(t, settings{})
	script(t, h.hello(), `
		> DATA
		< 503 5.5.1 MAIL first
		> MAIL FROM:<>
		< 250 2.1.0
		> DATA
		< 554 5.5.1 No valid recipients
		> RCPT TO:<alice@example.org>
		< 250 2.1.5
		> DATA now
		< 501 5.5.4
		> DATA
		< 354
		> Subject: x\r\n\r\n..\r\n...two\r\n.
		< 250 2.0.0 OK id1
		> DATA
		< 503 5.5.1 MAIL first`+begin+`> .
		< 250 2.0.0 OK id2`)
	d := h.backend.delivered()
	if len(d) != 2 || d[0].msg != "Subject: x\r\n\r\n.\r\n..two\r\n" || d[1].msg != "" {
		t.Errorf("%+v", d)
	}
}

// Only CRLF.CRLF ends a message. Other end sequences (SMTP smuggling) cause rejection of the whole message, and what
// follows them is not read as a command.
func TestDATASmuggling(t *testing.T) {
	t.Parallel()
	h := open(t, settings{Config: Config{MaxErrors: 100}})
	for _, end := range []string{"\n.\n", "\r.\r", "\n.\r\n", "\r\n.\n", "\r\n.\r", "\r.\r\n", "\r\r\n.\r\r\n",
		"\n\n.\r\n"} {
		c := h.hello()
		script(t, c, begin)
		if err := c.Send([]byte("Subject: x\r\n\r\nhello" + end +
			"MAIL FROM:<evil@example.org>\r\nRCPT TO:<alice@example.org>\r\nDATA\r\nsmuggled\r\n.\r\n")); err != nil {
			t.Fatal(err)
		}
		script(t, c, `
			< 554 5.6.0 Message contains a bare CR or LF
			> NOOP
			< 250 2.0.0 OK`)
	}
	if d := h.backend.delivered(); len(d) != 0 {
		t.Errorf("%+v", d)
	}
}

func TestDATANormalize(t *testing.T) {
	t.Parallel()
	h := open(t, settings{Config: Config{BareLF: BareNormalize, MaxMessage: 60}})
	c := h.hello()
	script(t, c, begin)
	if err := c.Send([]byte("a\nb\rc\r\n.\nd\n.\r\ne\n\r\n.\r\n")); err != nil {
		t.Fatal(err)
	}
	script(t, c, "< 250 2.0.0"+begin)
	if d := h.backend.delivered()[0].msg; d != "a\r\nb\r\nc\r\n\r\nd\r\n.\r\ne\r\n\r\n" {
		t.Errorf("%q", d)
	}
	if err := c.Send([]byte(strings.Repeat("\n", 50) + "\r\n.\r\n")); err != nil {
		t.Fatal(err)
	}
	script(t, c, "< 552 5.3.4")
}

func TestDATARefused(t *testing.T) {
	t.Parallel()
	h := open(t, settings{Config: Config{MaxMessage: 100_000, MaxErrors: 100}})
	c := h.hello()
	for _, tc := range []struct{ data, want string }{
		{"nul \x00\r\n", "< 554 5.6.0 Message contains NUL"},
		{strings.Repeat("Received: x\r\n", 101) + "\r\n", "< 554 5.4.6"},
		{strings.Repeat("Received: x\r\n", 100) + "\r\nReceived: y\r\n", "< 250 2.0.0"},
		{strings.Repeat("x", 99_998) + "\r\n", "< 250 2.0.0"},
		{strings.Repeat("x", 99_999) + "\r\n", "< 552 5.3.4"},
		{strings.Repeat(strings.Repeat(".x", 500)+"\r\n", 3000), "< 552 5.3.4"},
	} {
		script(t, c, begin)
		var b bytes.Buffer
		w := smtp.NewDotWriter(&b)
		_, _ = w.Write([]byte(tc.data))
		_ = w.Close()
		if err := c.Send(b.Bytes()); err != nil {
			t.Fatal(err)
		}
		script(t, c, tc.want+"\n> NOOP\n< 250 2.0.0 OK")
	}
}

// Messages of all sizes arrive complete, over TLS too.
func TestDATASizes(t *testing.T) {
	t.Parallel()
	for _, secure := range []bool{false, true} {
		h := open(t, settings{tls: secure, implicit: secure})
		c := h.hello()
		rnd := rand.New(rand.NewPCG(1, 2))
		for _, size := range []int{0, 1, 4095, 8192, 16384, 16385, 100_000, 1 << 20, 9 << 20} {
			var b bytes.Buffer
			for b.Len() < size {
				n := rnd.IntN(200)
				for range n {
					b.WriteByte(".abcdefg"[rnd.IntN(8)])
				}
				b.WriteString("\r\n")
			}
			before := len(h.backend.delivered())
			res, err := c.Deliver(&client.Outgoing{To: []smtp.Path{path("alice@example.org")}, Message: b.Bytes()})
			if err != nil || !res.Accepted(0) {
				t.Fatal(size, err, res)
			}
			if got := h.backend.delivered()[before].msg; got != b.String() {
				t.Fatalf("size %d: came as %d bytes", size, len(got))
			}
		}
	}
}

// Memory for messages in transfer is bounded. Messages beyond the bound get a temporary failure, also in the middle of
// the data.
func TestDATAMemory(t *testing.T) {
	t.Parallel()
	h := open(t, settings{Config: Config{Memory: listen.NewBudget(200 << 10), MaxMessage: 1 << 20}})
	c := h.hello()
	big := []byte(strings.Repeat(strings.Repeat("x", 78)+"\r\n", 6000))
	res, err := c.Deliver(&client.Outgoing{To: []smtp.Path{path("alice@example.org")}, Message: big})
	if err != nil || res.Final[0].Error() != errMemory.Error() {
		t.Fatal(err, res)
	}
	if !h.server.cfg.Memory.Take(199 << 10) {
		t.Fatal("memory is still in use")
	}
	script(t, c, `
		> MAIL FROM:<>
		< 250
		> RCPT TO:<alice@example.org>
		< 250
		> DATA
		< 452 4.3.1
		> RSET
		< 250`)
	h.server.cfg.Memory.Give(199 << 10)
	script(t, c, begin+`> x\r\n.
		< 250 2.0.0`)
}

// A client that disconnects within the data delivers nothing.
func TestDATAVanished(t *testing.T) {
	t.Parallel()
	h := open(t, settings{})
	for _, piece := range []string{"", "half a line", "a line\r\n", "a line\r\n.", "a line\r\n.\r",
		strings.Repeat("long\r\n", 100_000)} {
		c := h.hello()
		script(t, c, begin)
		if err := c.Send([]byte(piece)); err != nil {
			t.Fatal(err)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := h.Front.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
	if d := h.backend.delivered(); len(d) != 0 {
		t.Errorf("%+v", d)
	}
	if n := h.backend.count("SMTP.Sessions.Inbound.Active"); n != 0 {
		t.Errorf("%d sessions counted as active", n)
	}
}

// A stalled client gets 421.
func TestDATATimeout(t *testing.T) {
	t.Parallel()
	h := open(t, settings{Config: Config{DataTimeout: 30 * time.Millisecond, CommandTimeout: time.Hour}})
	script(t, h.hello(), begin+`< 421 4.4.2
		EOF`)
	if h.backend.count("SMTP.Timeouts") != 1 {
		t.Error("timeout not counted")
	}
}

// RFC 2033 §4.2: one reply for each accepted recipient.
func TestDATALMTP(t *testing.T) {
	t.Parallel()
	h := open(t, settings{Config: Config{Kind: LMTP}})
	c := h.hello()
	script(t, c, `
		> MAIL FROM:<>
		< 250 2.1.0
		> DATA
		< 503 5.5.1 No valid
		> RCPT TO:<alice@example.org>
		< 250 2.1.5
		> RCPT TO:<nobody@example.org>
		< 550 5.1.1
		> RCPT TO:<late@example.org>
		< 250 2.1.5
		> RCPT TO:<bob@example.org>
		< 250 2.1.5
		> DATA
		< 354
		> x\r\n.
		< 250 2.0.0 <alice@example.org> OK id1
		< 552 5.2.2 Mailbox full
		< 250 2.0.0 <bob@example.org> OK id1`)
	res, err := c.Deliver(&client.Outgoing{
		To:      []smtp.Path{path("nobody@example.org"), path("late@example.org"), path("bob@example.org")},
		Message: []byte("nul \x00\r\n"),
	})
	if err != nil || len(res.Final) != 2 || res.Final[0].Code != 554 || res.Final[1].Code != 554 || res.Accepted(2) {
		t.Fatal(err, res)
	}
	if d := h.backend.delivered(); len(d) != 1 || d[0].proto != "LMTP" {
		t.Errorf("%+v", d)
	}
}

// Over SMTP the message is accepted if one recipient accepted it, and rejected if none did.
func TestDATAResults(t *testing.T) {
	t.Parallel()
	h := open(t, settings{})
	c := h.hello()
	for _, tc := range []struct {
		to   []smtp.Path
		code int
	}{
		{[]smtp.Path{path("late@example.org"), path("bob@example.org")}, 250},
		{[]smtp.Path{path("late@example.org")}, 552},
	} {
		res, err := c.Deliver(&client.Outgoing{To: tc.to, Message: []byte("x\r\n")})
		if err != nil || res.Final[0].Code != tc.code {
			t.Error(err, res)
		}
	}
}

// TestHeadroom checks that there is headroom directly before every message, whatever its size and its command.
func TestHeadroom(t *testing.T) {
	t.Parallel()
	h := open(t, settings{})
	h.backend.onDeliver = func(_ context.Context, e *Envelope, m []byte) error {
		n := len(e.Head)
		if n != Headroom || cap(e.Head) != n+len(m) || &e.Head[:n+1][n] != &m[0] {
			t.Errorf("message of %d bytes: head of %d, capacity %d", len(m), n, cap(e.Head))
		}
		clear(e.Head)
		return nil
	}
	c := h.hello()
	for _, size := range []int{1, 7 << 10, 8 << 10, 32<<10 - 1030, 100 << 10, 3 << 20} {
		message := []byte(strings.Repeat(strings.Repeat("x", 98)+"\r\n", size/100+1))
		for range 2 {
			res, err := c.Deliver(&client.Outgoing{From: path("bob@example.org"),
				To: []smtp.Path{path("alice@example.org")}, Message: message})
			if err != nil || !res.Accepted(0) {
				t.Fatal(res, err)
			}
		}
		if err := c.Mail(path("bob@example.org"), smtp.MailParams{Size: -1}); err != nil {
			t.Fatal(err)
		}
		if err := c.Rcpt(path("alice@example.org"), smtp.RcptParams{}); err != nil {
			t.Fatal(err)
		}
		if r, err := c.BDAT(message, true); err != nil || !r[0].Positive() {
			t.Fatal(r, err)
		}
	}
	for _, d := range h.backend.delivered() {
		if strings.Trim(d.msg, "x\r\n") != "" {
			t.Fatal("the message was written over")
		}
	}
}
