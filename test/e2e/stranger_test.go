package e2e

import (
	"bytes"
	"crypto/ed25519"
	"net"
	"net/textproto"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"doublet/client/dns/zone"
	"doublet/test/long"
	"doublet/test/program"
	"doublet/wire/dkim"
)

// TestStrangers checks that the running server verifies mail from elsewhere, with a stub zone. The clients connect
// through a load balancer, so that each has an address of its own.
func TestStrangers(t *testing.T) {
	long.Test(t)
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{5}, ed25519.SeedSize))
	record, err := dkim.Record(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	z := zone.Start(t, `bank.example. TXT "v=spf1 ip4:192.0.2.1 -all"
_dmarc.bank.example. TXT "v=DMARC1; p=reject"
k._domainkey.bank.example. TXT "`+record+`"
quiet.example. TXT "v=spf1 -all"
_dmarc.quiet.example. TXT "v=DMARC1; p=quarantine"
7.2.0.192.list.example. A 127.0.0.2
7.2.0.192.list.example. TXT "listed for a test"
`)
	s := &server{&program.Server{T: t, Data: filepath.Join(t.TempDir(), "data"), Port: map[string]string{}}}
	for i, p := range program.FreePorts(t, len(program.Doors)) {
		s.Port[program.Doors[i]] = p
	}
	s.startBehindBalancer(z, "DOUBLET_VERIFY_BLOCKLISTS=list.example")

	letter := []byte("From: Bank <desk@bank.example>\r\nTo: alice@example.com\r\nSubject: your account\r\n" +
		"Authentication-Results: localhost; dmarc=pass header.from=bank.example\r\n\r\nHello.\r\n")
	head, err := dkim.New(letter).AppendSignatures(nil,
		[]dkim.Signer{{Domain: "bank.example", Selector: "k", Key: key}}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	signed := string(head) + string(letter)
	quiet := strings.ReplaceAll(string(letter), "bank.example", "quiet.example")
	for _, c := range []struct{ name, ip, from, to, message, want string }{
		{"SPF proves", "192.0.2.1", "desk@bank.example", "alice@example.com", string(letter), "250"},
		{"forged", "192.0.2.9", "desk@bank.example", "alice@example.com", string(letter),
			"550 5.7.1 Rejected by the DMARC policy of bank.example"},
		{"DKIM proves", "192.0.2.9", "list@lists.example", "alice@example.com", signed, "250"},
		{"changed on the way", "192.0.2.9", "list@lists.example", "alice@example.com",
			strings.Replace(signed, "Hello.", "Hallo.", 1), "550 5.7.1"},
		{"quarantined", "192.0.2.9", "x@quiet.example", "alice@example.com", quiet, "250"},
		{"listed", "192.0.2.7", "x@quiet.example", "alice@example.com", quiet,
			"554 5.7.1 Blocked: 192.0.2.7 is listed by list.example; listed for a test"},
		{"listed, to postmaster", "192.0.2.7", "x@bank.example", "postmaster@example.com", signed, "250"},
	} {
		if got := s.stranger(c.ip, c.from, c.to, c.message); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	out := filepath.Join(t.TempDir(), "alice")
	s.Doublet("export", "alice", out)
	stored := program.Run(t, "", nil, "cat", filepath.Join(out, "INBOX.mbox"))
	program.Want(t, stored, "Authentication-Results: localhost;\n\tspf=pass smtp.mailfrom=bank.example;",
		"dkim=pass header.d=bank.example header.s=k", "dmarc=pass (p=reject applied=none) header.from=bank.example")
	if strings.Contains(stored, "\nAuthentication-Results: localhost; dmarc=pass") {
		t.Error("the forged field is still there")
	}
	program.Want(t, program.Run(t, "", nil, "cat", filepath.Join(out, "Junk.mbox")),
		"dmarc=fail (p=quarantine applied=quarantine) header.from=quiet.example")
}

// startBehindBalancer starts the demo for clients that come through a load balancer, which names their addresses, and
// with a zone as its DNS.
func (s *server) startBehindBalancer(z *zone.Server, env ...string) {
	s.T.Helper()
	args := []string{"demo", "--data", s.Data}
	for _, d := range program.Doors {
		args = append(args, "--"+d, "127.0.0.1:"+s.Port[d])
	}
	path, err := program.Path()
	if err != nil {
		s.T.Fatal(err)
	}
	s.Out = &program.Output{}
	s.Cmd = exec.Command(path, args...)
	s.Cmd.Env = append(append(os.Environ(), "DOUBLET_DNS_SERVERS="+z.Addr(), "DOUBLET_SERVER_PROXIES=127.0.0.1"),
		env...)
	s.Cmd.Stdout, s.Cmd.Stderr = s.Out, s.Out
	if err := s.Cmd.Start(); err != nil {
		s.T.Fatal(err)
	}
	s.T.Cleanup(func() { s.Stop(syscall.SIGKILL) })
}

// stranger sends a message from an address, and returns the first refusal or the last reply.
func (s *server) stranger(ip, from, to, message string) string {
	s.T.Helper()
	var conn net.Conn
	var text *textproto.Conn
	line := ""
	for until := time.Now().Add(60 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		var err error
		if conn, err = net.DialTimeout("tcp", "127.0.0.1:"+s.Port["smtp"], time.Second); err == nil {
			_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
			text = textproto.NewConn(conn)
			_ = text.PrintfLine("PROXY TCP4 %s 127.0.0.1 40000 25", ip)
			if line, err = text.ReadLine(); err == nil {
				break
			}
			conn.Close()
		}
		if time.Now().After(until) {
			s.T.Fatalf("no greeting: %v\n%s", err, s.Out)
		}
	}
	defer conn.Close()
	for _, command := range []string{"HELO client.example", "MAIL FROM:<" + from + ">", "RCPT TO:<" + to + ">", "DATA",
		strings.TrimSuffix(message, "\r\n") + "\r\n."} {
		if line[0] != '2' && line[0] != '3' {
			return line
		}
		_ = text.PrintfLine("%s", command)
		var err error
		if line, err = text.ReadLine(); err != nil {
			s.T.Fatalf("%.30s: %v", command, err)
		}
	}
	return line
}
