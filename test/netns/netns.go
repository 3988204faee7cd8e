// Package netns builds networks of hosts on this machine. Each host is a network namespace with its own loopback; all
// are connected to one bridge. Packet filters and delays can disturb the traffic between them.
package netns

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"doublet/test/external"
)

// Need skips the test if the machine does not permit network namespaces.
func Need(t testing.TB) {
	t.Helper()
	external.Need(t, "ip")
	if runtime.GOOS != "linux" || os.Getuid() != 0 {
		t.Skip("network namespaces need Linux and root")
	}
}

// interfaces is the lock of the network interfaces of this machine.
const interfaces = "doublet-interfaces.lock"

// Still keeps other tests from changing the network interfaces until the test ends: browsers give their requests up
// when an address comes or goes (net::ERR_NETWORK_CHANGED), also those to 127.0.0.1.
func Still(t testing.TB) {
	t.Helper()
	lock(t, interfaces, true)
}

// Net is a bridge, to which this machine is connected.
type Net struct{ name, bridge string }

// New creates the bridge, with an address for this machine that ends in its prefix length. The bridge is removed at the
// end of the test. name has at most 8 letters. A test has one network, and waits until no other test has one and none
// is Still.
func New(t testing.TB, name, address string) *Net {
	t.Helper()
	lock(t, interfaces, false)
	n := &Net{name: name, bridge: "dbl-" + name}
	drop := func() { _ = exec.Command("ip", "link", "del", n.bridge).Run() }
	drop() // left by a run that was killed
	IP(t, "link", "add", n.bridge, "type", "bridge")
	t.Cleanup(drop)
	n.Address(t, address)
	IP(t, "link", "set", n.bridge, "up")
	return n
}

// Address adds an address of this machine to the bridge.
func (n *Net) Address(t testing.TB, address string) {
	t.Helper()
	IP(t, "addr", "add", address, "dev", n.bridge)
}

// Host is a network namespace.
type Host struct{ Name string }

// Plug creates a host with an address. At the end of the test its processes are killed. The names of hosts in a network
// must differ in the first 5 letters, those of networks in the first 3.
func (n *Net) Plug(t testing.TB, name, address string) *Host {
	t.Helper()
	h := &Host{Name: "doublet-" + n.name + "-" + name}
	short := "dbl-" + n.name[:min(len(n.name), 3)] + "-" + name[:min(len(name), 5)]
	out, in := short+"0", short+"1"
	drop := func() {
		// The link is deleted separately, because the namespace lives as long as any of its connections.
		_ = exec.Command("ip", "link", "del", out).Run()
		_ = exec.Command("ip", "netns", "del", h.Name).Run()
	}
	drop() // left by a run that was killed
	IP(t, "netns", "add", h.Name)
	t.Cleanup(func() {
		h.killAll()
		drop()
	})
	IP(t, "link", "add", out, "type", "veth", "peer", "name", in)
	IP(t, "link", "set", out, "master", n.bridge, "up")
	IP(t, "link", "set", in, "netns", h.Name)
	IP(t, "-n", h.Name, "addr", "add", address, "dev", in)
	IP(t, "-n", h.Name, "link", "set", in, "up")
	IP(t, "-n", h.Name, "link", "set", "lo", "up")
	return h
}

// IP runs ip(8).
func IP(t testing.TB, args ...string) {
	t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		t.Fatalf("ip %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// Line returns the command line that runs a program on the host. The program replaces ip, so that signals reach it.
func (h *Host) Line(args ...string) []string {
	return append([]string{"ip", "netns", "exec", h.Name}, args...)
}

// Command returns a command that runs on the host.
func (h *Host) Command(args ...string) *exec.Cmd {
	line := h.Line(args...)
	return exec.Command(line[0], line[1:]...)
}

// Try runs a program on the host, for at most two minutes.
func (h *Host) Try(stdin string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	line := h.Line(args...)
	cmd := exec.CommandContext(ctx, line[0], line[1:]...)
	cmd.Stdin = strings.NewReader(stdin)
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// Run runs a program on the host and returns its output; the test fails if the program does.
func (h *Host) Run(t testing.TB, stdin string, args ...string) string {
	t.Helper()
	out, err := h.Try(stdin, args...)
	if err != nil {
		t.Fatalf("on %s: %s: %v\n%s", h.Name, strings.Join(args, " "), err, out)
	}
	return out
}

// killAll kills all processes on the host.
func (h *Host) killAll() {
	out, err := exec.Command("ip", "netns", "pids", h.Name).Output()
	if err != nil {
		return
	}
	for _, pid := range strings.Fields(string(out)) {
		_ = exec.Command("kill", "-9", pid).Run()
	}
}

// Filter drops incoming packets of the host that match the rules in the syntax of nft(8), each without its verdict. The
// rules replace the ones before; without rules nothing is dropped.
func (h *Host) Filter(t testing.TB, rules ...string) {
	t.Helper()
	text := "table inet cable\ndelete table inet cable\ntable inet cable {\n chain in {\n" +
		"  type filter hook input priority 0; policy accept;\n"
	for _, r := range rules {
		text += fmt.Sprintf("  %s counter drop\n", r)
	}
	h.Run(t, text+" }\n}\n", "nft", "-f", "-")
}

// Dropped returns the number of packets that each current rule has dropped.
func (h *Host) Dropped(t testing.TB) (out []int) {
	t.Helper()
	for line := range strings.Lines(h.Run(t, "", "nft", "list", "table", "inet", "cable")) {
		if _, count, ok := strings.Cut(line, "counter packets "); ok {
			var n int
			if _, err := fmt.Sscan(count, &n); err != nil {
				t.Fatalf("nft prints %q", line)
			}
			out = append(out, n)
		}
	}
	return out
}
