package e2e

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"doublet/test/external"
	"doublet/test/program"
)

// place is a server of a domain: a process with a data folder, with all settings in doublet.toml.
type place struct {
	*server
	name string
}

var placeDoors = []string{"smtp", "submission", "imap", "pop3", "https"}

func newPlace(t *testing.T, name string) *place {
	p := &place{server: &server{&program.Server{T: t, Data: filepath.Join(t.TempDir(), "data"),
		Port: map[string]string{}}}, name: name}
	for i, port := range program.FreePorts(t, len(placeDoors)) {
		p.Port[placeDoors[i]] = port
	}
	return p
}

func (p *place) doors() (flags []string) {
	for _, d := range []string{"http", "submissions", "lmtp", "imaps", "pop3s", "sieve"} {
		flags = append(flags, "--"+d, "off")
	}
	for _, d := range placeDoors {
		flags = append(flags, "--"+d, "127.0.0.1:"+p.Port[d])
	}
	return flags
}

func (p *place) serve() {
	p.T.Helper()
	path, err := program.Path()
	if err != nil {
		p.T.Fatal(err)
	}
	p.Out = &program.Output{}
	p.Cmd = exec.Command(path, append([]string{"serve", "--data", p.Data}, p.doors()...)...)
	p.Cmd.Stdout, p.Cmd.Stderr = p.Out, p.Out
	if err := p.Cmd.Start(); err != nil {
		p.T.Fatal(err)
	}
	p.T.Cleanup(func() { p.Stop(syscall.SIGKILL) })
	p.Await("imap")
	p.Await("smtp")
	until(p.T, "the server of "+p.name+" is ready", func() bool {
		c, err := net.DialTimeout("tcp", "127.0.0.1:"+p.Port["https"], time.Second)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
}

func until(t *testing.T, what string, fn func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !fn(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

// domainToken returns a token with which a server joins the domain.
func (p *place) domainToken() string {
	p.T.Helper()
	for _, word := range strings.Fields(p.Doublet("domain", "token")) {
		if strings.HasPrefix(word, "doublet-domain-") {
			return word
		}
	}
	p.T.Fatal("no token")
	return ""
}

// send sends a message as a signed-in person.
func (p *place) send(from, to, subject string) (string, error) {
	file := filepath.Join(p.T.TempDir(), "message")
	text := "From: " + from + "@domain.example\r\nSubject: " + subject + "\r\nMessage-ID: <" + subject +
		"@domain.example>\r\n\r\n" + subject + "\r\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		p.T.Fatal(err)
	}
	return program.Command("curl", "-sS", "-v", "-m", "20", "-u", from+":secret", "--mail-from", from+"@domain.example",
		"--mail-rcpt", to, "-T", file, "smtp://127.0.0.1:"+p.Port["submission"])
}

func (p *place) mustSend(from, to, subject string) {
	p.T.Helper()
	if out, err := p.send(from, to, subject); err != nil {
		p.T.Fatalf("%s: %v\n%s\n%s", subject, err, out, p.Out)
	}
}

// occupied puts an event into a person's calendar, on March 3, 2027 from 10 to 11.
func (p *place) occupied(who string) {
	p.T.Helper()
	file := filepath.Join(p.T.TempDir(), "event.ics")
	text := "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:x\r\nBEGIN:VEVENT\r\nUID:busy\r\nDTSTAMP:20260101T000000Z\r\n" +
		"DTSTART:20270303T100000Z\r\nDTEND:20270303T110000Z\r\nSUMMARY:Secret\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		p.T.Fatal(err)
	}
	program.Run(p.T, "", nil, "curl", "-sSfk", "-m", "20", "-u", who+":secret", "-T", file, "https://127.0.0.1:"+
		p.Port["https"]+"/dav/calendars/"+who+"@domain.example/calendar/busy.ics")
}

// freeTime asks for the free time of somebody in March 2027, at a person's outbox.
func (p *place) freeTime(who, of string) string {
	p.T.Helper()
	text := "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:x\r\nMETHOD:REQUEST\r\nBEGIN:VFREEBUSY\r\nUID:ask\r\n" +
		"DTSTAMP:20260101T000000Z\r\nDTSTART:20270301T000000Z\r\nDTEND:20270401T000000Z\r\nORGANIZER:mailto:" + who +
		"@domain.example\r\nATTENDEE:mailto:" + of + "@domain.example\r\nEND:VFREEBUSY\r\nEND:VCALENDAR\r\n"
	return program.Run(p.T, "", nil, "curl", "-sSfk", "-m", "20", "-u", who+":secret", "-H",
		"Content-Type: text/calendar", "--data-binary", text, "https://127.0.0.1:"+p.Port["https"]+"/dav/calendars/"+
			who+"@domain.example/outbox/")
}

// inbox returns the headers of all messages in a person's INBOX.
func (p *place) inbox(who string) string {
	out := ""
	for i := 1; ; i++ {
		one, err := program.Command("curl", "-sS", "-m", "20", "-u", who+":secret",
			fmt.Sprintf("imap://127.0.0.1:%s/INBOX/;MAILINDEX=%d/;SECTION=HEADER", p.Port["imap"], i))
		if err != nil {
			return out
		}
		out += one
	}
}

func (p *place) sees(who string, subjects ...string) {
	p.T.Helper()
	got := ""
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		got = p.inbox(who)
		all := strings.Count(got, "\nSubject: ") == len(subjects)
		for _, s := range subjects {
			all = all && strings.Contains(got, "\nSubject: "+s+"\r")
		}
		if all {
			return
		}
	}
	p.T.Fatalf("%s on %s does not see %q alone:\n%s\n%s\n%s", who, p.name, subjects, got,
		p.Doublet("queue", "list"), p.Out)
}

// TestDomain: two servers outside a cluster share one directory. People are on either server, and mail passes in both
// directions, also to a group with members on both; it waits while one server is down. A client at the wrong server is
// redirected to the right one. A client that only claims to be a server of the domain is refused.
func TestDomain(t *testing.T) {
	t.Parallel()
	external.Need(t, "curl")
	path, err := program.Path()
	if err != nil {
		t.Fatal(err)
	}
	one, two := newPlace(t, "one.domain.example"), newPlace(t, "two.domain.example")
	program.Run(t, "secret\n", []string{"DOUBLET_SERVER_NAME=" + one.name}, path, "init", "--data", one.Data,
		"--domain", "domain.example")
	program.Run(t, "secret\n", nil, path, "user", "add", "Anna", "--short", "anna", "--data", one.Data)
	one.serve()
	join := func(token string, more ...string) (string, error) {
		return program.Command(path,
			append(append([]string{"domain", "join", token, "--name", two.name, "--data", two.Data}, two.doors()...),
				more...)...)
	}
	if out, err := join("https://127.0.0.1:"+one.Port["https"], "--user", "admin"); err == nil ||
		!strings.Contains(out, "doublet domain token") {
		t.Errorf("a server joins with a password: %v: %s", err, out)
	}
	token := one.domainToken()
	if out, err := join(token[:len(token)-8]); err == nil || !strings.Contains(out, "doublet domain token") {
		t.Errorf("half a token lets a server in: %v %s", err, out)
	}
	if out, err := join(token); err != nil {
		t.Fatalf("%v: %s\n%s", err, out, one.Out)
	}
	program.Want(t, one.Doublet("domain", "token", "list"), two.name)
	program.Want(t, one.Out.String(), "kind=audit", `verb="domain join"`, "from=127.0.0.1")
	thief := filepath.Join(t.TempDir(), "thief")
	if out, err := program.Command(path, "domain", "join", token, "--name", "thief.example", "--data",
		thief); err == nil || !strings.Contains(out, "was already used: make another with doublet domain token") {
		t.Errorf("a token lets two servers in: %v %s", err, out)
	}
	two.serve()
	program.Run(t, "secret\n", nil, path, "user", "add", "Bert", "--short", "bert", "--data", two.Data)
	one.Doublet("group", "add", "Both", "--address", "both@domain.example")
	until(t, "one knows of Bert", func() bool {
		out, err := program.Command(path, "user", "show", "bert", "--data", one.Data)
		return err == nil && strings.Contains(out, two.name)
	})
	one.Doublet("group", "set", "Both", "--add", "Anna", "--add", "Bert")
	until(t, "two knows the group", func() bool {
		out, err := program.Command(path, "group", "show", "Both", "--data", two.Data)
		return err == nil && strings.Contains(out, "Bert")
	})
	program.Want(t, one.Out.String(), `verb="replica open" by=`+two.name+" from=127.0.0.1 args=Directory")
	program.Want(t, two.Doublet("show", "domain"), one.name, two.name, "smtp 127.0.0.1:"+one.Port["smtp"])

	one.mustSend("anna", "bert@domain.example", "forth")
	two.sees("bert", "forth")
	two.mustSend("bert", "anna@domain.example", "back")
	one.sees("anna", "back")
	program.Want(t, two.inbox("bert"), "Return-Path: <anna@domain.example>", "by "+one.name, "by "+two.name)
	two.mustSend("bert", "both@domain.example", "group")
	one.sees("anna", "back", "group")
	two.sees("bert", "forth", "group")

	for _, p := range []struct {
		at    *place
		who   string
		right *place
	}{{one, "bert", two}, {two, "anna", one}} {
		out, _ := program.Command("curl", "-sS", "-v", "-m", "20", "-u", p.who+":secret",
			"imap://127.0.0.1:"+p.at.Port["imap"]+"/INBOX")
		program.Want(t, out, fmt.Sprintf("[REFERRAL imap://%s@127.0.0.1:%s/]", p.who, p.right.Port["imap"]))
		out, _ = program.Command("curl", "-sS", "-v", "-m", "20", "-u", p.who+":wrong",
			"imap://127.0.0.1:"+p.at.Port["imap"]+"/INBOX")
		program.Want(t, out, "AUTHENTICATIONFAILED")
		if strings.Contains(out, "[REFERRAL") {
			t.Errorf("who has not the password is told where the mail is: %s", out)
		}
		out, _ = program.Command("curl", "-sS", "-v", "-m", "20", "-u", p.who+":secret",
			"pop3://127.0.0.1:"+p.at.Port["pop3"]+"/")
		program.Want(t, out, "[AUTH]", p.right.name)
		out, _ = p.at.send(p.who, "anna@domain.example", "wrong-door")
		program.Want(t, out, "535 5.7.8", p.right.name)
		out, _ = program.Command("curl", "-sSk", "-m", "20", "-u", p.who+":secret",
			"https://127.0.0.1:"+p.at.Port["https"]+"/jmap/session")
		program.Want(t, out, "elsewhere", "https://127.0.0.1:"+p.right.Port["https"])
		if list := p.at.Doublet("db", "list"); strings.Contains(strings.ToLower(list), p.who) {
			t.Errorf("%s made a mail file for %s:\n%s", p.at.name, p.who, list)
		}
	}

	two.occupied("bert")
	if got := one.freeTime("anna", "bert"); !strings.Contains(got, "2.0;Success") ||
		!strings.Contains(got, "FREEBUSY;FBTYPE=BUSY:20270303T100000Z/20270303T110000Z") {
		t.Errorf("Bert's free time at the other server: %s\n%s", got, one.Out)
	}

	two.Stop(syscall.SIGKILL)
	if got := one.freeTime("anna", "bert"); !strings.Contains(got, "5.1;") || strings.Contains(got, "VFREEBUSY") {
		t.Errorf("Bert's free time without his server: %s", got)
	}
	one.mustSend("anna", "both@domain.example", "away")
	one.sees("anna", "back", "group", "away")
	program.Want(t, one.Doublet("queue", "list"), "anna@domain.example")
	two.serve()
	two.sees("bert", "forth", "group", "away")

	// Bert moves, and Anna's mail follows him. The copy on the other server is of no further use.
	if out, err := program.Command(path, "user", "move", "bert", "--data", two.Data); err == nil ||
		!strings.Contains(out, "at this place") {
		t.Errorf("%v: %s", err, out)
	}
	program.Want(t, one.Doublet("user", "move", "bert"), "two.domain.example", "one.domain.example", "db remove")
	one.sees("bert", "forth", "group", "away")
	one.mustSend("anna", "bert@domain.example", "moved")
	one.sees("bert", "forth", "group", "away", "moved")
	if out, _ := program.Command("curl", "-sS", "-v", "-m", "20", "-u", "bert:secret", "imap://127.0.0.1:"+
		two.Port["imap"]+"/INBOX"); !strings.Contains(out, "REFERRAL imap://bert@127.0.0.1:"+one.Port["imap"]) {
		t.Errorf("the old place does not know: %s", out)
	}
	if out, err := two.send("bert", "anna@domain.example", "old-door"); err == nil {
		t.Errorf("the old place takes his mail: %s", out)
	}
	two.Doublet("db", "remove", "Bert")

	outsider(t, one.Port["smtp"])
	for _, p := range []*place{one, two} {
		p.Stop(syscall.SIGTERM)
		if out, err := program.Command(path, "check", "--data", p.Data); err != nil {
			t.Errorf("check: %v\n%s", err, out)
		}
	}
}

// TestDomainCluster: a server of a domain founds a cluster, which then counts as one place. When the server dies, any
// other member accepts mail for its people and keeps the directory up to date.
func TestDomainCluster(t *testing.T) {
	t.Parallel()
	external.Need(t, "curl")
	path, err := program.Path()
	if err != nil {
		t.Fatal(err)
	}
	one, two, three := newPlace(t, "one.domain.example"), newPlace(t, "two.domain.example"), newPlace(t,
		"three.domain.example")
	mates := func() []string {
		p := program.FreePorts(t, 2)
		return []string{"--direct", "127.0.0.1:" + p[0], "--routes", "127.0.0.1:" + p[1], "--advertise", "127.0.0.1"}
	}
	program.Run(t, "secret\n", []string{"DOUBLET_SERVER_NAME=" + one.name}, path, "init", "--data", one.Data,
		"--domain", "domain.example")
	program.Run(t, "secret\n", nil, path, "user", "add", "Anna", "--short", "anna", "--data", one.Data)
	one.serve()
	join := []string{"domain", "join", one.domainToken(), "--name", two.name, "--data", two.Data}
	program.Run(t, "", nil, path, append(append(join, two.doors()...), mates()...)...)
	two.serve()
	program.Run(t, "secret\n", nil, path, "user", "add", "Bert", "--short", "bert", "--data", two.Data)
	two.Doublet("cluster", "init", "Pair")
	token := strings.Fields(two.Doublet("cluster", "token"))[1]
	program.Run(t, "", []string{"DOUBLET_SERVER_NAME=" + three.name}, path,
		append([]string{"cluster", "join", token, "--name", three.name, "--data", three.Data}, mates()...)...)
	three.serve()
	until(t, "one knows both members, and that Bert is theirs", func() bool {
		out, err := program.Command(path, "show", "domain", "--data", one.Data)
		bert, err2 := program.Command(path, "user", "show", "bert", "--data", one.Data)
		return err == nil && err2 == nil && strings.Contains(out, "smtp 127.0.0.1:"+three.Port["smtp"]) &&
			strings.Contains(bert, "Pair")
	})
	one.mustSend("anna", "bert@domain.example", "first")
	three.sees("bert", "first")
	two.Stop(syscall.SIGKILL)
	one.mustSend("anna", "bert@domain.example", "second")
	three.sees("bert", "first", "second")
	one.Doublet("user", "add", "Dora", "--password", "secret")
	until(t, "three has the directory without two", func() bool {
		_, err := program.Command(path, "user", "show", "dora", "--data", three.Data)
		return err == nil
	})
	three.mustSend("bert", "anna@domain.example", "back")
	one.sees("anna", "back")
}

// outsider connects to a mail door as servers of the domain do, with a key that is in no server document.
func outsider(t *testing.T, port string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := net.DialTimeout("tcp", "127.0.0.1:"+port, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	_ = plain.SetDeadline(time.Now().Add(20 * time.Second))
	var conn net.Conn = plain
	in := bufio.NewReader(conn)
	say := func(line string) (reply string) {
		if line != "" {
			fmt.Fprintf(conn, "%s\r\n", line)
		}
		for {
			one, err := in.ReadString('\n')
			if reply += one; err != nil || len(one) < 4 || one[3] == ' ' {
				return reply
			}
		}
	}
	say("")
	say("EHLO two.domain.example")
	say("STARTTLS")
	conn = tls.Client(plain, &tls.Config{
		ServerName: "server.domain.doublet.internal", InsecureSkipVerify: true,
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
	})
	in = bufio.NewReader(conn)
	if hello := say("EHLO two.domain.example"); !strings.HasPrefix(hello, "250") ||
		strings.Contains(hello, "XDOUBLET") {
		t.Errorf("EHLO of an outsider: %s", hello)
	}
	if reply := say("MAIL FROM:<anna@domain.example> XDOUBLET=00000000000000000000000000000001"); !strings.HasPrefix(
		reply, "555") {
		t.Errorf("MAIL of an outsider: %s", reply)
	}
	say("MAIL FROM:<anna@domain.example>")
	if reply := say("RCPT TO:<anna@domain.example> XDOUBLET=p-00000000000000000000000000000001"); !strings.HasPrefix(
		reply, "555") {
		t.Errorf("RCPT of an outsider: %s", reply)
	}
	if reply := say("RCPT TO:<x@elsewhere.example>"); !strings.HasPrefix(reply, "550 5.7.1") {
		t.Errorf("an outsider sends on: %s", reply)
	}
}
