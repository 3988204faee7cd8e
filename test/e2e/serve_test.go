package e2e

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	web "net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"doublet/test/program"
)

// serving returns a server that was created by init and is run by serve, as by an administrator.
func serving(t *testing.T, port map[string]string, environ ...string) *server {
	t.Helper()
	path, err := program.Path()
	if err != nil {
		t.Fatal(err)
	}
	s := &server{&program.Server{T: t, Data: filepath.Join(t.TempDir(), "data"), Port: port, Out: &program.Output{}}}
	environ = append(environ, "DOUBLET_SERVER_NAME=mx.example.org", "DOUBLET_STORE_SPACE_FLOOR=0B",
		"DOUBLET_STORE_SPACE_FLOOR_PERCENT=0")
	program.Run(t, "secret\n", environ, path, "init", "--data", s.Data, "--domain", "example.org")
	args := []string{"serve", "--data", s.Data}
	for _, d := range program.Doors {
		at := "off"
		if p := port[d]; p != "" {
			at = "127.0.0.1:" + p
		}
		args = append(args, "--"+d, at)
	}
	args = append(args, "--submissions", "off")
	s.Cmd = exec.Command(path, args...)
	s.Cmd.Env = append(s.Cmd.Environ(), environ...)
	s.Cmd.Stdout, s.Cmd.Stderr = s.Out, s.Out
	if err := s.Cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Stop(syscall.SIGKILL) })
	return s
}

// TestServeACME checks that a server with an ACME authority obtains valid certificates for all doors by itself, and
// publishes its MTA-STS policy under one of them.
func TestServeACME(t *testing.T) {
	t.Parallel()
	a := pebble(t)
	port := map[string]string{"http": a.http, "https": a.tls}
	for i, p := range program.FreePorts(t, 3) {
		port[[]string{"imap", "imaps", "smtp"}[i]] = p
	}
	s := serving(t, port, "DOUBLET_ACME_ENABLED=true", "DOUBLET_ACME_DIRECTORY="+a.directory,
		"DOUBLET_ACME_ROOT="+a.root, "DOUBLET_ACME_EMAIL=hostmaster@example.org",
		"DOUBLET_DNS_SERVERS="+a.resolver, "DOUBLET_WEB_MTA_STS=enforce")
	s.Await("imap")
	roots := a.issuer()
	dial := func(door, name string) error {
		c, err := tls.Dial("tcp", "127.0.0.1:"+port[door], &tls.Config{ServerName: name, RootCAs: roots})
		if err == nil {
			c.Close()
		}
		return err
	}
	names := []string{"mx.example.org", "mta-sts.example.org", "autoconfig.example.org", "autodiscover.example.org"}
	deadline := time.Now().Add(90 * time.Second)
	for _, n := range names {
		for err := dial("imaps", n); err != nil; err = dial("imaps", n) {
			if time.Now().After(deadline) {
				t.Fatalf("%s: %v\n%s", n, err, s.Out)
			}
			time.Sleep(50 * time.Millisecond)
		}
		if err := dial("https", n); err != nil {
			t.Errorf("https for %s: %v", n, err)
		}
	}
	get := func(host, path string) (*web.Response, string) {
		c := &web.Client{Timeout: 10 * time.Second, Transport: &web.Transport{
			ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: roots},
			DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, network, "127.0.0.1:"+a.tls)
			},
		}}
		r, err := c.Get("https://" + host + path)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		return r, string(body)
	}
	r, policy := get("mta-sts.example.org", "/.well-known/mta-sts.txt")
	if r.StatusCode != 200 || !strings.Contains(policy, "mode: enforce\r\nmx: mx.example.org\r\n") ||
		r.Header.Get("Strict-Transport-Security") == "" || r.Proto != "HTTP/2.0" {
		t.Errorf("%s %v %s", r.Proto, r.Header, policy)
	}
	if _, config := get("autoconfig.example.org",
		"/mail/config-v1.1.xml?emailaddress=admin@example.org"); !strings.Contains(config,
		"<port>"+port["imaps"]+"</port>") {
		t.Errorf("autoconfig: %s", config)
	}
	program.Want(t, s.Doublet("certificate", "show"), "acme", "mx.example.org", "autodiscover.example.org")
	program.Want(t, s.Doublet("health"), "ok")
	before := leaf(t, a, "mx.example.org")
	s.Doublet("certificate", "renew", "mx.example.org")
	if after := leaf(t, a, "mx.example.org"); after.Equal(before) ||
		string(after.RawSubjectPublicKeyInfo) != string(before.RawSubjectPublicKeyInfo) {
		t.Error("certificate renew: the same certificate, or another key")
	}
}

// TestServeBehindProxy checks that the client address from a load balancer applies at the doors of mail and HTTP, and
// that connections without one are closed.
func TestServeBehindProxy(t *testing.T) {
	t.Parallel()
	ports := program.FreePorts(t, 3)
	port := map[string]string{"smtp": ports[0], "http": ports[1], "imaps": ports[2]}
	s := serving(t, port, "DOUBLET_SERVER_PROXIES=127.0.0.0/8", "DOUBLET_DNS_SERVERS=127.0.0.1:1",
		"DOUBLET_LIMITS_CONNECTIONS_PER_ADDRESS=1")
	open := func(door, header string) net.Conn {
		t.Helper()
		for deadline := time.Now().Add(60 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			c, err := net.DialTimeout("tcp", "127.0.0.1:"+port[door], time.Second)
			if err == nil {
				t.Cleanup(func() { c.Close() })
				_ = c.SetDeadline(time.Now().Add(20 * time.Second))
				if _, err := io.WriteString(c, header); err != nil {
					t.Fatal(err)
				}
				return c
			}
			if time.Now().After(deadline) {
				t.Fatalf("%v\n%s", err, s.Out)
			}
		}
	}
	answer := func(c net.Conn) string {
		b := make([]byte, 4096)
		n, _ := c.Read(b)
		return string(b[:n])
	}
	const header = "PROXY TCP4 192.0.2.77 198.51.100.1 4711 25\r\n"
	first := open("smtp", header)
	program.Want(t, answer(first), "220 mx.example.org")
	if _, err := io.WriteString(first, "EHLO there.example\r\n"); err != nil {
		t.Fatal(err)
	}
	program.Want(t, answer(first), "250-mx.example.org", "CHUNKING")
	program.Want(t, answer(open("smtp", header)), "421")                                 // the client's second one
	program.Want(t, answer(open("smtp", strings.Replace(header, "77", "78", 1))), "220") // another client
	if got := answer(open("smtp", "EHLO there.example\r\n")); got != "" {
		t.Errorf("without a header: %q", got)
	}
	// No client behind the load balancer is local, so none sees the statistics.
	c := open("http", strings.Replace(header, "77", "79", 1)+"GET /metrics HTTP/1.1\r\nHost: mx\r\n\r\n")
	program.Want(t, answer(c), "404")
	secure := tls.Client(open("imaps", strings.Replace(header, "77", "80", 1)), &tls.Config{InsecureSkipVerify: true})
	b := make([]byte, 4)
	if _, err := io.ReadFull(secure, b); err != nil || string(b) != "* OK" {
		t.Errorf("imaps: %q %v", b, err)
	}
}
