package external

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// recorder is a test that notes how it ended.
type recorder struct {
	testing.TB
	end string
}

func (r *recorder) Helper()               {}
func (r *recorder) Fatalf(string, ...any) { r.end = "fatal"; panic(r) }
func (r *recorder) Skipf(string, ...any)  { r.end = "skip"; panic(r) }

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

// TestScripts holds the lists in the Makefile and in .ci/run against Programs.
func TestScripts(t *testing.T) {
	t.Parallel()
	for file, of := range map[string]func(program, debian string) string{
		"../../Makefile": func(program, debian string) string { return " " + program + ":" + debian + " " },
		"../../.ci/run":  func(program, debian string) string { return " " + program + ":" + debian + " " },
	} {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.Map(func(r rune) rune {
			if r == '\n' || r == '"' || r == '\'' {
				return ' '
			}
			return r
		}, string(raw))
		for program, debian := range Programs {
			if !strings.Contains(text, of(program, debian)) {
				t.Errorf("%s does not list%s", file, of(program, debian))
			}
		}
	}
}
