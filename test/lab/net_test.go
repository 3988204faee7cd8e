// Package lab carries out what doc/operate.md tells a newcomer to do, on an Internet of its own: two
// hosts in network namespaces, a stub DNS zone, Debian's pebble as certificate authority, and Postfix
// with rspamd and opendkim as the provider at the other end.
package lab

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"doublet/client/dns/zone"
	"doublet/test/external"
)

// The addresses of the lab's Internet: DNS and the authority, the server of the town, the provider.
const (
	netAddress      = "203.0.113.1"
	townAddress     = "203.0.113.2"
	providerAddress = "203.0.113.3"
)

// internet is a bridge with the hosts at it.
type internet struct {
	dir            string
	dns            *zone.Server
	town, provider *host
}

// host is a network namespace with a loopback of its own.
type host struct {
	t    *testing.T
	name string
	dir  string
}

// needNamespaces skips where the machine does not let us make networks.
func needNamespaces(t *testing.T) {
	t.Helper()
	external.Need(t, "ip")
	if runtime.GOOS != "linux" || os.Getuid() != 0 {
		t.Skip("the lab makes network namespaces: it needs Linux and root")
	}
}

// connect makes the bridge, both hosts and the name server. All of it goes when the test ends.
func connect(t *testing.T, records string) *internet {
	t.Helper()
	// A folder in /tmp itself: its daemons run under accounts of their own, and must get through.
	dir, err := os.MkdirTemp("", "doublet-lab")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	const bridge = "doublet-net"
	drop := func() { _ = exec.Command("ip", "link", "del", bridge).Run() }
	drop() // of a run that was killed
	ip(t, "link", "add", bridge, "type", "bridge")
	t.Cleanup(drop)
	ip(t, "addr", "add", netAddress+"/24", "dev", bridge)
	ip(t, "link", "set", bridge, "up")
	n := &internet{dir: dir}
	n.town = plug(t, dir, bridge, "town", townAddress)
	n.provider = plug(t, dir, bridge, "provider", providerAddress)
	if n.dns, err = zone.New(netAddress+":53", records); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.dns.Close() })
	return n
}

func plug(t *testing.T, dir, bridge, name, address string) *host {
	t.Helper()
	h := &host{t: t, name: "doublet-" + name, dir: filepath.Join(dir, name)}
	_ = exec.Command("ip", "netns", "del", h.name).Run()
	ip(t, "netns", "add", h.name)
	etc := filepath.Join("/etc/netns", h.name)
	t.Cleanup(func() {
		h.killAll()
		_ = exec.Command("ip", "netns", "del", h.name).Run()
		_ = os.RemoveAll(etc)
	})
	write(t, filepath.Join(etc, "resolv.conf"), "nameserver "+netAddress+"\noptions trust-ad\n")
	out, in := "dbl-"+name[:2]+"0", "dbl-"+name[:2]+"1"
	ip(t, "link", "add", out, "type", "veth", "peer", "name", in)
	ip(t, "link", "set", out, "master", bridge, "up")
	ip(t, "link", "set", in, "netns", h.name)
	ip(t, "-n", h.name, "addr", "add", address+"/24", "dev", in)
	ip(t, "-n", h.name, "link", "set", in, "up")
	ip(t, "-n", h.name, "link", "set", "lo", "up")
	if err := os.MkdirAll(h.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return h
}

func ip(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		t.Fatalf("ip %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// command is a program on the host.
func (h *host) command(args ...string) *exec.Cmd {
	return exec.Command("ip", append([]string{"netns", "exec", h.name}, args...)...)
}

// run runs a program on the host and returns what it printed; it must end well.
func (h *host) run(t *testing.T, args ...string) string {
	t.Helper()
	out, err := h.try(args...)
	if err != nil {
		t.Fatalf("on %s: %s: %v\n%s", h.name, strings.Join(args, " "), err, out)
	}
	return out
}

func (h *host) try(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "ip", append([]string{"netns", "exec", h.name}, args...)...)
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// start runs a program on the host until the test ends. Its output is shown if the test fails.
func (h *host) start(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := h.command(args...)
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
			t.Logf("%s on %s printed:\n%s", args[0], h.name, tail(out, 6000))
		}
	})
	return cmd
}

// killAll ends whatever still runs on the host.
func (h *host) killAll() {
	out, err := exec.Command("ip", "netns", "pids", h.name).Output()
	if err != nil {
		return
	}
	for _, pid := range strings.Fields(string(out)) {
		_ = exec.Command("kill", "-9", pid).Run()
	}
}

// listens waits until something accepts connections at a port of the host.
func (h *host) listens(t *testing.T, address string) {
	t.Helper()
	wait(t, address+" on "+h.name, func() (string, bool) {
		conn, err := net.DialTimeout("tcp", address, time.Second)
		if err != nil {
			return err.Error(), false
		}
		return "", conn.Close() == nil
	})
}

// wait asks until ok, at most for a minute.
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

// txt is a TXT record of a long text.
func txt(name, text string) string {
	var parts []string
	for len(text) > 200 {
		parts, text = append(parts, fmt.Sprintf("%q", text[:200])), text[200:]
	}
	return name + " IN TXT " + strings.Join(append(parts, fmt.Sprintf("%q", text)), " ") + "\n"
}
