package attack

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"net"
	"regexp"
	"strings"
	"testing"
	"time"

	"doublet/test/program"
)

// submit sends a message as a signed-in user and returns the reply to it.
func submit(t *testing.T, s *program.Server, user, to, message string) string {
	t.Helper()
	c, err := net.Dial("tcp", "127.0.0.1:"+s.Port["submission"])
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	r := bufio.NewReader(c)
	reply := func() string {
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			if len(line) > 3 && line[3] != '-' {
				return line
			}
		}
	}
	reply()
	for _, command := range []string{
		"EHLO attack.example", "AUTH PLAIN " + base64.StdEncoding.EncodeToString([]byte("\x00"+user+"\x00demo")),
		"MAIL FROM:<" + user + "@example.com>", "RCPT TO:<" + to + ">", "DATA",
	} {
		fmt.Fprintf(c, "%s\r\n", command)
		if got := reply(); got[0] != '2' && got[0] != '3' {
			t.Fatalf("%s: %s", command, got)
		}
	}
	fmt.Fprintf(c, "%s.\r\n", message)
	return reply()
}

// TestResentForged checks that Resent fields do not let a user write in the name of another, even if the user has
// stored a forged message before.
func TestResentForged(t *testing.T) {
	s := program.Demo(t)
	const again = "Resent-From: <alice@example.com>\r\nResent-To: <carol@example.com>\r\n" +
		"Resent-Date: Mon, 23 Nov 2026 10:00:00 +0000\r\n"
	const forged = "From: <bob@example.com>\r\nTo: <alice@example.com>\r\nSubject: forged by alice\r\n\r\n" +
		"Pay at once.\r\n"
	refused := func(name, message string) {
		t.Helper()
		if got := submit(t, s, "alice", "carol@example.com", message); !strings.HasPrefix(got, "550 5.7.1") {
			t.Errorf("%s: %s", name, got)
		}
	}
	refused("bare", again+forged)
	refused("two addresses", strings.Replace(forged, "<bob@example.com>", "alice@example.com <bob@example.com>", 1))
	alice, carol := imapLogin(t, s, "alice"), imapLogin(t, s, "carol")
	alice.do(fmt.Sprintf("APPEND INBOX {%d+}\r\n%s", len(forged), forged))
	refused("appended", again+forged)

	// A delivered message may be resent with its original text, and with no other.
	true1 := strings.NewReplacer("forged by alice", "written by bob", "at once", "next month").Replace(forged)
	if got := submit(t, s, "bob", "alice@example.com", true1); got[0] != '2' {
		t.Fatal(got)
	}
	alice.do("SELECT INBOX")
	got := alice.do(`UID SEARCH SUBJECT "written by bob"`)
	uid := regexp.MustCompile(`\* SEARCH (\d+)`).FindStringSubmatch(got)
	if uid == nil {
		t.Fatalf("no message: %s", got)
	}
	got = alice.do("UID FETCH " + uid[1] + " BODY.PEEK[]")
	_, text, _ := strings.Cut(got, "}\r\n")
	end := strings.LastIndex(text, "next month.\r\n")
	text = text[:end+len("next month.\r\n")]
	refused("changed", again+strings.Replace(text, "next month", "at once", 1))
	if got := submit(t, s, "alice", "carol@example.com", again+text); got[0] != '2' {
		t.Errorf("what was delivered is not sent on: %s", got)
	}
	carol.do("SELECT INBOX")
	if got := carol.do(`UID SEARCH SUBJECT "forged by alice"`); !regexp.MustCompile(
		`\* SEARCH\s*\r\n`).MatchString(got) {
		t.Errorf("carol has it: %s", got)
	}
}
