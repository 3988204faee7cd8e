package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"doublet/test/external"
	"doublet/test/program"
)

// TestDAV: vdirsyncer discovers calendars and address books and synchronizes both ways, so that entries return byte for
// byte; khal shows the events and makes one; cadaver lists and fetches.
//
// Implements: RFC 6764 §6 Client "Bootstrapping" Procedures
func TestDAV(t *testing.T) {
	t.Parallel()
	external.Need(t, "vdirsyncer", "khal", "cadaver", "curl")
	s := demo(t)
	dir := t.TempDir()
	base := "http://127.0.0.1:" + s.Port["http"]
	write := func(path, text string) {
		t.Helper()
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pair := func(name, kind, ext string) string {
		return "[pair " + name + "]\na = \"" + name + "_here\"\nb = \"" + name + "_there\"\n" +
			"collections = [\"from b\"]\n[storage " + name + "_here]\ntype = \"filesystem\"\npath = \"" +
			filepath.Join(dir, name) + "\"\nfileext = \"" + ext + "\"\n[storage " + name + "_there]\ntype = \"" + kind +
			"\"\nurl = \"" + base + "/\"\nusername = \"alice\"\npassword = \"demo\"\n"
	}
	write("vdirsyncer.conf", "[general]\nstatus_path = \""+filepath.Join(dir, "status")+"\"\n"+
		pair("cal", "caldav", ".ics")+pair("card", "carddav", ".vcf"))
	write("khal.conf", "[calendars]\n[[calendar]]\npath = "+filepath.Join(dir, "cal", "calendar")+
		"\n[locale]\ntimeformat = %H:%M\ndateformat = %Y-%m-%d\nlongdateformat = %Y-%m-%d\n"+
		"datetimeformat = %Y-%m-%d %H:%M\nlongdatetimeformat = %Y-%m-%d %H:%M\n[sqlite]\npath = "+
		filepath.Join(dir, "khal.db")+"\n")
	env := []string{"HOME=" + dir, "LC_ALL=C.UTF-8", "TZ=UTC"}
	sync := func(args ...string) {
		t.Helper()
		args = append([]string{"-c", filepath.Join(dir, "vdirsyncer.conf")}, args...)
		program.Run(t, "y\ny\ny\ny\ny\n", env, "vdirsyncer", args...)
	}
	khal := func(args ...string) string {
		t.Helper()
		return program.Run(t, "", env, "khal", append([]string{"-c", filepath.Join(dir, "khal.conf")}, args...)...)
	}
	sync("discover")

	event := strings.ReplaceAll("BEGIN:VCALENDAR\nVERSION:2.0\nPRODID:-//x//y//EN\nX-UNKNOWN;A=\"b;c\":kept\n"+
		"BEGIN:VEVENT\nUID:lunch@x\nDTSTAMP:20260101T000000Z\nDTSTART:20260105T123000Z\nDURATION:PT1H\n"+
		"SUMMARY:Lunch with Bob\nRRULE:FREQ=DAILY;COUNT=3\nEND:VEVENT\nEND:VCALENDAR\n", "\n", "\r\n")
	write("lunch.ics", event)
	url := base + "/dav/calendars/alice@example.com/calendar/lunch.ics"
	program.Run(t, "", nil, "curl", "-sf", "-u", "alice:demo", "-T", filepath.Join(dir, "lunch.ics"), url)
	card := "BEGIN:VCARD\r\nVERSION:3.0\r\nUID:ann@x\r\nFN:Ann\r\nX-ODD:kept\r\nEND:VCARD\r\n"
	write("card/contacts/ann.vcf", card)
	sync("sync")
	program.Want(t, khal("list", "2026-01-07", "2026-01-08"), "Lunch with Bob")
	khal("new", "-a", "calendar", "2026-01-09", "10:00", "11:00", "Made by khal")
	sync("sync")
	get := func(path string) string {
		t.Helper()
		return program.Run(t, "", nil, "curl", "-sf", "-u", "alice:demo", base+"/dav/"+path)
	}
	if got := get("calendars/alice@example.com/calendar/lunch.ics"); got != event {
		t.Errorf("the event came back as %q", got)
	}
	list := program.Run(t, "", nil, "curl", "-sf", "-u", "alice:demo", "-X", "PROPFIND", "-H", "Depth: 1",
		base+"/dav/addressbooks/alice@example.com/contacts/")
	program.Want(t, list, ".vcf")
	at := strings.Index(list, ".vcf")
	name := list[strings.LastIndex(list[:at], "/")+1 : at+4]
	if got := get("addressbooks/alice@example.com/contacts/" + name); got != card {
		t.Errorf("the contact came back as %q", got)
	}
	if n := strings.Count(program.Run(t, "", nil, "curl", "-sf", "-u", "alice:demo", "-X", "PROPFIND", "-H",
		"Depth: 1", base+"/dav/calendars/alice@example.com/calendar/"), ".ics</D:href>"); n != 2 {
		t.Errorf("the calendar has %d events, want 2", n)
	}
	t.Run("attachment", func(t *testing.T) {
		write("agenda.txt", "agenda")
		attach := func(query string, more ...string) string {
			t.Helper()
			return program.Run(t, "", nil, "curl", append([]string{"-sf", "-i", "-u", "alice:demo", "-X", "POST",
				url + "?action=attachment-" + query}, more...)...)
		}
		out := attach("add", "-T", filepath.Join(dir, "agenda.txt"), "-H", "Content-Type: text/plain", "-H",
			"Content-Disposition: attachment; filename=agenda.txt", "-H", "Prefer: return=representation")
		program.Want(t, out, "201 Created")
		m := regexp.MustCompile(`(?s)Cal-Managed-Id: (\w+).*Location: https?://[^/]+/dav/(\S+)`).FindStringSubmatch(out)
		if m == nil {
			t.Fatalf("no attachment in %s", out)
		}
		if got := get(m[2]); got != "agenda" {
			t.Errorf("the attachment has %q", got)
		}
		sync("sync")
		program.Run(t, "", nil, "grep", "-r", "MANAGED-ID="+m[1], filepath.Join(dir, "cal")) // it fails without a match
		program.Want(t, attach("remove&managed-id="+m[1]), "204 No Content")
		if got := get("calendars/alice@example.com/calendar/lunch.ics"); got != event {
			t.Errorf("without the attachment the event is %q", got)
		}
	})
	t.Run("cadaver", func(t *testing.T) {
		write(".netrc", "machine 127.0.0.1 login alice password demo\n")
		out := program.Run(t, "ls\nquit\n", env, "cadaver", base+"/dav/calendars/alice@example.com/calendar/")
		program.Want(t, out, "lunch.ics")
	})
	program.Want(t, s.Doublet("check", "--deep"), "")
}
