package sieved

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"doublet/test/door"
	"doublet/test/external"
)

// TestSieveConnect drives the door with sieve-connect: it uploads, lists, activates, downloads and deletes.
func TestSieveConnect(t *testing.T) {
	t.Parallel()
	program := external.Need(t, "sieve-connect")[0]
	h := open(t, Config{}, door.Options{TLS: true})
	host, port, err := net.SplitHostPort(h.Addr.String())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	run := func(args ...string) string {
		t.Helper()
		cmd := exec.Command(program, append([]string{"--server", host, "--port", port, "--user", "alice", "--nosrv",
			"--notlsverify", "--passwordfd", "0", "--noclearauth"}, args...)...)
		cmd.Env = append(os.Environ(), "HOME="+dir)
		cmd.Stdin = strings.NewReader("demo\n")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	local := filepath.Join(dir, "rules.sieve")
	const script = "require \"fileinto\";\nfileinto \"Archive\";\n"
	if err := os.WriteFile(local, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	run("--localsieve", local, "--remotesieve", "main", "--upload")
	run("--remotesieve", "main", "--activate")
	if out := run("--list"); !strings.Contains(out, "main") || !strings.Contains(out, "ACTIVE") {
		t.Errorf("list: %s", out)
	}
	back := filepath.Join(dir, "back.sieve")
	run("--localsieve", back, "--remotesieve", "main", "--download")
	if got, err := os.ReadFile(back); err != nil || strings.TrimSpace(string(got)) != strings.TrimSpace(script) {
		t.Errorf("download: %q %v", got, err)
	}
	run("--deactivate")
	run("--remotesieve", "main", "--delete")
	if out := run("--list"); strings.Contains(out, "main") {
		t.Errorf("list: %s", out)
	}
}
