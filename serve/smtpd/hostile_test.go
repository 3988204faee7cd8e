package smtpd

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	client "doublet/client/smtp"
	"doublet/directory"
	"doublet/mail/inbound"
	"doublet/mail/verify"
	"doublet/note"
	"doublet/store/layout"
)

// The known tests of open relay testers. None may be accepted, and none may leave anything in mail.box.
func TestOpenRelay(t *testing.T) {
	t.Parallel()
	s := serve(t)
	dial := s.strangers(inbound.Options{}, Config{MaxErrors: 1000})
	senders := []string{"", "spam@relay.example", "spam@example.com", "alice@example.com", "spam@[127.0.0.1]",
		"spam@localhost", "spam"}
	targets := []string{
		"victim@relay.example", "victim%relay.example@example.com", "victim%relay.example@[127.0.0.1]",
		"victim%relay.example@localhost", "victim%relay.example",
		`"victim@relay.example"`, `"victim%relay.example"`, `"victim@relay.example"@example.com`,
		`"victim%relay.example"@example.com`, "victim@relay.example@example.com",
		"victim@relay.example@[127.0.0.1]", "@example.com:victim@relay.example", "@localhost:victim@relay.example",
		"@[127.0.0.1]:victim@relay.example",
		"@example.com,@far.example:victim@relay.example", "relay.example!victim", "relay.example!victim@example.com",
		"relay.example!victim@[127.0.0.1]",
		"example.com!relay.example!victim", "@relay.example", "victim@relay.example.",
		"victim@relay.example%example.com", "victim@example.com@relay.example",
		"alice@example.com.relay.example", "alice%example.com@relay.example", `"alice@example.com"@relay.example`,
		"victim@xn--relay-example", "victim@[192.0.2.1]", "victim@[IPv6:2001:db8::1]",
		"SRS0=AAAA=BB=relay.example=victim@example.com", "chess-owner+victim=relay.example@example.com",
		"alice @relay.example", "<victim@relay.example>", "postmaster@relay.example",
		"alice@EXAMPLE.com@relay.example", "\\victim@relay.example", "victim\\@relay.example",
		"alice@example.com>,<victim@relay.example",
	}
	for _, from := range senders {
		c := dial()
		if r, err := c.Raw("MAIL FROM:<" + from + ">"); err != nil || !r.Positive() {
			continue // rejected already
		}
		for _, to := range targets {
			r, err := c.Raw("RCPT TO:<" + to + ">")
			if err != nil {
				t.Fatalf("%s to %s: %v", from, to, err)
			}
			if r.Positive() {
				t.Errorf("from <%s> to <%s>: %s", from, to, r.Error())
			}
		}
		if r, err := c.Raw("DATA"); err != nil || r.Positive() {
			t.Errorf("DATA without recipients: %v %v", r, err)
		}
	}
	list, _, err := s.mail.Queue.List(context.Background(), 0, "")
	s.ok(err)
	if len(list) != 0 {
		t.Errorf("%+v", list)
	}
}

// Characters that could end a line never get into a header or a reply.
func TestHeaderInjection(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for _, line := range []string{
		"EHLO x\rBcc: y", "EHLO x\x00y", "MAIL FROM:<a\rb@far.example>", "MAIL FROM:<\"a\rX: y\"@far.example>",
		"MAIL FROM:<a@far.example> ENVID=a\rb",
		"MAIL FROM:<a@far.example> ENVID=a+0D+0AX:y", "MAIL FROM:<a@far.example\x00>",
		"MAIL FROM:<a@far.example> SIZE=1\rRCPT TO:<x@y>",
	} {
		c := s.dial(SMTP)
		if r, err := c.Raw(line); err != nil || r.Positive() && !strings.Contains(line, "ENVID=a+0D") {
			t.Errorf("%q: %v %v", line, r, err)
		} else if strings.ContainsAny(strings.Join(r.Lines, ""), "\r\n\x00") {
			t.Errorf("%q is answered %q", line, r.Lines)
		}
	}
	c := s.dial(SMTP)
	if r, err := c.Raw(`EHLO "x)` + "\t" + `(y;z"`); err == nil && r.Positive() {
		if res := s.send(c, "eve@far.example", "Subject: s\r\n\r\nx\r\n", "alice@example.com"); !res.Accepted(0) {
			t.Fatal(codes(res.Final))
		}
		if got := s.inbox("alice")[0]; !strings.Contains(got, "Received: from unknown ") {
			t.Errorf("%s", got)
		}
	}
}

func TestEarlyTalker(t *testing.T) {
	t.Parallel()
	h := open(t, settings{Config: Config{GreetingDelay: 5 * time.Second}, remote: true})
	nc, err := net.Dial("tcp", h.Addr.String())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	_ = nc.SetDeadline(time.Now().Add(20 * time.Second))
	fmt.Fprint(nc, "EHLO spam.example\r\nMAIL FROM:<a@b>\r\n")
	var b bytes.Buffer
	_, _ = b.ReadFrom(nc) // the connection may be reset, because the server does not read early input
	if b.String() != "554 5.5.1 You spoke before the greeting\r\n" {
		t.Errorf("%q", b.String())
	}
	if n := h.backend.count("SMTP.EarlyTalkers"); n != 1 {
		t.Errorf("%d counted", n)
	}
	// A client that waits is served. Clients on this machine are served at once, whatever the delay.
	script(t, open(t, settings{Config: Config{GreetingDelay: 20 * time.Millisecond}, remote: true}).hello(), `
		> NOOP
		< 250`)
	script(t, open(t, settings{Config: Config{GreetingDelay: time.Hour}}).hello(), `
		> NOOP
		< 250`)
}

// A client that sends commands before the reply to EHLO, or a message before the reply to DATA, does not wait for
// replies.
func TestHasty(t *testing.T) {
	t.Parallel()
	h := open(t, settings{remote: true})
	script(t, h.dial(), `
		> EHLO a.example\r\nMAIL FROM:<a@b.example>
		< 554 5.5.0
		EOF`)
	script(t, h.dial(), `
		> HELO a.example\r\nQUIT
		< 554 5.5.0
		EOF`)
	script(t, h.hello(), `
		> MAIL FROM:<a@b.example>\r\nRCPT TO:<alice@example.org>\r\nDATA\r\nSubject: x\r\n\r\n.\r\nMAIL FROM:<c@b.ex>
		< 250
		< 250
		< 554 5.5.0
		EOF`)
	if got := h.backend.delivered(); len(got) != 0 {
		t.Errorf("%+v", got)
	}
	// A pipelined group that ends where it must is allowed.
	script(t, h.hello(), `
		> MAIL FROM:<a@b.example>\r\nRCPT TO:<alice@example.org>\r\nDATA
		< 250
		< 250
		< 354
		> x\r\n.\r\nMAIL FROM:<a@b.example>\r\nRSET
		< 250
		< 250
		< 250`)
}

// However the end of data is written, the bytes after it never become a second message.
func TestSmuggledEnd(t *testing.T) {
	t.Parallel()
	for _, policy := range []BareLF{BareReject, BareNormalize} {
		for _, end := range []string{
			"\n.\n", "\n.\r\n", "\r\n.\n", "\r.\r", "\r.\r\n", "\r\n.\r", "\r\n.\r\r\n", "\r\r\n.\r\r\n", "\n\n.\r\n",
			"\r\n\x00.\r\n", "\r\n.\x00\r\n", "\r\n..\r\n", "\r\n. \r\n",
			"\n.\r", "\r\n.\n\r\n", "\n\r.\n\r", "\r\n\x2e\x00\n", "\u0085.\u0085", "\r\n.\v\r\n", "\r\n.\r\v\n",
		} {
			h := open(t, settings{Config: Config{BareLF: policy}})
			c := h.hello()
			script(t, c, `
				> MAIL FROM:<a@b.example>
				< 250
				> RCPT TO:<alice@example.org>
				< 250
				> DATA
				< 354`)
			if err := c.Send([]byte("Subject: one\r\n\r\nx" + end +
				"MAIL FROM:<admin@example.org>\r\nRCPT TO:<bob@example.org>\r\nDATA\r\nSubject: two\r\n\r\n" +
				"smuggled\r\n.\r\n")); err != nil {
				t.Fatal(err)
			}
			r, err := c.Reply()
			if err != nil {
				t.Fatal(err)
			}
			if n, err := c.Raw("NOOP"); err != nil || n.Code != 250 {
				t.Errorf("%q: the session is out of step: %v %v", end, n, err)
			}
			for _, d := range h.backend.delivered() {
				if d.from != "a@b.example" || len(h.backend.delivered()) != 1 {
					t.Errorf("%q: %s, %+v", end, r.Error(), d)
				}
			}
		}
	}
}

func TestReceivedLoop(t *testing.T) {
	t.Parallel()
	s := serve(t)
	hop := "Received: from a.example by b.example; Mon, 5 Jan 2026 08:00:00 +0000\r\n"
	for _, x := range []struct {
		message, want string
	}{
		{strings.Repeat(hop, 101) + "Subject: s\r\n\r\n", "554 5.4.6"},
		{strings.Repeat("RECEIVED\t : x\r\n", 101) + "Subject: s\r\n\r\n", "554 5.4.6"},
		{strings.Repeat("received:\r\n folded\r\n", 101) + "\r\n", "554 5.4.6"},
		{strings.Repeat(hop, 100) + "Subject: s\r\n\r\n", "250 2.0.0"},
		{"Subject: s\r\n\r\n" + strings.Repeat(hop, 500), "250 2.0.0"},
	} {
		if res := s.send(s.dial(SMTP), "eve@far.example", x.message, "alice@example.com"); codes(res.Final) != x.want {
			t.Errorf("%.40q: %s, want %s", x.message, codes(res.Final), x.want)
		}
	}
}

// No backscatter: unknown recipients are rejected at RCPT, and a failure after 250 is not reported to a sender whose
// domain says that it is forged.
func TestNoBackscatter(t *testing.T) {
	t.Parallel()
	s := serve(t)
	dial := s.strangers(inbound.Options{Verify: s.verifier(verify.Options{SPF: verify.Mark, DMARC: verify.Mark})},
		Config{})
	s.ok(s.store.SetInfo(note.System, s.person["bob"].MailDatabase, func(i *layout.Info) { i.Quota = 300 }))
	queued := func() int {
		list, _, err := s.mail.Queue.List(context.Background(), 0, "")
		s.ok(err)
		return len(list)
	}
	big := func(author string) string { return from(author, "") + strings.Repeat("x\r\n", 200) }
	res := s.send(dial(), "victim@strict.example", big("victim@strict.example"), "alice@example.com", "bob@example.com",
		"nobody@example.com")
	if codes(res.Rcpt) != "250 2.1.5, 250 2.1.5, 550 5.1.1" || !res.Accepted(0) {
		t.Fatal(codes(res.Rcpt), codes(res.Final))
	}
	s.clock.ahead.Store(int64(48 * time.Hour))
	for range 3 {
		_, err := s.mail.Router.Route(context.Background())
		s.ok(err)
		s.clock.ahead.Add(int64(48 * time.Hour))
	}
	if n := queued(); n != 0 {
		t.Errorf("%d left: a report to the victim", n)
	}
	res = s.send(dial(), "eve@far.example", big("eve@far.example"), "alice@example.com", "bob@example.com")
	if !res.Accepted(0) {
		t.Fatal(codes(res.Final))
	}
	for range 3 {
		s.clock.ahead.Add(int64(48 * time.Hour))
		_, err := s.mail.Router.Route(context.Background())
		s.ok(err)
	}
	if n := queued(); n != 1 {
		t.Errorf("%d left: the proven sender must hear of it", n)
	}
}

// A message of 100 MB to 1,000 recipients is rejected with the proper replies. It costs no memory beyond the budget,
// and no recipient gets a part of it.
func TestHugeMessage(t *testing.T) {
	t.Parallel()
	h := open(t, settings{})
	c := h.hello()
	script(t, c, `
		> MAIL FROM:<a@b.example> SIZE=104857600
		< 552 5.3.4
		> MAIL FROM:<a@b.example>
		< 250`)
	for i := range 1000 {
		if r, err := c.Raw(fmt.Sprintf("RCPT TO:<p%d@example.org>", i)); err != nil || r.Code != 250 {
			t.Fatal(i, r, err)
		}
	}
	script(t, c, `
		> RCPT TO:<alice@example.org>
		< 452 4.5.3
		> DATA
		< 354`)
	line := bytes.Repeat(append(bytes.Repeat([]byte("x"), 998), '\r', '\n'), 1000)
	for range 105 {
		if err := c.Send(line); err != nil {
			t.Fatal(err)
		}
		if used := h.server.cfg.Memory.Used(); used > 110<<20 {
			t.Fatalf("%d bytes in use", used)
		}
	}
	script(t, c, `
		> .
		< 552 5.3.4
		> NOOP
		< 250`)
	if got := h.backend.delivered(); len(got) != 0 {
		t.Errorf("%d delivered", len(got))
	}
}

// Mail to role addresses of every local domain arrives, whatever the state of the mail file.
func TestRoleAddresses(t *testing.T) {
	t.Parallel()
	s := serve(t)
	ctx := context.Background()
	s.ok(s.people.Domains.Add(ctx, note.System, "second.example"))
	_, err := s.people.People.Set(ctx, note.System, s.person["carol"].ID, func(f *directory.PersonFields) error {
		f.Roles, f.Disabled = []string{directory.RoleAdmin}, true
		return nil
	})
	s.ok(err)
	s.ok(s.store.SetInfo(note.System, s.person["carol"].MailDatabase, func(i *layout.Info) { i.Quota = 1 }))
	for i, to := range []string{"postmaster@example.com", "abuse@second.example", "ABUSE+x@example.com", "Postmaster"} {
		c := s.dial(SMTP)
		r, err := c.Raw("MAIL FROM:<> SIZE=1000000")
		if err != nil || !r.Positive() {
			t.Fatal(r, err)
		}
		if r, err = c.Raw("RCPT TO:<" + to + ">"); err != nil || !r.Positive() {
			t.Errorf("%s: %v %v", to, r, err)
			continue
		}
		_, _ = c.Raw("RSET")
		if to != "Postmaster" {
			if res := s.send(c, "", "Subject: s\r\n\r\nx\r\n", to); !res.Accepted(0) {
				t.Errorf("%s: %s", to, codes(res.Final))
			}
			if n := len(s.inbox("carol")); n != i+1 {
				t.Errorf("%s: %d messages", to, n)
			}
		}
	}
	if r, err := s.dialMail().Raw("RCPT TO:<carol@example.com>"); err != nil || r.Positive() {
		t.Errorf("carol's own address: %v %v", r, err)
	}
}

func (s *server) dialMail() *client.Client {
	c := s.dial(SMTP)
	if r, err := c.Raw("MAIL FROM:<>"); err != nil || !r.Positive() {
		s.t.Fatal(r, err)
	}
	return c
}
