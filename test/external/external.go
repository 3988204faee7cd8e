// Package external supports tests that use foreign programs such as swaks, mutt and mbsync. These are long tests. If a
// program is missing, its tests are skipped; in CI (EXTERNAL=required) they fail.
package external

import (
	_ "embed"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"doublet/test/long"
)

//go:embed programs.txt
var programs string

// debian returns the Debian package of a program that programs.txt lists.
func debian(program string) (string, bool) {
	for line := range strings.Lines(programs) {
		if name, pkg, ok := strings.Cut(strings.TrimSpace(line), " "); ok && name == program {
			return pkg, true
		}
	}
	return "", false
}

// Need skips the test unless long tests run and every program is there. With EXTERNAL=required a missing program fails
// it. It returns their paths in order.
func Need(t testing.TB, programs ...string) []string {
	t.Helper()
	long.Test(t)
	var paths []string
	for _, p := range programs {
		pkg, known := debian(p)
		if !known {
			t.Fatalf("external: %s is not in test/external/programs.txt: add it there", p)
		}
		path, err := exec.LookPath(p)
		if err == nil {
			paths = append(paths, path)
			continue
		}
		if os.Getenv("EXTERNAL") == "required" {
			t.Fatalf("external: %s is missing (Debian package %s) and EXTERNAL=required", p, pkg)
		}
		t.Skipf("external: %s is missing (Debian package %s)", p, pkg)
	}
	return paths
}

// Missing skips a test for want of something other than a program of programs.txt: "the Debian package python3-dkim".
// In CI it fails the test. why is what its absence showed.
func Missing(t testing.TB, what, why string) {
	t.Helper()
	if os.Getenv("EXTERNAL") == "required" {
		t.Fatalf("external: %s is missing and EXTERNAL=required: %s", what, why)
	}
	t.Skipf("external: %s is missing: %s", what, why)
}

// Script writes a program of text. Until it is complete, no other goroutine starts a process: one that begins with the
// file open for writing would make its start fail with ETXTBSY.
func Script(t testing.TB, path, text string) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
}
