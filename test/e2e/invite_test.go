package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"doublet/test/external"
	"doublet/test/program"
)

// TestInvite: alice saves an event with bob and a room, bob accepts, and alice sees both answers; an answer that comes
// by mail from bob's program changes the event too, one from a stranger does not. The programs only read and write
// files of a CalDAV server, and send mail.
func TestInvite(t *testing.T) {
	t.Parallel()
	external.Need(t, "curl")
	s := demo(t)
	dir := t.TempDir()
	base := "http://127.0.0.1:" + s.Port["http"] + "/dav/calendars/"
	s.Doublet("room", "add", "Round Room", "--address", "round@example.com")
	curl := func(args ...string) string {
		t.Helper()
		return program.Run(t, "", nil, "curl", append([]string{"-sf"}, args...)...)
	}
	put := func(user, path, text string) {
		t.Helper()
		file := filepath.Join(dir, "text")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		curl("-u", user+":demo", "-T", file, base+user+"@example.com/calendar/"+path)
	}
	event := strings.ReplaceAll("BEGIN:VCALENDAR\nVERSION:2.0\nPRODID:-//x//y//EN\nBEGIN:VEVENT\nUID:plan@x\n"+
		"DTSTAMP:20260101T000000Z\nDTSTART:20260105T123000Z\nDURATION:PT1H\nSUMMARY:Plans\n"+
		"ORGANIZER:mailto:alice@example.com\nATTENDEE:mailto:bob@example.com\nATTENDEE:mailto:round@example.com\n"+
		"END:VEVENT\nEND:VCALENDAR\n", "\n", "\r\n")
	put("alice", "plan.ics", event)
	program.Want(t, unfolded(curl("-u", "alice:demo", base+"alice@example.com/calendar/plan.ics")),
		"PARTSTAT=ACCEPTED")
	list := curl("-u", "bob:demo", "-X", "PROPFIND", "-H", "Depth: 1", base+"bob@example.com/calendar/")
	at := strings.Index(list, ".ics</D:href>")
	if at < 0 {
		t.Fatalf("bob has no event: %s", list)
	}
	name := list[strings.LastIndex(list[:at], "/")+1 : at+4]
	theirs := unfolded(curl("-u", "bob:demo", base+"bob@example.com/calendar/"+name))
	put("bob", name, strings.Replace(theirs, "ATTENDEE:mailto:bob", "ATTENDEE;PARTSTAT=TENTATIVE:mailto:bob", 1))
	program.Want(t, unfolded(curl("-u", "alice:demo", base+"alice@example.com/calendar/plan.ics")),
		"PARTSTAT=TENTATIVE")

	reply := "From: bob@example.com\nTo: alice@example.com\nSubject: Accepted\nMIME-Version: 1.0\n" +
		"Content-Type: text/calendar; charset=utf-8; method=REPLY\n\nBEGIN:VCALENDAR\nVERSION:2.0\nMETHOD:REPLY\n" +
		"BEGIN:VEVENT\nUID:plan@x\nDTSTAMP:20990101T000000Z\nSEQUENCE:0\nDTSTART:20260105T123000Z\n" +
		"ORGANIZER:mailto:alice@example.com\nATTENDEE;PARTSTAT=DECLINED:mailto:bob@example.com\n" +
		"END:VEVENT\nEND:VCALENDAR\n"
	file := filepath.Join(dir, "reply.eml")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(reply, "\n", "\r\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	send := []string{"--mail-from", "bob@example.com", "--mail-rcpt", "alice@example.com", "-T", file}
	curl(append(send, "smtp://127.0.0.1:"+s.Port["smtp"])...) // from anybody: nothing verifies it
	program.Want(t, unfolded(curl("-u", "alice:demo", base+"alice@example.com/calendar/plan.ics")),
		"PARTSTAT=TENTATIVE")
	curl(append(send, "-u", "bob:demo", "smtp://127.0.0.1:"+s.Port["submission"])...)
	program.Want(t, unfolded(curl("-u", "alice:demo", base+"alice@example.com/calendar/plan.ics")),
		"PARTSTAT=DECLINED")
	program.Want(t, s.Doublet("room", "bookings", "Round Room"), "Plans")
	program.Want(t, s.Doublet("check", "--deep"), "")
}

func unfolded(s string) string { return strings.ReplaceAll(s, "\r\n ", "") }
