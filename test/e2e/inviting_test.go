package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"doublet/client/dns/zone"
	"doublet/test/external"
	"doublet/test/program"
)

// TestInviting: from the web client Alice invites Bob, a room and somebody of another server. The room books itself.
// Bob accepts in the file that khal shows and vdirsyncer synchronizes: khal has no command that answers. The third
// answers by mail, from the server of that domain by its SPF record; an answer in the same name from elsewhere changes
// nothing. Alice sees the three answers in the web client.
func TestInviting(t *testing.T) {
	external.Need(t, "node", "chromium", "vdirsyncer", "khal", "swaks", "curl")
	s := demo(t)
	base := "http://127.0.0.1:" + s.Port["http"]
	s.Doublet("room", "add", "Spring Room", "--address", "spring@example.com")
	step := func(name string) {
		t.Helper()
		browse(t, 2*time.Minute, []string{"WEB=" + base, "SMTP=" + s.Port["smtp"], "STEP=" + name}, "inviting.mjs")
	}
	step("invite")
	program.Want(t, s.Doublet("room", "bookings", "Spring Room"), "Plans for spring")
	program.Want(t, s.Doublet("queue", "list"), "pat@outside.example")
	uid := acceptByKhal(t, s, base)

	s.Stop(syscall.SIGTERM)
	s.startBehindBalancer(zone.Start(t, `outside.example. TXT "v=spf1 ip4:192.0.2.1 -all"
_dmarc.outside.example. TXT "v=DMARC1; p=none"
`))
	answer := func(ip, status string) {
		t.Helper()
		text := "From: Pat <pat@outside.example>\r\nTo: alice@example.com\r\nSubject: Answer\r\nMIME-Version: 1.0\r\n" +
			"Content-Type: text/calendar; charset=utf-8; method=REPLY\r\n\r\nBEGIN:VCALENDAR\r\nVERSION:2.0\r\n" +
			"METHOD:REPLY\r\nBEGIN:VEVENT\r\nUID:" + uid + "\r\nDTSTAMP:20990101T000000Z\r\nSEQUENCE:0\r\n" +
			"ORGANIZER:mailto:alice@example.com\r\nATTENDEE;PARTSTAT=" + status + ":mailto:pat@outside.example\r\n" +
			"END:VEVENT\r\nEND:VCALENDAR\r\n"
		file := filepath.Join(t.TempDir(), "answer.eml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		program.Run(t, "", nil, "swaks", "--silent", "2", "--server", "127.0.0.1:"+s.Port["smtp"], "--proxy",
			"TCP4 "+ip+" 127.0.0.1 40000 25", "--from", "pat@outside.example", "--to", "alice@example.com", "--helo",
			"outside.example", "--data", "@"+file)
	}
	got := s.stranger("192.0.2.1", "pat@outside.example", "alice@example.com", "Subject: Here\r\n\r\nHere.\r\n")
	if got[0] != '2' {
		t.Fatal(got) // it is open for mail now
	}
	answer("192.0.2.1", "TENTATIVE")
	answer("192.0.2.9", "DECLINED")
	s.Stop(syscall.SIGTERM)
	s.Start()
	step("see")
	program.Want(t, s.Doublet("check", "--deep"), "")
}

// acceptByKhal synchronizes Bob's calendar, accepts the one invitation in its file, as users of khal do, and
// synchronizes again. It returns the UID of the event.
func acceptByKhal(t *testing.T, s *server, base string) (uid string) {
	t.Helper()
	dir := t.TempDir()
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	conf, khalConf, files := filepath.Join(dir, "vdirsyncer.conf"), filepath.Join(dir, "khal.conf"), filepath.Join(dir,
		"cal")
	write(conf, "[general]\nstatus_path = \""+filepath.Join(dir, "status")+"\"\n[pair cal]\na = \"here\"\n"+
		"b = \"there\"\ncollections = [\"from b\"]\n[storage here]\ntype = \"filesystem\"\npath = \""+files+
		"\"\nfileext = \".ics\"\n[storage there]\ntype = \"caldav\"\nurl = \""+base+"/\"\nusername = \"bob\"\n"+
		"password = \"demo\"\n")
	write(khalConf, "[calendars]\n[[calendar]]\npath = "+filepath.Join(files, "calendar")+"\n[locale]\n"+
		"timeformat = %H:%M\ndateformat = %Y-%m-%d\nlongdateformat = %Y-%m-%d\ndatetimeformat = %Y-%m-%d %H:%M\n"+
		"longdatetimeformat = %Y-%m-%d %H:%M\n[sqlite]\npath = "+filepath.Join(dir, "khal.db")+"\n")
	env := []string{"HOME=" + dir, "LC_ALL=C.UTF-8", "TZ=UTC"}
	sync := func(verb string) {
		t.Helper()
		program.Run(t, "y\ny\ny\n", env, "vdirsyncer", "-c", conf, verb)
	}
	sync("discover")
	sync("sync")
	program.Want(t, program.Run(t, "", env, "khal", "-c", khalConf, "list", "2027-03-03", "2027-03-04"),
		"Plans for spring")
	list, err := filepath.Glob(filepath.Join(files, "calendar", "*.ics"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range list {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text := unfolded(string(raw))
		if !strings.Contains(text, "SUMMARY:Plans for spring") {
			continue
		}
		mine := regexp.MustCompile(`(?m)^ATTENDEE[^\r\n]*bob@example\.com\r?$`)
		accepted := mine.ReplaceAllStringFunc(text, func(line string) string {
			return regexp.MustCompile(`;PARTSTAT=[A-Z-]+`).ReplaceAllString(line, "")
		})
		accepted = mine.ReplaceAllStringFunc(accepted, func(line string) string {
			return strings.Replace(line, "ATTENDEE", "ATTENDEE;PARTSTAT=ACCEPTED", 1)
		})
		if accepted == text {
			t.Fatalf("bob is no guest: %s", text)
		}
		write(file, accepted)
		uid = strings.TrimSpace(regexp.MustCompile(`(?m)^UID:(.*)$`).FindStringSubmatch(text)[1])
	}
	if uid == "" {
		t.Fatalf("bob has no invitation in %v", list)
	}
	sync("sync")
	return uid
}
