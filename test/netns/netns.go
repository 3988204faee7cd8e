// Package netns makes networks of hosts on this machine: each host is a network namespace with a loopback of its own, all at
// one bridge. What is between them can be broken with packet filters and slow cables.
package netns

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"doublet/test/external"
)

// Need skips the test where the machine does not let us make networks.
func Need(t testing.TB) {
	t.Helper()
	external.Need(t, "ip")
	if runtime.GOOS != "linux" || os.Getuid() != 0 {
		t.Skip("network namespaces need Linux and root")
	}
}

// Net is a bridge, with this machine at it.
type Net struct{ name, bridge string }

// New makes the bridge, with an address for this machine that ends in the length of its prefix. It goes when the test ends. name is
// of 8 letters at most; who makes a network of the same name meanwhile waits for its end.
func New(t testing.TB, name, address string) *Net {
	t.Helper()
	lock(t, filepath.Join(os.TempDir(), "doublet-netns-"+name+".lock"))
	n := &Net{name: name, bridge: "dbl-" + name}
	drop := func() { _ = exec.Command("ip", "link", "del", n.bridge).Run() }
	drop() // of a run that was killed
	IP(t, "link", "add", n.bridge, "type", "bridge")
	t.Cleanup(drop)
	n.Address(t, address)
	IP(t, "link", "set", n.bridge, "up")
	return n
}

// Address gives this machine one more address at the bridge.
func (n *Net) Address(t testing.TB, address string) {
	t.Helper()
	IP(t, "addr", "add", address, "dev", n.bridge)
}

// Host is a network namespace.
type Host struct{ Name string }

// Plug makes a host with an address. What runs there is killed when the test ends. Two
// hosts of a network differ in the first 5 letters, two networks in the first 3.
func (n *Net) Plug(t testing.TB, name, address string) *Host {
	t.Helper()
	h := &Host{Name: "doublet-" + n.name + "-" + name}
	short := "dbl-" + n.name[:min(len(n.name), 3)] + "-" + name[:min(len(name), 5)]
	out, in := short+"0", short+"1"
	drop := func() {
		// By itself, for the namespace lives as long as any connection of it.
		_ = exec.Command("ip", "link", "del", out).Run()
		_ = exec.Command("ip", "netns", "del", h.Name).Run()
	}
	drop() // of a run that was killed
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

// Line is the command line that runs a program on the host. The program takes the place of ip: a signal reaches it.
func (h *Host) Line(args ...string) []string {
	return append([]string{"ip", "netns", "exec", h.Name}, args...)
}

// Command is a program on the host.
func (h *Host) Command(args ...string) *exec.Cmd {
	line := h.Line(args...)
	return exec.Command(line[0], line[1:]...)
}

// Try runs a program on the host, for two minutes at most.
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

// Run runs a program on the host and returns what it printed; it must end well.
func (h *Host) Run(t testing.TB, stdin string, args ...string) string {
	t.Helper()
	out, err := h.Try(stdin, args...)
	if err != nil {
		t.Fatalf("on %s: %s: %v\n%s", h.Name, strings.Join(args, " "), err, out)
	}
	return out
}

// killAll ends whatever still runs on the host.
func (h *Host) killAll() {
	out, err := exec.Command("ip", "netns", "pids", h.Name).Output()
	if err != nil {
		return
	}
	for _, pid := range strings.Fields(string(out)) {
		_ = exec.Command("kill", "-9", pid).Run()
	}
}

// Filter drops of what comes in to the host what the rules of nft(8) say, each without its verdict, in the place of what it
// dropped before; without rules nothing.
func (h *Host) Filter(t testing.TB, rules ...string) {
	t.Helper()
	text := "table inet cable\ndelete table inet cable\ntable inet cable {\n chain in {\n  type filter hook input priority 0; policy accept;\n"
	for _, r := range rules {
		text += fmt.Sprintf("  %s counter drop\n", r)
	}
	h.Run(t, text+" }\n}\n", "nft", "-f", "-")
}

// Dropped counts the packets that the present rules have dropped, of each.
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
