// Package lab carries out the instructions of doc/operate.md on a simulated Internet: two hosts in network namespaces,
// a stub DNS zone, Debian's pebble as certificate authority, and Postfix with rspamd and opendkim as the mail provider
// at the other end.
package lab

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"doublet/client/dns/zone"
	"doublet/test/netns"
)

// Addresses: DNS and the authority, the host of the town, the provider.
const (
	netAddress      = "203.0.113.1"
	townAddress     = "203.0.113.2"
	providerAddress = "203.0.113.3"
)

// internet is a network bridge with two hosts.
type internet struct {
	dir            string
	dns            *zone.Server
	town, provider *host
}

// host is a host with a folder for its files.
type host struct {
	*netns.Host
	dir string
}

// connect creates the bridge, both hosts and the name server. They are removed when the test ends.
func connect(t *testing.T, records string) *internet {
	t.Helper()
	// The folder is directly in /tmp, because daemons with their own accounts must be able to reach it.
	dir, err := os.MkdirTemp("", "doublet-lab")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	wire := netns.New(t, "net", netAddress+"/24")
	n := &internet{dir: dir}
	n.town = plug(t, dir, wire, "town", townAddress)
	n.provider = plug(t, dir, wire, "provider", providerAddress)
	if n.dns, err = zone.New(netAddress+":53", records); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.dns.Close() })
	return n
}

func plug(t *testing.T, dir string, wire *netns.Net, name, address string) *host {
	t.Helper()
	h := &host{wire.Plug(t, name, address+"/24"), filepath.Join(dir, name)}
	etc := filepath.Join("/etc/netns", h.Name)
	t.Cleanup(func() { _ = os.RemoveAll(etc) })
	write(t, filepath.Join(etc, "resolv.conf"), "nameserver "+netAddress+"\noptions trust-ad\n")
	if err := os.MkdirAll(h.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return h
}

// start runs a program on the host until the test ends. Its output is logged if the test fails.
func (h *host) start(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := h.Command(args...)
	log, err := os.CreateTemp(h.dir, filepath.Base(args[0])+"-*.log")
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			out, _ := os.ReadFile(log.Name())
			t.Logf("%s on %s printed:\n%s", args[0], h.Name, tail(out, 6000))
		}
	})
	return cmd
}

// listens waits until the host accepts connections at the address.
func (h *host) listens(t *testing.T, address string) {
	t.Helper()
	wait(t, address+" on "+h.Name, func() (string, bool) {
		conn, err := net.DialTimeout("tcp", address, time.Second)
		if err != nil {
			return err.Error(), false
		}
		return "", conn.Close() == nil
	})
}

// wait calls ask until it returns ok, for at most a minute.
func wait(t *testing.T, what string, ask func() (string, bool)) {
	t.Helper()
	last := ""
	for range 300 {
		var ok bool
		if last, ok = ask(); ok {
			return
		}
		time.Sleep(200 * time.Millisecond)
	}
	t.Fatalf("waited in vain for %s: %s", what, last)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, []byte(text), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func tail(b []byte, n int) []byte {
	if len(b) > n {
		b = append([]byte("…"), b[len(b)-n:]...)
	}
	return bytes.TrimSpace(b)
}

func want(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Fatalf("%q is missing in:\n%s", p, text)
		}
	}
}

// txt returns a TXT record with a long text.
func txt(name, text string) string {
	var parts []string
	for len(text) > 200 {
		parts, text = append(parts, fmt.Sprintf("%q", text[:200])), text[200:]
	}
	return name + " IN TXT " + strings.Join(append(parts, fmt.Sprintf("%q", text)), " ") + "\n"
}
