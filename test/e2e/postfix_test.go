package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	client "doublet/client/smtp"
	"doublet/env"
	"doublet/test/external"
	"doublet/test/program"
	"doublet/wire/sasl"
	"doublet/wire/smtp"
)

// postfix is a running Postfix: its domain is provider.example, and it delivers into maildirs.
type postfix struct {
	t    *testing.T
	dir  string
	port string
}

// startPostfix starts a Postfix that sends mail for example.com to the SMTP door of s.
func startPostfix(t *testing.T, s *server) *postfix {
	t.Helper()
	if os.Geteuid() != 0 {
		external.Missing(t, "root", "Postfix starts as root only")
	}
	owner, err := user.Lookup("postfix")
	if err != nil {
		t.Skip("no user postfix")
	}
	dir, err := os.MkdirTemp("", "postfix")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	p := &postfix{t: t, dir: dir, port: program.FreePorts(t, 1)[0]}
	for _, d := range []string{"conf", "spool", "data", "mail"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	program.Run(t, "", nil, "chmod", "755", dir)
	program.Run(t, "", nil, "chown", "postfix", filepath.Join(dir, "data"), filepath.Join(dir, "mail"))
	p.certificate()
	main := fmt.Sprintf(`compatibility_level = 3.6
queue_directory = %[1]s/spool
data_directory = %[1]s/data
command_directory = /usr/sbin
daemon_directory = /usr/lib/postfix/sbin
mail_owner = postfix
setgid_group = postdrop
myhostname = mail.provider.example
mydestination =
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
mynetworks = 127.0.0.0/8
maillog_file = %[1]s/mail.log
maillog_file_prefixes = %[1]s
alias_maps =
alias_database =
disable_dns_lookups = yes
smtp_host_lookup = native
smtpd_relay_restrictions = permit_mynetworks, reject_unauth_destination
virtual_mailbox_domains = provider.example
virtual_mailbox_base = %[1]s/mail
virtual_mailbox_maps = inline:{ peter@provider.example=peter/ paula@provider.example=paula/ }
virtual_uid_maps = static:%[2]s
virtual_gid_maps = static:%[3]s
virtual_minimum_uid = 1
transport_maps = inline:{ example.com=smtp:[127.0.0.1]:%[4]s }
smtpd_tls_security_level = may
smtpd_tls_cert_file = %[1]s/cert.pem
smtpd_tls_key_file = %[1]s/key.pem
smtpd_tls_received_header = yes
smtp_tls_security_level = encrypt
message_size_limit = 200000
virtual_mailbox_limit = 0
minimal_backoff_time = 1s
`, dir, owner.Uid, owner.Gid, s.Port["smtp"])
	p.write("conf/main.cf", main)
	master, err := os.ReadFile("/usr/share/postfix/master.cf.dist")
	if err != nil {
		t.Skip(err)
	}
	text := regexp.MustCompile(`(?m)^smtp      inet  n       -       y`).ReplaceAllString(string(master),
		"127.0.0.1:"+p.port+" inet  n       -       n")
	text = regexp.MustCompile(`(?m)^([a-z]+ +(?:unix|fifo) +[-ny] +[-ny] +)y `).ReplaceAllString(text, "${1}n ")
	p.write("conf/master.cf", text)
	program.Run(t, "", nil, "postfix", "-c", dir+"/conf", "start")
	t.Cleanup(func() {
		_ = exec.Command("postfix", "-c", dir+"/conf", "stop").Run()
		if t.Failed() {
			log, _ := os.ReadFile(dir + "/mail.log")
			t.Logf("Postfix:\n%s", log)
		}
	})
	return p
}

func (p *postfix) write(name, text string) {
	p.t.Helper()
	if err := os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o644); err != nil {
		p.t.Fatal(err)
	}
}

func (p *postfix) certificate() {
	p.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		p.t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "mail.provider.example"},
		DNSNames:  []string{"mail.provider.example"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		p.t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		p.t.Fatal(err)
	}
	p.write("cert.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	p.write("key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})))
}

// mail waits for a message of a user that contains a text.
func (p *postfix) mail(user, text string) string {
	p.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		files, _ := filepath.Glob(filepath.Join(p.dir, "mail", user, "new", "*"))
		for _, f := range files {
			if b, err := os.ReadFile(f); err == nil && strings.Contains(string(b), text) {
				return string(b)
			}
		}
	}
	p.t.Fatalf("%s got no message with %q", user, text)
	return ""
}

// submit sends a message through a door and requests a report of success.
func submit(t *testing.T, port, account, from, to, subject string, size int) {
	t.Helper()
	c, err := client.Dial(env.Real(slog.New(slog.DiscardHandler)), "tcp", "127.0.0.1:"+port,
		client.Options{Timeout: 30 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	steps := []func() error{func() error { return c.Hello("client.example") }}
	if account != "" {
		steps = append(steps, func() error { return c.StartTLS(&tls.Config{InsecureSkipVerify: true}) },
			func() error {
				return c.Hello("client.example")
			}, func() error { return c.Auth(sasl.NewPlainClient("", account, "demo")) })
	}
	for _, step := range steps {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	path := func(s string) smtp.Path {
		p, err := smtp.ParsePath(s)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	res, err := c.Deliver(&client.Outgoing{
		From: path(from), Params: smtp.MailParams{Size: -1, EnvID: "env-" + account, Ret: smtp.RetHeaders},
		To:         []smtp.Path{path(to)},
		RcptParams: []smtp.RcptParams{{Notify: smtp.NotifySuccess | smtp.NotifyFailure, ORcpt: "rfc822;" + to}},
		Message: []byte("From: " + from + "\r\nTo: " + to + "\r\nSubject: " + subject +
			"\r\nDate: Mon, 5 Jan 2026 09:00:00 +0000\r\nMessage-ID: <" +
			strings.ReplaceAll(subject, " ", ".") + "@test.example>\r\n\r\nHello.\r\n.dot\r\n" +
			strings.Repeat("a line of the message\r\n", size/23)),
	})
	if err != nil || !res.Accepted(0) {
		t.Fatalf("%v %+v", err, res)
	}
}

// until waits for a message in a person's INBOX of this server.
func (s *server) until(t *testing.T, user, subject string) string {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		out := program.Run(t, "", nil, "curl", "-s", s.imapURL("INBOX"), "-u", user+":demo", "-X",
			"UID SEARCH SUBJECT \""+subject+"\"")
		if len(strings.Fields(out)) >= 3 {
			return s.body(t, user, subject)
		}
	}
	t.Fatalf("%s got no message with subject %q\n%s", user, subject, s.Out)
	return ""
}

// TestPostfix exchanges mail with a Postfix in both directions, with TLS and delivery reports.
func TestPostfix(t *testing.T) {
	external.Need(t, "postfix", "curl")
	t.Setenv("DOUBLET_ROUTER_SEND", "true")
	s := demo(t)
	p := startPostfix(t, s)
	program.Want(t, s.Doublet("route", "add", "provider.example", "--host", "127.0.0.1:"+p.port, "--tls", "encrypt"),
		"provider.example")

	// We send; Postfix delivers and reports it.
	submit(t, s.Port["submission"], "alice", "alice@example.com", "peter@provider.example", "to the provider", 0)
	got := p.mail("peter", "Subject: to the provider")
	program.Want(t, got, "\n.dot\n", "Return-Path: <alice@example.com>", "with ESMTPS", "TLSv1.3",
		"X-Original-To: peter@provider.example")
	if strings.Count(got, "Return-Path:") != 1 {
		t.Errorf("our Return-Path left the server:\n%s", got)
	}
	report := s.until(t, "alice", "Successful Mail Delivery Report")
	program.Want(t, report, "Reporting-MTA: dns; mail.provider.example", "Action: delivered",
		"Original-Envelope-Id: env-alice", "peter@provider.example")
	trace := s.Doublet("trace", "peter@provider.example")
	program.Want(t, trace, "sent", "127.0.0.1[127.0.0.1]", "250 2.0.0", "<to.the.provider@test.example>")

	// An unknown user and a message that is too large: we send the report, with Postfix's reply.
	submit(t, s.Port["submission"], "alice", "alice@example.com", "nobody@provider.example", "to nobody", 0)
	program.Want(t, s.until(t, "alice", "Delivery failure"), "Action: failed", "Status: 5.1.1",
		"Remote-MTA: dns; 127.0.0.1", "nobody@provider.example", "Original-Envelope-Id: env-alice")
	submit(t, s.Port["submission"], "bob", "bob@example.com", "paula@provider.example", "too large", 300_000)
	program.Want(t, s.until(t, "bob", "Delivery failure"), "Status: 5.3.4")

	// Postfix sends; we deliver and report it.
	submit(t, p.port, "", "paula@provider.example", "carol@example.com", "from the provider", 0)
	got = s.until(t, "carol", "from the provider")
	program.Want(t, got, "\r\n.dot\r\n", "Return-Path: <paula@provider.example>", "mail.provider.example")
	if !regexp.MustCompile(`using TLS ?1\.3`).MatchString(got) {
		t.Errorf("Postfix did not use TLS:\n%s", got)
	}
	report = p.mail("paula", "Action: delivered")
	program.Want(t, report, "Final-Recipient: rfc822;carol@example.com", "Original-Envelope-Id: env-",
		"Return-Path: <>")

	// Postfix is unreachable: the message waits, and is sent when an administrator requests it.
	program.Run(t, "", nil, "postfix", "-c", p.dir+"/conf", "stop")
	submit(t, s.Port["submission"], "alice", "alice@example.com", "peter@provider.example", "while you were away", 0)
	var list string
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if list = s.Doublet("show", "queue", "--by-destination"); strings.Contains(list, "refused") {
			break
		}
	}
	program.Want(t, list, "127.0.0.1:"+p.port, "refused")
	program.Run(t, "", nil, "postfix", "-c", p.dir+"/conf", "start")
	id := regexp.MustCompile(`[0-9a-f]{32}`).FindString(s.Doublet("queue", "list", "--domain", "provider.example"))
	s.Doublet("queue", "retry", id)
	p.mail("peter", "Subject: while you were away")
}
