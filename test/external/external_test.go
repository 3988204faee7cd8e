package external

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// recorder is a test that records how it ended.
type recorder struct {
	testing.TB
	end string
}

func (r *recorder) Helper()               {}
func (r *recorder) Fatalf(string, ...any) { r.end = "fatal"; panic(r) }
func (r *recorder) Skipf(string, ...any)  { r.end = "skip"; panic(r) }
func (r *recorder) Skip(...any)           { r.end = "long"; panic(r) }

func need(programs ...string) (end string, paths []string) {
	r := &recorder{}
	defer func() {
		if recover() != nil {
			end = r.end
		}
	}()
	return "", Need(r, programs...)
}

func TestNeed(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "curl"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	t.Setenv("EXTERNAL", "")
	t.Setenv("LONG", "")
	if end, _ := need("curl"); end != "long" {
		t.Errorf("without long tests: %q", end)
	}
	t.Setenv("LONG", "1")
	if end, paths := need("curl"); end != "" || len(paths) != 1 || paths[0] != filepath.Join(dir, "curl") {
		t.Errorf("a program that is there: %q, %q", end, paths)
	}
	if end, _ := need("curl", "mutt"); end != "skip" {
		t.Errorf("a missing program: %q", end)
	}
	if end, _ := need("nonesuch"); end != "fatal" {
		t.Errorf("a program that nobody knows: %q", end)
	}
	t.Setenv("EXTERNAL", "required")
	if end, _ := need("curl", "mutt"); end != "fatal" {
		t.Errorf("a missing program in CI: %q", end)
	}
}

// TestPrograms checks that each line of programs.txt is a comment, or a program, listed once, and its package. .ci/run
// reads the same list.
func TestPrograms(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for line := range strings.Lines(programs) {
		words := strings.Fields(line)
		if strings.HasPrefix(line, "#") {
			continue
		}
		if len(words) != 2 || seen[words[0]] {
			t.Errorf("programs.txt: %q", line)
			continue
		}
		seen[words[0]] = true
	}
	run, err := os.ReadFile("../../.ci/run")
	if err != nil || len(seen) == 0 || !strings.Contains(string(run), "test/external/programs.txt") {
		t.Errorf("%d programs, .ci/run does not read the list (%v)", len(seen), err)
	}
}
