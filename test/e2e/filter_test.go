package e2e

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"doublet/client/smtp"
	"doublet/env"
	"doublet/test/external"
	"doublet/test/program"
	wire "doublet/wire/smtp"
)

// background runs a program until the test ends, and waits until it accepts connections at a port.
func background(t *testing.T, port, name string, args ...string) *program.Output {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	out := &program.Output{}
	c := exec.CommandContext(ctx, name, args...)
	c.Stdout, c.Stderr = out, out
	// SIGINT lets it end its workers, which hold its output open.
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	c.WaitDelay = 5 * time.Second
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = c.Wait()
	})
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		nc, err := net.DialTimeout("tcp", "127.0.0.1:"+port, time.Second)
		if err == nil {
			nc.Close()
			return out
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s does not answer: %v\n%s", name, err, out)
		}
	}
}

// filtered starts a demo whose configuration has a section [filter].
func filtered(t *testing.T, settings string) *server {
	t.Helper()
	s := &server{&program.Server{T: t, Data: filepath.Join(t.TempDir(), "data"), Port: map[string]string{}}}
	for i, p := range program.FreePorts(t, len(program.Doors)) {
		s.Port[program.Doors[i]] = p
	}
	if err := os.MkdirAll(s.Data, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.Data, "doublet.toml"), []byte("[filter]\n"+settings), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Start()
	return s
}

func (s *server) mailIn(from, to, message string) error {
	c, err := smtp.Dial(env.Real(slog.New(slog.DiscardHandler)), "tcp", "127.0.0.1:"+s.Port["smtp"],
		smtp.Options{Timeout: time.Minute})
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.Hello("client.example"); err != nil {
		return err
	}
	sender, err := wire.ParsePath(from)
	if err != nil {
		return err
	}
	recipient, err := wire.ParsePath(to)
	if err != nil {
		return err
	}
	res, err := c.Deliver(&smtp.Outgoing{From: sender, To: []wire.Path{recipient}, Message: []byte(message)})
	if err == nil && !res.Accepted(0) {
		err = res.Final[0]
	}
	return err
}

// TestOpenDKIM: one opendkim signs as a milter, and a second one, called after it, verifies the signature. So the
// second one receives exactly the changes of the first one and every other byte.
func TestOpenDKIM(t *testing.T) {
	t.Parallel()
	binary := external.Need(t, "opendkim", "curl")[0]
	dir := t.TempDir()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	private := write("key.pem",
		string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})))
	keys := write("keys", "s1._domainkey.far.example v=DKIM1; k=rsa; p="+base64.StdEncoding.EncodeToString(public)+"\n")
	ports := program.FreePorts(t, 2)
	whole := "Canonicalization simple/simple\nSyslog no\nRequireSafeKeys no\n"
	signer := write("sign.conf", whole+"Mode s\nDomain far.example\nSelector s1\nKeyFile "+private+"\nSocket inet:"+
		ports[0]+"@127.0.0.1\n")
	verifier := write("verify.conf", whole+"Mode v\nAuthservID checker.example\nAlwaysAddARHeader yes\nInternalHosts "+
		write("none", "192.0.2.1\n")+
		"\nTestPublicKeys "+keys+"\nSocket inet:"+ports[1]+"@127.0.0.1\n")
	background(t, ports[0], binary, "-f", "-x", signer)
	background(t, ports[1], binary, "-f", "-x", verifier)
	s := filtered(t, fmt.Sprintf("milters = %q\n", "inet:"+ports[0]+"@127.0.0.1 127.0.0.1:"+ports[1]))
	message := "From: Eve <eve@far.example>\r\nTo:  alice@example.com\r\nSubject: a  folded\r\n\tsubject\r\n" +
		"X-Empty:\r\nDate: Mon, 5 Jan 2026 08:00:00 +0000\r\nMessage-ID: <1@far.example>\r\n\r\n" +
		" leading\r\n.dot\r\n\r\n" + strings.Repeat("0123456789\r\n", 20_000) + "\r\n"
	if err := s.mailIn("eve@far.example", "alice@example.com", message); err != nil {
		t.Fatalf("%v\n%s", err, s.Out)
	}
	got := s.body(t, "alice", "folded")
	if !strings.Contains(got, "DKIM-Signature: v=1; a=rsa-sha256; c=simple/simple; d=far.example; s=s1;") {
		t.Errorf("no signature in\n%.1500s", got)
	}
	if _, results, _ := strings.Cut(got,
		"Authentication-Results: checker.example"); !strings.Contains(results[:min(len(results), 300)], "dkim=pass") {
		t.Errorf("no pass in\n%.1500s", got)
	}
}

// TestRspamd checks that mail that a real rspamd classifies as spam is rejected, or marked and put into Junk.
func TestRspamd(t *testing.T) {
	t.Parallel()
	binary := external.Need(t, "rspamd", "curl")[0]
	dir := t.TempDir()
	port := program.FreePorts(t, 1)[0]
	conf := filepath.Join(dir, "rspamd.conf")
	text := fmt.Sprintf(`options { pidfile = "%[1]s/pid"; control_socket = "%[1]s/sock mode=0600"; filters = "";
	url_tld = "/dev/null"; enable_test_patterns = true; dns { nameserver = ["127.0.0.1:1"]; timeout = 0.1s;
	retransmits = 1; } }
logging { type = "console"; level = "warning"; }
actions { reject = 15; add_header = 6; greylist = 4; }
worker "normal" { bind_socket = "127.0.0.1:%[2]s"; count = 1; }
`, dir, port)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	background(t, port, binary, "-f", "-i", "-c", conf)
	s := filtered(t, fmt.Sprintf("rspamd = %q\nrspamd_fail = \"tempfail\"\n", "http://127.0.0.1:"+port))
	mail := func(subject, body string) error {
		return s.mailIn("eve@far.example", "alice@example.com",
			"From: eve@far.example\r\nTo: alice@example.com\r\nSubject: "+subject+"\r\n\r\n"+body+"\r\n")
	}
	if err := mail("harmless", "Hello."); err != nil {
		t.Fatalf("%v\n%s", err, s.Out)
	}
	s.body(t, "alice", "harmless")
	// The test patterns of rspamd for each of its verdicts.
	err := mail("worst", "XJS*C4JDBQADN1.NSBN3*2IDNEN*GTUBE-STANDARD-ANTI-UBE-TEST-EMAIL*C.34X")
	if err == nil || !strings.Contains(err.Error(), "554 5.7.1 Gtube pattern") {
		t.Errorf("spam: %v", err)
	}
	if err := mail("doubtful", "YJS*C4JDBQADN1.NSBN3*2IDNEN*GTUBE-STANDARD-ANTI-UBE-TEST-EMAIL*C.34X"); err != nil {
		t.Errorf("doubtful: %v", err)
	}
	found := strings.Fields(program.Run(t, "", nil, "curl", "-s", s.imapURL("Junk"), "-u", "alice:demo", "-X",
		`UID SEARCH SUBJECT "doubtful"`))
	if len(found) != 3 {
		t.Fatalf("not one message in Junk: %v", found)
	}
	out := program.Run(t, "", nil, "curl", "-s", s.imapURL("Junk;UID="+found[2]), "-u", "alice:demo")
	program.Want(t, out, "Subject: doubtful", "X-Spam: Yes")
}
