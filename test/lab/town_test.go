package lab

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"doublet/cmd/doublet/config"
)

// town is the newcomer's machine: a Debian system without Doublet. It is this machine's system with an overlay in
// memory for everything that is written.
type town struct {
	*host
	root    string
	prelude string // shell functions that the document defines
	server  *exec.Cmd
}

func openTown(t *testing.T, h *host) *town {
	t.Helper()
	w := &town{host: h, root: filepath.Join(h.dir, "root")}
	memory := filepath.Join(h.dir, "memory")
	for _, dir := range []string{w.root, memory} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	mount := func(target string, args ...string) {
		t.Helper()
		if out, err := exec.Command("mount", append(args, target)...).CombinedOutput(); err != nil {
			t.Fatalf("mount %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		t.Cleanup(func() { _ = exec.Command("umount", "-l", target).Run() })
	}
	mount(memory, "-t", "tmpfs", "tmpfs")
	for _, dir := range []string{"upper", "work"} {
		if err := os.Mkdir(filepath.Join(memory, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	mount(w.root, "-t", "overlay", "overlay", "-o", "lowerdir=/,upperdir="+memory+"/upper,workdir="+memory+"/work")
	mount(filepath.Join(w.root, "proc"), "--bind", "/proc")
	mount(filepath.Join(w.root, "dev"), "--bind", "/dev")
	mount(filepath.Join(w.root, "run"), "-t", "tmpfs", "tmpfs")
	_ = os.Remove(filepath.Join(w.root, "etc/resolv.conf"))
	write(t, filepath.Join(w.root, "etc/resolv.conf"), "nameserver "+netAddress+"\noptions trust-ad\n")
	return w
}

// in returns the path of a file of the town on this machine.
func (w *town) in(path string) string { return filepath.Join(w.root, path) }

// shell runs a command line and returns its output.
func (w *town) shell(line, stdin string) (string, error) {
	cmd := w.Command("chroot", w.root, "bash", "-c", "cd /root\n"+w.prelude+"\n"+line)
	cmd.Stdin = strings.NewReader(stdin)
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "DEBIAN_FRONTEND=noninteractive")
	timer := time.AfterFunc(3*time.Minute, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// must is shell for a line that must succeed.
func (w *town) must(t *testing.T, line, stdin string) string {
	t.Helper()
	out, err := w.shell(line, stdin)
	if err != nil {
		t.Fatalf("in town: %s: %v\n%s", line, err, out)
	}
	t.Logf("$ %s\n%s", line, tail([]byte(out), 1500))
	return out
}

// startUnit starts the server as systemd would start the unit of the package: the same program, account and
// capabilities.
func (w *town) startUnit(t *testing.T) {
	t.Helper()
	unit := ""
	for _, dir := range []string{"usr/lib/systemd/system", "lib/systemd/system"} {
		if b, err := os.ReadFile(w.in(filepath.Join(dir, "doublet.service"))); err == nil {
			unit = string(b)
		}
	}
	var program []string
	for l := range strings.Lines(unit) {
		if value, ok := strings.CutPrefix(l, "ExecStart="); ok {
			program = strings.Fields(value)
		}
	}
	if len(program) == 0 || !strings.Contains(unit, "AmbientCapabilities=CAP_NET_BIND_SERVICE") ||
		!strings.Contains(unit, "User=doublet") {
		t.Fatalf("the unit:\n%s", unit)
	}
	w.server = w.start(t, append([]string{"chroot", w.root, "setpriv", "--reuid=doublet", "--regid=doublet",
		"--clear-groups", "--inh-caps=+net_bind_service", "--ambient-caps=+net_bind_service"}, program...)...)
	w.listens(t, townAddress+":25")
}

// stopUnit stops the server as systemctl stop does: SIGTERM, after which the server exits.
func (w *town) stopUnit(t *testing.T) {
	t.Helper()
	if err := w.server.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := w.server.Wait(); err != nil {
		t.Fatalf("the server ended with %v", err)
	}
}

// configure changes settings in the configuration file that init has written.
func (w *town) configure(t *testing.T, settings string) {
	t.Helper()
	path := w.in("var/lib/doublet/doublet.toml")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	section := ""
	for _, l := range strings.Split(settings, "\n") {
		l = strings.TrimSpace(l)
		if strings.HasPrefix(l, "[") {
			section = strings.Trim(l, "[]")
			continue
		}
		key, value, ok := strings.Cut(l, "=")
		if !ok {
			continue
		}
		value, _, _ = strings.Cut(value, "#")
		if b, err = config.Set(path, b, section+"."+strings.TrimSpace(key),
			strings.Trim(strings.TrimSpace(value), `"`)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// inbox waits for a message with the given subject in a person's INBOX.
func (w *town) inbox(t *testing.T, user, password, folder, subject string) string {
	t.Helper()
	url := fmt.Sprintf("imaps://%s/%s", townHost, folder)
	curl := func(args ...string) string {
		out, _ := exec.Command("curl", append([]string{"-s", "--cacert", w.path("roots.pem"), "--resolve",
			townHost + ":993:" + townAddress, "-u", user + ":" + password}, args...)...).Output()
		return string(out)
	}
	var found string
	wait(t, "mail "+subject+" for "+user+" in town", func() (string, bool) {
		f := strings.Fields(curl(url, "-X", `UID SEARCH SUBJECT "`+subject+`"`))
		if len(f) < 3 {
			return "nothing yet", false
		}
		found = curl(url + ";UID=" + f[len(f)-1])
		return "", strings.Contains(found, "Subject:")
	})
	return found
}

func (w *town) path(name string) string { return filepath.Join(w.dir, name) }
