package pop3

import (
	"bufio"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"doublet/env"
	"doublet/wire/sasl"
)

// script runs a server that expects lines and sends responses. pairs alternates the two.
func script(t *testing.T, greeting string, pairs ...string) *Client {
	t.Helper()
	near, far := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer far.Close()
		_, _ = far.Write([]byte(greeting))
		r := bufio.NewReader(far)
		for i := 0; i < len(pairs); i += 2 {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			if line != pairs[i]+"\r\n" {
				t.Errorf("the client said %q, want %q", line, pairs[i])
			}
			if _, err := far.Write([]byte(pairs[i+1])); err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() { near.Close(); <-done })
	c, err := New(env.TestRealTime(t).Env, near, Options{Timeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestSession(t *testing.T) {
	t.Parallel()
	c := script(t, "+OK ready\r\n",
		"CAPA", "+OK\r\nTOP\r\nUIDL\r\n.\r\n",
		"USER alice", "+OK\r\n", "PASS demo", "+OK\r\n",
		"STAT", "+OK 2 320\r\n",
		"LIST", "+OK\r\n1 120\r\n2 200\r\n.\r\n",
		"UIDL", "+OK\r\n1 a\r\n2 b\r\n.\r\n",
		"RETR 1", "+OK\r\nA: 1\r\n\r\n..dot\r\n.\r\n",
		"TOP 2 0", "+OK\r\nA: 2\r\n\r\n.\r\n",
		"DELE 3", "-ERR [SYS/PERM] no such message\r\n",
		"DELE 1", "+OK\r\n", "RSET", "+OK\r\n", "QUIT", "+OK\r\n")
	if list, err := c.Capabilities(); err != nil || len(list) != 2 {
		t.Error(list, err)
	}
	if err := c.Login("alice", "demo"); err != nil {
		t.Error(err)
	}
	if n, size, err := c.Stat(); n != 2 || size != 320 || err != nil {
		t.Error(n, size, err)
	}
	var total int64
	if err := c.List(func(_ uint32, n int64) { total += n }); err != nil || total != 320 {
		t.Error(total, err)
	}
	ids := ""
	if err := c.Unique(func(_ uint32, id string) { ids += id }); err != nil || ids != "ab" {
		t.Error(ids, err)
	}
	var b strings.Builder
	if err := c.Retrieve(1, &b); err != nil || b.String() != "A: 1\r\n\r\n.dot\r\n" {
		t.Errorf("%q %v", b.String(), err)
	}
	if err := c.Top(2, 0, &b); err != nil {
		t.Error(err)
	}
	var refused *Error
	if err := c.Delete(3); !errors.As(err, &refused) || refused.Code != "SYS/PERM" {
		t.Error(err)
	}
	if err := errors.Join(c.Delete(1), c.Simple("RSET"), c.Quit()); err != nil {
		t.Error(err)
	}
}

func TestAuthenticate(t *testing.T) {
	t.Parallel()
	c := script(t, "+OK\r\n", "AUTH PLAIN AGFsaWNlAGRlbW8=", "+OK\r\n")
	if err := c.Authenticate(sasl.NewPlainClient("", "alice", "demo")); err != nil {
		t.Error(err)
	}
	c = script(t, "+OK\r\n", "AUTH LOGIN", "+ VXNlcm5hbWU6\r\n", "YWxpY2U=", "+ UGFzc3dvcmQ6\r\n", "ZGVtbw==",
		"-ERR [AUTH] no\r\n")
	var refused *Error
	if err := c.Authenticate(sasl.NewLoginClient("alice", "demo")); !errors.As(err, &refused) ||
		refused.Code != "AUTH" {
		t.Error(err)
	}
}

func TestInjection(t *testing.T) {
	t.Parallel()
	c := script(t, "+OK\r\n")
	if err := c.Login("alice\r\nDELE 1", "x"); err == nil {
		t.Error("a line end in a name went out")
	}
}
