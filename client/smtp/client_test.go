package smtp

import (
	"bufio"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"doublet/env"
	"doublet/wire/sasl"
	"doublet/wire/smtp"
)

// serve plays a server from a script. The client must send the rest of a line "C text"; the server sends all other
// lines. It runs on a pipe, where each write waits for its reader. A client that fails to pipeline cannot cause a
// deadlock, because the script reads the expected lines first.
func serve(t *testing.T, o Options, script string) (*Client, func()) {
	t.Helper()
	o.Timeout = 10 * time.Second
	near, far := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer far.Close()
		r := bufio.NewReader(far)
		for _, line := range strings.Split(strings.TrimSpace(script), "\n") {
			line = strings.TrimSpace(line)
			if want, ok := strings.CutPrefix(line+" ", "C "); ok {
				want = strings.TrimSuffix(want, " ")
				got, err := r.ReadString('\n')
				if err != nil || got != want+"\r\n" {
					t.Errorf("client sent %q, %v; want %q", got, err, want)
					return
				}
				continue
			}
			if _, err := io.WriteString(far, line+"\r\n"); err != nil {
				t.Errorf("sending %q: %v", line, err)
				return
			}
		}
	}()
	c, err := New(env.Real(slog.New(slog.DiscardHandler)), near, o)
	if err != nil {
		t.Fatal(err)
	}
	return c, func() {
		t.Helper()
		_ = c.Close()
		<-done
	}
}

func addr(s string) smtp.Path {
	p, err := smtp.ParsePath(s)
	if err != nil {
		panic(err)
	}
	return p
}

var mail = &Outgoing{
	From: addr("a@b.example"), To: []smtp.Path{addr("one@c.example"), addr("two@c.example"), addr("three@c.example")},
	Message: []byte("Subject: x\r\n\r\n.dot\r\nend"),
}

func TestPipelined(t *testing.T) {
	t.Parallel()
	c, end := serve(t, Options{}, `
		220-mx hello
		220 mx
		C EHLO me
		250-mx
		250-SIZE 1000
		250 PIPELINING
		C MAIL FROM:<a@b.example>
		C RCPT TO:<one@c.example>
		C RCPT TO:<two@c.example>
		C RCPT TO:<three@c.example>
		C DATA
		250 2.1.0 ok
		250 2.1.5 ok
		550-5.1.1 no such
		550 5.1.1 user
		250 2.1.5 ok
		354 go
		C Subject: x
		C
		C ..dot
		C end
		C .
		250 2.0.0 taken`)
	defer end()
	if err := c.Hello("me"); err != nil || c.MaxSize() != 1000 || len(c.Greeting.Lines) != 2 {
		t.Fatal(err, c.MaxSize(), c.Greeting)
	}
	res, err := c.Deliver(mail)
	if err != nil || !res.Accepted(0) || res.Accepted(1) || !res.Accepted(2) || res.Accepted(3) {
		t.Fatal(err, res)
	}
	if r := res.Rcpt[1]; r.Text() != "no such\nuser" || r.Enhanced.String() != "5.1.1" {
		t.Error(r.Error())
	}
}

func TestOldServer(t *testing.T) {
	t.Parallel()
	c, end := serve(t, Options{}, `
		220 mx
		C EHLO me
		502 what
		C HELO me
		250 mx
		C MAIL FROM:<a@b.example>
		250 ok
		C RCPT TO:<one@c.example>
		550 no
		C RCPT TO:<two@c.example>
		550 no
		C RCPT TO:<three@c.example>
		550 no
		C DATA
		554 nobody
		C RSET
		250 ok
		C MAIL FROM:<a@b.example>
		550 go away`)
	defer end()
	if err := c.Hello("me"); err != nil {
		t.Fatal(err)
	}
	if res, err := c.Deliver(mail); err != nil || res.Accepted(0) || res.Final[0].Code != 554 {
		t.Fatal(err, res)
	}
	if res, err := c.Deliver(mail); err != nil || res.Accepted(0) || res.Mail.Code != 550 || res.Rcpt != nil {
		t.Fatal(err, res)
	}
}

func TestLMTP(t *testing.T) {
	t.Parallel()
	c, end := serve(t, Options{LMTP: true}, `
		220 lmtp
		C LHLO me
		250-lmtp
		250 PIPELINING
		C MAIL FROM:<a@b.example>
		C RCPT TO:<one@c.example>
		C RCPT TO:<two@c.example>
		C RCPT TO:<three@c.example>
		C DATA
		250 ok
		550 no
		250 ok
		250 ok
		354 go
		C Subject: x
		C
		C ..dot
		C end
		C .
		452 4.2.2 full
		250 ok`)
	defer end()
	if err := c.Hello("me"); err != nil {
		t.Fatal(err)
	}
	if res, err := c.Deliver(mail); err != nil || res.Accepted(0) || res.Accepted(1) || !res.Accepted(2) {
		t.Fatal(err, res)
	}
}

// A server that replies 354 after it rejected all recipients gets an empty message.
func TestDataForNobody(t *testing.T) {
	t.Parallel()
	c, end := serve(t, Options{}, `
		220 mx
		C EHLO me
		250-mx
		250 PIPELINING
		C MAIL FROM:<a@b.example>
		C RCPT TO:<one@c.example>
		C RCPT TO:<two@c.example>
		C RCPT TO:<three@c.example>
		C DATA
		250 ok
		550 no
		550 no
		550 no
		354 go
		C .
		554 nobody`)
	defer end()
	if err := c.Hello("me"); err != nil {
		t.Fatal(err)
	}
	if res, err := c.Deliver(mail); err != nil || res.Accepted(0) || res.Final[0].Code != 554 {
		t.Fatal(err, res)
	}
}

func TestAuth(t *testing.T) {
	t.Parallel()
	c, end := serve(t, Options{}, `
		220 mx
		C AUTH LOGIN
		334 VXNlcm5hbWU6
		C YWxpY2U=
		334 UGFzc3dvcmQ6
		C c2VjcmV0
		334 Tm93Pw==
		C *
		501 cancelled
		C AUTH PLAIN AGFsaWNlAHNlY3JldA==
		535 5.7.8 no
		C NOOP
		250 ok`)
	defer end()
	if err := c.Auth(sasl.NewLoginClient("alice", "secret")); !errors.Is(err, sasl.ErrUnexpected) {
		t.Error(err)
	}
	var r *smtp.Reply
	if err := c.Auth(sasl.NewPlainClient("", "alice", "secret")); !errors.As(err, &r) || r.Code != 535 {
		t.Error(err)
	}
	if err := c.Noop(); err != nil {
		t.Error(err)
	}
	if _, err := c.Verify("a\r\nQUIT"); err == nil {
		t.Error("a line end went into a command")
	}
}

func TestBadServers(t *testing.T) {
	t.Parallel()
	for _, greeting := range []string{"554 5.3.2 no service\r\n", "HTTP/1.1 200 OK\r\n", "220-half\r\n",
		strings.Repeat("x", 10_000), ""} {
		near, far := net.Pipe()
		go func() {
			_, _ = io.WriteString(far, greeting)
			_ = far.Close()
		}()
		if c, err := New(env.Real(slog.New(slog.DiscardHandler)), near, Options{}); err == nil {
			t.Errorf("%.20q: %v", greeting, c.Greeting)
		}
	}
}
