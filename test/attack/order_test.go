package attack

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"doublet/test/program"
)

// talker is a client that sends commands in any order.
type talker struct {
	t *testing.T
	c net.Conn
	r *bufio.Reader
}

func talk(t *testing.T, s *program.Server, door string) *talker {
	t.Helper()
	c, err := net.Dial("tcp", "127.0.0.1:"+s.Port[door])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	return &talker{t, c, bufio.NewReader(c)}
}

func (x *talker) send(text string) {
	x.t.Helper()
	if _, err := x.c.Write([]byte(text)); err != nil {
		x.t.Fatal(err)
	}
}

// reply reads a reply: the last line of an SMTP reply, else the line that begins with one of the tags.
func (x *talker) reply(tags ...string) string {
	x.t.Helper()
	for {
		line, err := x.r.ReadString('\n')
		if err != nil {
			x.t.Fatalf("after %q: %v", line, err)
		}
		if len(tags) == 0 && len(line) > 3 && line[3] == ' ' {
			return line
		}
		for _, tag := range tags {
			if strings.HasPrefix(line, tag) {
				return line
			}
		}
	}
}

// TestInjectBeforeTLS sends commands after the one that starts TLS, in the same packet. No door executes them, and no
// state from before TLS holds under TLS.
func TestInjectBeforeTLS(t *testing.T) {
	s := program.Demo(t)
	for _, c := range []struct {
		door, before, begin, injected, after, want string
		tags                                       []string
	}{
		{"smtp", "EHLO x\r\nMAIL FROM:<evil@far.example>\r\nRSET\r\n", "STARTTLS\r\n",
			"EHLO evil\r\nMAIL FROM:<evil@far.example>\r\n", "RCPT TO:<alice@example.com>\r\n", "503", nil},
		{"submission", "EHLO x\r\n", "STARTTLS\r\n", "EHLO evil\r\nAUTH PLAIN AGFsaWNlAGRlbW8=\r\n",
			"MAIL FROM:<alice@example.com>\r\n", "5", nil},
		{"imap", "", "a STARTTLS\r\n", "b LOGIN alice demo\r\n", "c SELECT INBOX\r\n", "c BAD",
			[]string{"a ", "b ", "c "}},
		{"pop3", "USER alice\r\n", "STLS\r\n", "PASS demo\r\n", "STAT\r\n", "-ERR", []string{"+OK", "-ERR"}},
	} {
		if s.Port[c.door] == "" {
			t.Logf("the demo has no door %s", c.door)
			continue
		}
		x := talk(t, s, c.door)
		if c.tags == nil {
			x.reply()
		} else {
			x.reply("* OK", "+OK")
		}
		for line := range strings.SplitAfterSeq(c.before, "\r\n") {
			if line != "" {
				x.send(line)
				x.reply(c.tags...)
			}
		}
		x.send(c.begin + c.injected)
		if line := x.reply(c.tags...); !strings.Contains(line, "220") && !strings.Contains(line, "OK") {
			t.Errorf("%s: %q", c.door, line)
			continue
		}
		if n := x.r.Buffered(); n > 0 {
			text, _ := x.r.Peek(n)
			t.Errorf("%s answers in the clear what came behind %q: %q", c.door, c.begin, text)
		}
		secure := tls.Client(x.c, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // the demo's own certificate
		if err := secure.Handshake(); err != nil {
			t.Errorf("%s: %v", c.door, err)
			continue
		}
		x.c, x.r = secure, bufio.NewReader(secure)
		x.send(c.after)
		if line := x.reply(c.tags...); !strings.HasPrefix(line, c.want) {
			t.Errorf("%s: %q is answered %q: something that was said before TLS holds", c.door, c.after, line)
		}
	}
}

// TestBDATMixes sends chunks in every wrong order. Their content is never executed as a command, and never delivered
// with another message.
func TestBDATMixes(t *testing.T) {
	s := program.Demo(t)
	x := talk(t, s, "smtp")
	x.reply()
	begin := "MAIL FROM:<eve@far.example>\r\nRCPT TO:<bob@example.com>\r\n"
	smuggled := "RSET\r\nMAIL FROM:<smuggled@far.example>\r\nRCPT TO:<alice@example.com>\r\nDATA\r\n" +
		"Subject: smuggled\r\n\r\nsmuggled\r\n.\r\n"
	chunk := func(text, last string) string { return fmt.Sprintf("BDAT %d%s\r\n%s", len(text), last, text) }
	for _, c := range []struct{ say, want string }{
		{"EHLO far.example\r\n", "250"},
		{chunk(smuggled, ""), "503"},
		{begin + chunk("Subject: whole\r\n\r\nbegun ", ""), "250 250 250"},
		{"DATA\r\n", "503"},
		{chunk("and ended\r\n", " LAST"), "250"},
		{begin + chunk("Subject: reset\r\n\r\nforgotten", "") + "RSET\r\n", "250 250 250 250"},
		{chunk(smuggled, " LAST"), "503"},
		{begin + "BDAT 0 LAST\r\n", "250 250 250"},
		{begin + "DATA\r\n", "250 250 354"},
		{chunk(smuggled, " LAST"), "250"}, // text here, up to its dot; the rest came before it
		{"NOOP\r\n", "250"},
		{begin + chunk(strings.Repeat("x", 1000), "") + "MAIL FROM:<other@far.example>\r\n" + "RSET\r\n",
			"250 250 250 503 250"},
		{begin + chunk("a\nb", " LAST"), "250 250 554"},
		{"RSET\r\n" + begin + chunk(".\r\nQUIT\r\n", " LAST") + "NOOP\r\n", "250 250 250 250 250"},
	} {
		x.send(c.say)
		for code := range strings.FieldsSeq(c.want) {
			if line := x.reply(); !strings.HasPrefix(line, code) {
				t.Fatalf("%.60q: %q, want %s", c.say, line, c.want)
			}
		}
	}
	// An invalid chunk size ends the connection, because the start of the next command is unknown.
	for _, size := range []string{"-1", "99999999999999999999", "18446744073709551616", "1 LAST LAST", "x"} {
		y := talk(t, s, "smtp")
		y.reply()
		y.send("EHLO far.example\r\n" + begin + "BDAT " + size + "\r\n" + smuggled)
		for range 3 {
			y.reply()
		}
		if line := y.reply(); line[0] != '5' {
			t.Errorf("BDAT %s: %q", size, line)
		}
		if line, err := y.r.ReadString('\n'); err == nil {
			t.Errorf("BDAT %s: what follows is answered: %q", size, line)
		}
	}
	mail := mailOf(t, s, "bob")
	program.Want(t, mail, "begun and ended", "Subject: smuggled")
	if strings.Contains(mail, "forgotten") {
		t.Error("a chunk before RSET was delivered")
	}
	if strings.Contains(mailOf(t, s, "alice"), "smuggled") {
		t.Error("a chunk was carried out")
	}
}
