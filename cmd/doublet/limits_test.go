package main

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// speaker is a client that sends and receives raw lines.
type speaker struct {
	t *testing.T
	c net.Conn
	r *bufio.Reader
}

func speak(t *testing.T, at string) *speaker {
	t.Helper()
	c, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(30 * time.Second))
	s := &speaker{t, c, bufio.NewReader(c)}
	s.until("")
	return s
}

// until reads up to a line that begins with start, and returns that line.
func (s *speaker) until(start string) string {
	s.t.Helper()
	for {
		line, err := s.r.ReadString('\n')
		if err != nil {
			s.t.Fatalf("waiting for %q: %v", start, err)
		}
		if strings.HasPrefix(line, start) {
			return line
		}
	}
}

func (s *speaker) say(line, start string) string {
	s.t.Helper()
	fmt.Fprintf(s.c, "%s\r\n", line)
	return s.until(start)
}

// TestSessionsOfAPerson checks that the limit counts over all doors, that each door refuses in its own protocol, and
// that the end of a session frees a place.
func TestSessionsOfAPerson(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	made(t, data)
	log := newLines()
	p := startServe(t, log, []string{"DOUBLET_LIMITS_SESSIONS_PER_PERSON=1"}, "--data", data)
	first := speak(t, log.door(t, "imap"))
	if got := first.say("a LOGIN admin secret", "a "); !strings.HasPrefix(got, "a OK") {
		t.Fatal(got)
	}
	second := speak(t, log.door(t, "imap"))
	if got := second.say("a LOGIN admin secret", "a "); !strings.HasPrefix(got, "a NO [LIMIT]") {
		t.Errorf("IMAP: %s", got)
	}
	pop := speak(t, log.door(t, "pop3"))
	pop.say("USER admin", "+OK")
	if got := pop.say("PASS secret", ""); !strings.HasPrefix(got, "-ERR [SYS/TEMP]") {
		t.Errorf("POP3: %s", got)
	}
	submit := speak(t, log.door(t, "submission"))
	submit.say("EHLO here.example", "250 ")
	plain := base64.StdEncoding.EncodeToString([]byte("\x00admin\x00secret"))
	if got := submit.say("AUTH PLAIN "+plain, ""); !strings.HasPrefix(got, "454 4.7.0") {
		t.Errorf("submission: %s", got)
	}
	// A refused session continues and may try again.
	if got := second.say("b NOOP", "b "); !strings.HasPrefix(got, "b OK") {
		t.Error(got)
	}
	first.say("b LOGOUT", "b OK")
	var got string
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		if got = submit.say("AUTH PLAIN "+plain, ""); strings.HasPrefix(got, "235") {
			break
		}
	}
	if !strings.HasPrefix(got, "235") {
		t.Errorf("after the first has ended: %s", got)
	}
	if code, out, errs := command(t, "", "show", "stat", "Server.Listen.Refused.Person", "--data", data); code != 0 ||
		!strings.Contains(out, "Refused.Person = ") {
		t.Errorf("%d %s%s", code, out, errs)
	}
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(); err != nil {
		t.Error(err)
	}
}
