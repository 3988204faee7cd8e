package attack

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"doublet/client/milter/stub"
	"doublet/test/long"
	wire "doublet/wire/milter"
)

// TestMemoryOfFilters sends large messages over SMTP whose body a milter replaces with one of the same size.
func TestMemoryOfFilters(t *testing.T) {
	long.Test(t)
	const pieces = 100
	piece := strings.Repeat("line\r\n", 60_000/6)
	answers := make([]wire.Answer, 0, pieces+1)
	for range pieces {
		answers = append(answers, wire.Answer{Code: wire.ReplaceBody, Body: []byte(piece)})
	}
	f := &stub.Filter{Answers: map[wire.Code][]wire.Answer{wire.EndBody: append(answers,
		wire.Answer{Code: wire.Continue})}}
	t.Setenv("DOUBLET_FILTER_MILTERS", f.Start(t, "tcp"))
	v := startVictim(t)
	body := bytes.Repeat([]byte(piece), pieces)
	v.attack("messages", 30, func(int) bool {
		code := v.mail(body)
		if code != "250" && code != "452" {
			t.Errorf("a message: %s", code)
		}
		return code == "452"
	})
	if v.stat("Mail.TotalBytesDelivered") < len(body) {
		t.Error("no message came through the milter")
	}
}

// mail sends a message over SMTP and returns the code of the last reply.
func (v *victim) mail(body []byte) string {
	c, err := net.Dial("tcp", "127.0.0.1:"+v.Port["smtp"])
	if err != nil {
		return err.Error()
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(2 * time.Minute))
	r := bufio.NewReader(c)
	line := ""
	for _, step := range []struct{ say, want string }{
		{"", "220"}, {"EHLO x\r\n", "250 "}, {"MAIL FROM:<>\r\n", "250 "}, {"RCPT TO:<alice@example.com>\r\n", "250 "},
		{"DATA\r\n", "354"},
		{"Subject: large\r\n\r\n" + string(body) + ".\r\n", ""},
	} {
		if _, err := fmt.Fprint(c, step.say); err != nil {
			return err.Error()
		}
		for line, err = r.ReadString('\n'); err == nil && len(line) > 3 && line[3] == '-'; {
			line, err = r.ReadString('\n')
		}
		if err != nil {
			return err.Error()
		}
		if !strings.HasPrefix(line, step.want) {
			break
		}
	}
	return line[:min(3, len(line))]
}
