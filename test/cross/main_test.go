package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCheck checks that a call that only Unix has is an error on Windows, in a test too, and not elsewhere.
func TestCheck(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module m\n\ngo 1.25\n",
		"m.go":   "package m\n",
		"m_test.go": "package m\n\nimport \"syscall\"\n\n" +
			"var _ = syscall.Getppid() + len(syscall.Signal(0).String())\nvar _ syscall.Stat_t\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	t.Setenv("GOFLAGS", "")
	if n, wrong, err := check("linux/arm64", "./..."); err != nil || n < 2 || len(wrong) != 0 {
		t.Errorf("linux: %d packages, %q, %v", n, wrong, err)
	}
	_, wrong, err := check("windows/amd64", "./...")
	if err != nil || len(wrong) == 0 || !strings.Contains(strings.Join(wrong, "\n"), "Stat_t") {
		t.Errorf("windows: %q, %v", wrong, err)
	}
	if _, _, err := check("windows", "./..."); err == nil {
		t.Error("a platform without an architecture was taken")
	}
}
