package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"doublet/test/external"
	"doublet/test/program"
)

// TestPrograms: swaks, msmtp, curl and neomutt send; curl, imaplib, mutt, neomutt, mbsync and offlineimap read.
func TestPrograms(t *testing.T) {
	external.Need(t, "swaks", "msmtp", "curl", "python3", "mutt", "neomutt", "mbsync", "offlineimap")
	s := demo(t)
	t.Run("swaks sends, curl reads", func(t *testing.T) { swaks(t, s) })
	t.Run("swaks signs in with STARTTLS", func(t *testing.T) { swaksTLS(t, s) })
	t.Run("msmtp sends", func(t *testing.T) { msmtp(t, s) })
	t.Run("curl sends", func(t *testing.T) { curlSends(t, s) })
	t.Run("LMTP", func(t *testing.T) { lmtp(t, s) })
	t.Run("imaplib", func(t *testing.T) { imaplib(t, s) })
	t.Run("zlib flushes partly", func(t *testing.T) {
		program.Want(t, program.Run(t, "", []string{"PORT=" + s.Port["imap"]}, "timeout", "60", "python3", "-c",
			zlibScript), "done")
	})
	t.Run("mutt reads", func(t *testing.T) { mutt(t, s) })
	t.Run("neomutt sends, reads, files away", func(t *testing.T) { neomutt(t, s) })
	t.Run("mbsync both ways", func(t *testing.T) { mbsync(t, s) })
	t.Run("offlineimap both ways", func(t *testing.T) { offlineimap(t, s) })
	t.Run("http", func(t *testing.T) { http(t, s) })
	t.Run("check", func(t *testing.T) { program.Want(t, s.Doublet("check", "--deep"), "") })
}

func (s *server) imapURL(path string) string {
	return "imap://127.0.0.1:" + s.Port["imap"] + "/" + path
}

// body returns the newest message with a subject in a user's INBOX.
func (s *server) body(t *testing.T, user, subject string) string {
	t.Helper()
	out := program.Run(t, "", nil, "curl", "-s", s.imapURL("INBOX"), "-u", user+":demo", "-X",
		"UID SEARCH SUBJECT \""+subject+"\"")
	f := strings.Fields(out)
	if len(f) < 3 {
		t.Fatalf("no message with subject %q: %s", subject, out)
	}
	uid := f[len(f)-1]
	return program.Run(t, "", nil, "curl", "-s", s.imapURL("INBOX;UID="+uid), "-u", user+":demo")
}

func swaks(t *testing.T, s *server) {
	out := program.Run(t, "", nil, "swaks", "--server", "127.0.0.1:"+s.Port["smtp"], "--from",
		"stranger@elsewhere.example",
		"--to", "alice@example.com,bob@example.com", "--header", "Subject: from swaks", "--body", "Grüße\n.dot\n")
	program.Want(t, out, "250 2.0.0")
	for _, user := range []string{"alice", "bob"} {
		program.Want(t, s.body(t, user, "from swaks"), "Subject: from swaks\r\n", "\r\n.dot\r\n",
			"Return-Path: <stranger@elsewhere.example>", "Received: ")
	}
	// A stranger must not send to strangers.
	fail := runFails(t, "swaks", "--server", "127.0.0.1:"+s.Port["smtp"], "--from", "stranger@elsewhere.example",
		"--to", "x@elsewhere.example")
	program.Want(t, fail, "550 5.7.1")
	fail = runFails(t, "swaks", "--server", "127.0.0.1:"+s.Port["smtp"], "--from", "stranger@elsewhere.example", "--to",
		"nobody@example.com")
	program.Want(t, fail, "550 5.1.1")
}

func swaksTLS(t *testing.T, s *server) {
	out := program.Run(t, "", nil, "swaks", "--server", "127.0.0.1:"+s.Port["submission"], "--tls", "--auth", "PLAIN",
		"--auth-user", "bob",
		"--auth-password", "demo", "--from", "bob@example.com", "--to", "carol@example.com", "--header",
		"Subject: from bob over TLS")
	program.Want(t, out, "235 2.7.0", "TLS started")
	program.Want(t, s.body(t, "carol", "from bob over TLS"), "ESMTPSA")
	fail := runFails(t, "swaks", "--server", "127.0.0.1:"+s.Port["submission"], "--tls", "--auth", "PLAIN",
		"--auth-user", "bob",
		"--auth-password", "wrong", "--from", "bob@example.com", "--to", "carol@example.com")
	program.Want(t, fail, "535 5.7.8")
	fail = runFails(t, "swaks", "--server", "127.0.0.1:"+s.Port["submission"], "--tls", "--auth", "PLAIN",
		"--auth-user", "bob",
		"--auth-password", "demo", "--from", "alice@example.com", "--to", "carol@example.com")
	program.Want(t, fail, "5.7.1")
}

func msmtp(t *testing.T, s *server) {
	program.Run(t, "From: alice@example.com\nTo: bob@example.com\nSubject: from msmtp\n\nHello.\n", nil, "msmtp",
		"--host=127.0.0.1",
		"--port="+s.Port["submission"], "--auth=scram-sha-256", "--user=alice", "--passwordeval=echo demo",
		"--from=alice@example.com",
		"--tls=off", "bob@example.com")
	program.Want(t, s.body(t, "bob", "from msmtp"), "\r\nHello.\r\n")
}

func curlSends(t *testing.T, s *server) {
	file := filepath.Join(t.TempDir(), "mail")
	if err := os.WriteFile(file,
		[]byte("From: carol@example.com\r\nTo: alice@example.com\r\nSubject: from curl\r\n\r\nHello.\r\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	program.Run(t, "", nil, "curl", "-s", "--url", "smtp://127.0.0.1:"+s.Port["submission"], "--mail-from",
		"carol@example.com",
		"--mail-rcpt", "alice@example.com", "--upload-file", file, "-u", "carol:demo")
	program.Want(t, s.body(t, "alice", "from curl"), "\r\nHello.\r\n")
}

func lmtp(t *testing.T, s *server) {
	out := program.Run(t, "", nil, "swaks", "--protocol", "LMTP", "--server", "127.0.0.1:"+s.Port["lmtp"], "--from",
		"x@elsewhere.example",
		"--to", "alice@example.com,bob@example.com", "--header", "Subject: over LMTP")
	if strings.Count(out, "<-  250 2.") < 2 {
		t.Errorf("want a reply for each recipient:\n%s", out)
	}
}

func imaplib(t *testing.T, s *server) {
	out := program.Run(t, imaplibScript, []string{"PORT=" + s.Port["imap"], "TLSPORT=" + s.Port["imaps"]},
		"python3", "-")
	program.Want(t, out, "done")
}

const imaplibScript = `
import imaplib, os, ssl, email
m = imaplib.IMAP4("127.0.0.1", int(os.environ["PORT"]))
assert "IMAP4REV1" in m.capabilities, m.capabilities
m.login("alice", "demo")
have = m.capability()[1][0].split()
for want in (b"IDLE", b"MOVE", b"UIDPLUS", b"CONDSTORE", b"QRESYNC", b"SPECIAL-USE", b"ESEARCH", b"UNSELECT"):
    assert want in have, (want, have)
typ, boxes = m.list()
names = b"\n".join(boxes)
for want in (b"INBOX", b"\\Drafts", b"\\Sent", b"\\Archive", b"\\Junk", b"\\Trash"):
    assert want in names, (want, names)
assert m.create("Projects/2026")[0] == "OK"
raw = b"From: alice@example.com\r\nTo: alice@example.com\r\n" \
    b"Subject: appended\r\nDate: Mon, 5 Jan 2026 10:00:00 +0000\r\n\r\nBody \xc3\xa4\r\n"
typ, data = m.append("Projects/2026", r"(\Seen \Flagged)", '"05-Jan-2026 10:00:00 +0000"', raw)
assert typ == "OK" and b"APPENDUID" in data[0], data
assert m.select("Projects/2026")[1] == [b"1"]
typ, data = m.fetch("1", "(FLAGS INTERNALDATE RFC822.SIZE BODY.PEEK[])")
assert data[0][1] == raw, data
assert b"\\Seen" in data[0][0] and b"\\Flagged" in data[0][0] and b"5-Jan-2026 10:00:00 +0000" in data[0][0], data
assert m.search(None, "FLAGGED", "SUBJECT", "append")[1] == [b"1"]
assert m.store("1", "+FLAGS", r"(\Deleted $Work)")[0] == "OK"
assert m.copy("1", "Archive")[0] == "OK"
assert m.expunge()[1] == [b"1"]
assert m.select("Archive")[0] == "OK"
assert m.search(None, "KEYWORD", "$Work")[1] != [b""]
assert m.store("1", "+FLAGS", r"(\Deleted)")[0] == "OK"
assert m.expunge()[1] == [b"1"]
assert any(b'"Recoverable Items"' in b for b in m.list()[1]), m.list()
assert not any(b"Recoverable" in (b or b"") for b in m.lsub()[1]), m.lsub()
assert m.select('"Recoverable Items"', readonly=True)[1] == [b"1"]
assert m.search(None, "TEXT", "appended", "KEYWORD", "$Work", "UNDELETED")[1] == [b"1"]
assert m.fetch("1", "(BODY.PEEK[])")[1][0][1] == raw
assert m.copy("1", "Archive")[0] == "OK"
assert m.search(None, "ALL")[1] == [b""]
assert m.select("Archive")[1] == [b"1"]
assert m.search(None, "KEYWORD", "$Work", "FLAGGED", "SEEN", "UNDELETED")[1] == [b"1"]
assert m.status("INBOX", "(MESSAGES UNSEEN UIDNEXT UIDVALIDITY)")[0] == "OK"
assert m.rename("Projects/2026", "Projects/2027")[0] == "OK"
assert m.delete("Projects/2027")[0] == "OK"
try:
    m.select("nowhere")
    assert m.state != "SELECTED"
except imaplib.IMAP4.error:
    pass
m.logout()
ctx = ssl.create_default_context(); ctx.check_hostname = False; ctx.verify_mode = ssl.CERT_NONE
t = imaplib.IMAP4_SSL("127.0.0.1", int(os.environ["TLSPORT"]), ssl_context=ctx)
t.login("bob@example.com", "demo"); t.select(); t.logout()
try:
    b = imaplib.IMAP4("127.0.0.1", int(os.environ["PORT"])); b.login("alice", "wrong")
    raise SystemExit("signed in with a wrong password")
except imaplib.IMAP4.error:
    pass
print("done")
`

// zlibScript uses COMPRESS with every kind of flush that a peer may use, and leaves blocks open.
const zlibScript = `
import os, socket, zlib
s = socket.create_connection(("127.0.0.1", int(os.environ["PORT"])), timeout=20)
f = s.makefile("rb")
f.readline()
def plain(line, tag):
    s.sendall(line)
    while True:
        got = f.readline()
        assert got, line
        if got.startswith(tag):
            return got
assert b"OK" in plain(b"a LOGIN alice demo\r\n", b"a ")
assert b"OK" in plain(b"b COMPRESS DEFLATE\r\n", b"b ")
out = zlib.compressobj(9, zlib.DEFLATED, -15)
back = zlib.decompressobj(-15)
have = b""
def answer(tag):
    global have
    while True:
        line, end, rest = have.partition(b"\r\n")
        if end:
            have = rest
            if line.startswith(tag):
                return line
            continue
        got = s.recv(65536)
        assert got, tag
        have += back.decompress(got)
n = 0
for flush in (zlib.Z_PARTIAL_FLUSH, zlib.Z_SYNC_FLUSH, zlib.Z_FULL_FLUSH, zlib.Z_PARTIAL_FLUSH) * 20:
    n += 1
    tag = b"c%d " % n
    line = tag + (b"NOOP" if n % 3 else b"STATUS INBOX (MESSAGES UIDNEXT)") + b"\r\n"
    packed = out.compress(line) + out.flush(flush)
    if n % 5 == 0:
        for i in range(len(packed)):
            s.sendall(packed[i:i+1])
    else:
        s.sendall(packed)
    assert b" OK " in answer(tag), tag
raw = b"Subject: packed\r\n\r\n" + b"a line again and again, %d\r\n" * 20000
s.sendall(out.compress(b"d APPEND INBOX {%d+}\r\n" % len(raw) + raw + b"\r\n") + out.flush(zlib.Z_PARTIAL_FLUSH))
assert b"APPENDUID" in answer(b"d ")
print("done")
`

func mutt(t *testing.T, s *server) {
	dir := t.TempDir()
	rc := filepath.Join(dir, "muttrc")
	out := filepath.Join(dir, "out.mbox")
	conf := fmt.Sprintf(`set folder="imap://alice:demo@127.0.0.1:%s/"
set spoolfile="+INBOX"
set ssl_starttls=no
set ssl_force_tls=no
set sort=date
set mbox_type=mbox
set confirmappend=no
set confirmcreate=no
set auto_tag=yes
set record=""
set copy=no
set delete=yes
`, s.Port["imap"])
	if err := os.WriteFile(rc, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	// Tag all messages, copy them to a file, quit: the keys that a person would press.
	program.Run(t, "", []string{"TERM=xterm", "HOME=" + dir}, "script", "-qec",
		fmt.Sprintf("mutt -n -F %s -e 'push \"<tag-pattern>~A<enter><copy-message>%s<enter><quit>\"'", rc, out),
		"/dev/null")
	b, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	program.Want(t, string(b), "Subject: from swaks", "Subject: from curl")
}

// neomutt sends by submission with a copy in Sent, reads with QRESYNC, and moves flagged messages into the archive.
func neomutt(t *testing.T, s *server) {
	dir := t.TempDir()
	rc, out := filepath.Join(dir, "rc"), filepath.Join(dir, "out.mbox")
	conf := fmt.Sprintf(`set folder="imap://carol@127.0.0.1:%[1]s/"
set imap_user="carol"
set imap_pass="demo"
set spoolfile="+INBOX"
set record="+Sent"
set trash=""
set smtp_url="smtp://carol:demo@127.0.0.1:%[2]s/"
set smtp_authenticators="plain"
set imap_authenticators="plain"
set from="carol@example.com"
set realname="Carol C"
set ssl_starttls=no
set ssl_force_tls=no
set imap_condstore=yes
set imap_qresync=yes
set header_cache="%[3]s/cache"
set mbox_type=mbox
set confirmappend=no
set confirmcreate=no
set auto_tag=yes
set delete=yes
set move=no
set editor="%[3]s/editor"
`, s.Port["imap"], s.Port["submission"], dir)
	if err := os.WriteFile(rc, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	editor := filepath.Join(dir, "editor")
	external.Script(t, editor, "#!/bin/sh\necho Grüße. >>\"$1\"\n")
	env := []string{"TERM=xterm", "HOME=" + dir}
	press := func(keys string) {
		program.Run(t, "", env, "script", "-qec", fmt.Sprintf("neomutt -n -F %s -e 'push \"%s\"'", rc, keys),
			"/dev/null")
	}
	program.Run(t, "Grüße.\n", env, "neomutt", "-n", "-F", rc, "-s", "one from neomutt", "carol@example.com")
	press("<mail>carol@example.com<enter>two from neomutt<enter><send-message><quit>")
	for _, subject := range []string{"one from neomutt", "two from neomutt"} {
		program.Want(t, s.body(t, "carol", subject), "From: Carol C <carol@example.com>", "ESMTPA")
	}
	press("<tag-pattern>~s neomutt<enter><copy-message>" + out + "<enter><quit>")
	b, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	program.Want(t, string(b), "Subject: one from neomutt", "Subject: two from neomutt")
	press("<tag-pattern>~s one<enter><flag-message><tag-pattern>~s one<enter><save-message>=Archive<enter><quit>")
	search := func(box, query string) string {
		return strings.TrimSpace(program.Run(t, "", nil, "curl", "-s", s.imapURL(box), "-u", "carol:demo", "-X",
			"SEARCH "+query))
	}
	if got := search("INBOX", "SUBJECT neomutt"); strings.Count(got, " ") != 2 {
		t.Errorf("in INBOX one message of neomutt is to be left: %q", got)
	}
	for box, query := range map[string]string{"Archive": `SUBJECT "one from neomutt" FLAGGED`,
		"Sent": `SUBJECT "two from neomutt" SEEN`} {
		if got := search(box, query); got == "* SEARCH" {
			t.Errorf("%s has no message %s", box, query)
		}
	}
	// With its cache, it is told which messages have gone since.
	press("<tag-pattern>~s neomutt<enter><delete-message><quit>")
	if got := search("INBOX", "SUBJECT neomutt"); got != "* SEARCH" {
		t.Errorf("left in INBOX: %q", got)
	}
}

func mbsync(t *testing.T, s *server) {
	dir := t.TempDir()
	rc := filepath.Join(dir, "mbsyncrc")
	conf := fmt.Sprintf(`IMAPStore far
Host 127.0.0.1
Port %s
User alice
Pass demo
SSLType None
AuthMechs LOGIN

MaildirStore near
Path %s/mail/
Inbox %s/mail/INBOX
SubFolders Verbatim

Channel all
Far :far:
Near :near:
Patterns *
Create Both
Expunge Both
SyncState *
`, s.Port["imap"], dir, dir)
	if err := os.WriteFile(rc, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "mail"), 0o700); err != nil {
		t.Fatal(err)
	}
	bothWays(t, s, "alice", filepath.Join(dir, "mail", "INBOX"), func() {
		program.Run(t, "", []string{"HOME=" + dir}, "mbsync", "-c", rc, "all")
	})
}

func offlineimap(t *testing.T, s *server) {
	dir := t.TempDir()
	rc := filepath.Join(dir, "rc")
	conf := fmt.Sprintf(`[general]
accounts = demo
metadata = %s/meta
ui = basic

[Account demo]
localrepository = near
remoterepository = far

[Repository near]
type = Maildir
localfolders = %s/mail

[Repository far]
type = IMAP
remotehost = 127.0.0.1
remoteport = %s
remoteuser = bob
remotepass = demo
ssl = no
starttls = no
auth_mechanisms = PLAIN
maxconnections = 2
folderfilter = lambda name: name in ("INBOX", "Archive", "Sent")
`, dir, dir, s.Port["imap"])
	if err := os.WriteFile(rc, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	bothWays(t, s, "bob", filepath.Join(dir, "mail", "INBOX"), func() {
		program.Run(t, "", []string{"HOME=" + dir}, "offlineimap", "-o", "-c", rc)
	})
}

// bothWays checks a program that synchronises a person's INBOX with a Maildir. After a sync, messages that are new,
// flagged or deleted on either side are so on the other, and nothing is doubled.
func bothWays(t *testing.T, s *server, user, inbox string, sync func()) {
	t.Helper()
	list := func() (files []string) {
		for _, sub := range []string{"new", "cur"} {
			found, err := filepath.Glob(filepath.Join(inbox, sub, "*"))
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, found...)
		}
		return files
	}
	// holding returns the one file with a subject.
	holding := func(subject string) (file string) {
		for _, f := range list() {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(text), "Subject: "+subject) {
				if file != "" {
					t.Errorf("%q is there twice", subject)
				}
				file = f
			}
		}
		if file == "" {
			t.Fatalf("no message %q", subject)
		}
		return file
	}
	there := func(query string) string {
		return program.Run(t, "", nil, "curl", "-s", s.imapURL("INBOX"), "-u", user+":demo", "-X", query)
	}
	sync()
	before := len(list())
	if before == 0 {
		t.Fatal("nothing was fetched")
	}
	local := filepath.Join(inbox, "new", "1700000000.1_1.host")
	if err := os.WriteFile(local, []byte("From: "+user+"@example.com\nSubject: made offline by "+user+"\n\nHello.\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	program.Run(t, "", nil, "swaks", "--server", "127.0.0.1:"+s.Port["smtp"], "--from", "x@elsewhere.example", "--to",
		user+"@example.com",
		"--header", "Subject: while syncing")
	sync()
	sync()
	if got := len(list()); got != before+2 {
		t.Errorf("%d messages after the second sync, want %d", got, before+2)
	}
	program.Want(t, s.body(t, user, "made offline by "+user), "Hello.")
	// Flag it on both sides, and then delete it here.
	old := holding("while syncing")
	marked := filepath.Join(inbox, "cur", strings.TrimSuffix(filepath.Base(old), ":2,")+":2,FS")
	if err := os.Rename(old, marked); err != nil {
		t.Fatal(err)
	}
	uid := strings.Fields(there(`UID SEARCH SUBJECT "made offline by"`))
	there("UID STORE " + uid[len(uid)-1] + ` +FLAGS (\Answered)`)
	sync()
	program.Want(t, there(`SEARCH SUBJECT "while syncing" FLAGGED SEEN`), "* SEARCH ")
	if _, flags, _ := strings.Cut(holding("made offline by "+user), ":2,"); !strings.Contains(flags, "R") {
		t.Errorf("flags here %q, \\Answered there", flags)
	}
	if err := os.Remove(holding("while syncing")); err != nil {
		t.Fatal(err)
	}
	sync()
	if out := strings.TrimSpace(there(`SEARCH SUBJECT "while syncing"`)); out != "* SEARCH" {
		t.Errorf("deleted here, and there %q", out)
	}
	if got := len(list()); got != before+1 {
		t.Errorf("%d messages at the end, want %d", got, before+1)
	}
}

func http(t *testing.T, s *server) {
	base := "http://127.0.0.1:" + s.Port["http"]
	program.Want(t, program.Run(t, "", nil, "curl", "-sf", base+"/status"), "Doublet", "imap")
	program.Want(t, program.Run(t, "", nil, "curl", "-sf", base+"/metrics"), "doublet_mail_delivered_total",
		"doublet_database_db_cache_current_entries")
	program.Run(t, "", nil, "curl", "-sf", base+"/healthz")
}

// TestStop checks that SIGTERM ends the server cleanly, and that all acknowledged mail is there afterwards.
func TestStop(t *testing.T) {
	external.Need(t, "swaks", "curl")
	s := demo(t)
	program.Run(t, "", nil, "swaks", "--server", "127.0.0.1:"+s.Port["smtp"], "--from", "x@elsewhere.example", "--to",
		"alice@example.com",
		"--header", "Subject: before the stop")
	stopped := make(chan struct{})
	go func() { s.Stop(syscall.SIGTERM); close(stopped) }()
	select {
	case <-stopped:
	case <-time.After(40 * time.Second):
		t.Fatalf("still running after SIGTERM:\n%s", s.Out)
	}
	if code := s.Cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit code %d after SIGTERM:\n%s", code, s.Out)
	}
	program.Want(t, s.Doublet("check"), "") // verbs act on a stopped store directly
	s.Start()
	program.Want(t, s.body(t, "alice", "before the stop"), "x@elsewhere.example")
}

func runFails(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := program.Command(name, args...)
	if err == nil {
		t.Errorf("%s %s succeeded:\n%s", name, strings.Join(args, " "), out)
	}
	return out
}
