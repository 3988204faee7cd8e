package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"doublet/test/external"
	"doublet/test/program"
)

// TestPOP checks that curl, poplib, fetchmail and getmail fetch by POP3 and fetch no message twice.
func TestPOP(t *testing.T) {
	external.Need(t, "curl", "python3", "fetchmail", "getmail")
	s := demo(t)
	for _, user := range []string{"pia", "paul", "pit"} {
		s.Doublet("user", "add", user, "--short", user, "--password", "demo")
		mail := filepath.Join(t.TempDir(), "mail.mbox")
		text := ""
		for i := range 3 {
			text += fmt.Sprintf("From x@y.example Mon Jan  5 10:00:0%d 2026\nSubject: number %d\n\n.dot\n..\n"+
				"Gr\xc3\xbc\xc3\x9fe to %s\n\n", i, i, user)
		}
		if err := os.WriteFile(mail, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s.Doublet("import", "mbox", mail, "--user", user)
	}
	t.Run("curl", func(t *testing.T) { curlPOP(t, s) })
	t.Run("poplib", func(t *testing.T) {
		program.Want(t, program.Run(t, poplibScript, []string{"PORT=" + s.Port["pop3"], "TLSPORT=" + s.Port["pop3s"]},
			"python3", "-"), "done")
	})
	t.Run("fetchmail", func(t *testing.T) { fetchmail(t, s) })
	t.Run("getmail", func(t *testing.T) { getmail(t, s) })
	program.Want(t, s.Doublet("show", "stat", "POP3"), "POP3.Retrieved")
	program.Want(t, s.Doublet("check", "--deep"), "")
}

func curlPOP(t *testing.T, s *server) {
	url := "pop3://127.0.0.1:" + s.Port["pop3"] + "/"
	list := program.Run(t, "", nil, "curl", "-s", url, "-u", "pia:demo")
	if n := len(strings.Fields(list)); n != 6 {
		t.Errorf("LIST: %q", list)
	}
	program.Want(t, program.Run(t, "", nil, "curl", "-s", "--ssl-reqd", "-k", url+"2", "-u", "pia:demo"),
		"Subject: number 1\r\n\r\n.dot\r\n..\r\n")
	program.Want(t, program.Run(t, "", nil, "curl", "-s", "-k", "pop3s://127.0.0.1:"+s.Port["pop3s"]+"/1", "-u",
		"pia:demo"), "Subject: number 0")
	if out, err := program.Command("curl", "-s", url, "-u", "pia:wrong"); err == nil {
		t.Errorf("a wrong password signs in: %s", out)
	}
}

const poplibScript = `
import poplib, os, ssl
ctx = ssl.create_default_context(); ctx.check_hostname = False; ctx.verify_mode = ssl.CERT_NONE
m = poplib.POP3("127.0.0.1", int(os.environ["PORT"]))
caps = m.capa()
for want in ("UIDL", "TOP", "PIPELINING", "STLS", "SASL", "UTF8", "LANG", "RESP-CODES", "AUTH-RESP-CODE"):
    assert want in caps, (want, caps)
assert caps["EXPIRE"] == ["NEVER"], caps
m.stls(ctx)
m.utf8()
m.user("pia"); m.pass_("demo")
n, octets = m.stat()
assert n == 3, n
sizes = [int(l.split()[1]) for l in m.list()[1]]
assert sum(sizes) == octets
for i in range(n):
    resp, lines, size = m.retr(i + 1)
    assert size == sizes[i], (size, sizes)
    assert lines[2:5] == [b".dot", b"..", "Grüße to pia".encode()], lines
ids = [l.split()[1] for l in m.uidl()[1]]
assert len(set(ids)) == 3, ids
assert m.top(1, 1)[1][-1] == b".dot"
assert m.uidl(2).split()[2] == ids[1]
m.dele(1); m.rset(); m.dele(2); m.quit()
t = poplib.POP3_SSL("127.0.0.1", int(os.environ["TLSPORT"]), context=ctx)
t.user("pia"); t.pass_("demo")
assert [l.split()[1] for l in t.uidl()[1]] == [ids[0], ids[2]]
o = poplib.POP3("127.0.0.1", int(os.environ["PORT"]))
o.user("pia")
try:
    o.pass_("demo"); raise SystemExit("two sessions of one maildrop")
except poplib.error_proto as e:
    assert b"[IN-USE]" in e.args[0], e
t.quit()
print("done")
`

func fetchmail(t *testing.T, s *server) {
	dir := t.TempDir()
	rc, box := filepath.Join(dir, "rc"), filepath.Join(dir, "box")
	conf := fmt.Sprintf("poll 127.0.0.1 protocol pop3 port %s auth password uidl user paul password demo sslproto "+
		"'' no sslcertck keep mda \"cat >>%s\"\n", s.Port["pop3"], box)
	if err := os.WriteFile(rc, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	env := []string{"HOME=" + dir, "FETCHMAILHOME=" + dir}
	program.Run(t, "", env, "fetchmail", "-f", rc, "-i", filepath.Join(dir, "ids"), "--pidfile",
		filepath.Join(dir, "pid"))
	got, err := os.ReadFile(box)
	if err != nil || strings.Count(string(got), "Subject: number") != 3 ||
		!strings.Contains(string(got), "\n.dot\n..\nGrüße to paul") {
		t.Errorf("%q %v", got, err)
	}
	// fetchmail recognises messages left on the server by their unique ids, and does not fetch them again.
	s.Doublet("show", "server")
	out, err := commandEnv(env, "fetchmail", "-f", rc, "-i", filepath.Join(dir, "ids"), "--pidfile",
		filepath.Join(dir, "pid"))
	if err == nil { // exit code 1: no mail
		t.Errorf("fetchmail found new mail: %s", out)
	}
	again, _ := os.ReadFile(box)
	if len(again) != len(got) {
		t.Errorf("fetchmail took a message twice:\n%s", out)
	}
}

func getmail(t *testing.T, s *server) {
	dir := t.TempDir()
	for _, d := range []string{"box/cur", "box/new", "box/tmp"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	conf := fmt.Sprintf("[retriever]\ntype = SimplePOP3Retriever\nserver = 127.0.0.1\nport = %s\nusername = pit\n"+
		"password = demo\n[destination]\ntype = MDA_external\npath = /bin/sh\nallow_root_commands = true\n"+
		"arguments = (\"-c\", \"cat >$(mktemp %s/new/XXXXXXXX)\")\n[options]\nread_all = false\ndelete = false\n",
		s.Port["pop3"], filepath.Join(dir, "box"))
	rc := filepath.Join(dir, "getmailrc")
	if err := os.WriteFile(rc, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	count := func() int {
		entries, err := os.ReadDir(filepath.Join(dir, "box", "new"))
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	for range 2 {
		program.Run(t, "", []string{"HOME=" + dir}, "getmail", "--getmaildir="+dir, "--rcfile="+rc)
		if n := count(); n != 3 {
			t.Errorf("getmail has %d messages", n)
		}
	}
	// With delete, the maildrop is empty afterwards.
	conf = strings.ReplaceAll(strings.ReplaceAll(conf, "delete = false", "delete = true"), "read_all = false",
		"read_all = true")
	if err := os.WriteFile(rc, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	program.Run(t, "", []string{"HOME=" + dir}, "getmail", "--getmaildir="+dir, "--rcfile="+rc)
	if list := program.Run(t, "", nil, "curl", "-s", "pop3://127.0.0.1:"+s.Port["pop3"]+"/", "-u",
		"pit:demo"); strings.TrimSpace(list) != "" {
		t.Errorf("after getmail has deleted everything: %q", list)
	}
}

// commandEnv runs a program with additional environment variables.
func commandEnv(env []string, name string, args ...string) (string, error) {
	c := exec.Command(name, args...)
	c.Env = append(os.Environ(), env...)
	out, err := c.CombinedOutput()
	return string(out), err
}
