package main

import (
	"encoding/base64"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// TestSieve stores a script over ManageSieve, and sees what it does with mail that comes over SMTP.
func TestSieve(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	doors, stop := startDemo(t, data)
	defer stop()
	s := speak(t, doors["sieve"])
	s.until("OK")
	s.say(`AUTHENTICATE "PLAIN" "`+base64.StdEncoding.EncodeToString([]byte("\x00alice\x00demo"))+`"`, "OK")
	script := `require ["fileinto", "mailbox", "reject"];
if header :contains "subject" "report" { fileinto :create "Reports/2026"; stop; }
if header :contains "subject" "unwanted" { reject "Please do not."; }
`
	s.say(fmt.Sprintf("PUTSCRIPT \"main\" {%d+}\r\n%s", len(script), script), "OK")
	s.say(`SETACTIVE "main"`, "OK")
	send := func(subject string) error {
		return deliver(doors["smtp"], mustPath(t, "bob@example.com"), mustPath(t, "alice@example.com"),
			[]byte("From: bob@example.com\r\nTo: alice@example.com\r\nSubject: "+subject+"\r\n\r\nx\r\n"))
	}
	before := len(inbox(t, doors["imap"], "alice", "INBOX"))
	if err := send("weekly report"); err != nil {
		t.Fatal(err)
	}
	if got := inbox(t, doors["imap"], "alice", "Reports/2026"); len(got) != 1 {
		t.Errorf("filed: %q", got)
	}
	if err := send("unwanted"); err == nil || !strings.Contains(err.Error(), "Please do not.") {
		t.Errorf("reject: %v", err)
	}
	if err := send("other"); err != nil {
		t.Fatal(err)
	}
	if got := len(inbox(t, doors["imap"], "alice", "INBOX")); got != before+1 {
		t.Errorf("INBOX has %d messages, had %d", got, before)
	}
	code, out, errs := command(t, "", "--data", data, "sieve", "test", "alice", "--text",
		`if header :is "subject" "other" { discard; }`, "--json")
	if code != 0 || !strings.Contains(out, `"subject":"other"`) && !strings.Contains(out, `"subject": "other"`) ||
		!strings.Contains(out, "discard") {
		t.Errorf("sieve test: %d %s %s", code, out, errs)
	}
}
