package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Under the race detector the storage engine records a stack whenever it opens an iterator over a table, to name
// iterators that are never closed. That takes more processor time than all tests. Its other checks, and the number of
// open iterators at its close, are kept.
const (
	engine     = "github.com/cockroachdb/pebble/v2"
	switchFile = "internal/invariants/invariants.go"
	switchOn   = "const RaceEnabled = buildtags.Race\n"
	switchOff  = "const RaceEnabled = false\n"
)

// withoutStacks writes a go.mod that replaces the storage engine with a copy that records no stacks. It returns its
// path, for -modfile, and a function that removes it.
func withoutStacks() (path string, remove func(), err error) {
	out, err := exec.Command("go", "list", "-f", "{{.Module.Dir}}", engine).Output()
	if err != nil {
		return "", nil, fmt.Errorf("finding %s: %w", engine, err)
	}
	dir, err := os.MkdirTemp("", "doublet-race")
	if err != nil {
		return "", nil, err
	}
	remove = func() { _ = os.RemoveAll(dir) }
	path = filepath.Join(dir, "go.mod")
	to := filepath.Join(dir, "engine")
	if err := errors.Join(copySources(to, strings.TrimSpace(string(out))), turnOff(filepath.Join(to, switchFile)),
		replaceEngine(path, to)); err != nil {
		remove()
		return "", nil, err
	}
	return path, remove, nil
}

// copySources copies a module without its tests.
func copySources(to, from string) error {
	return filepath.WalkDir(from, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, name)
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() == "testdata":
			return fs.SkipDir
		case d.IsDir():
			return os.MkdirAll(filepath.Join(to, rel), 0o700)
		case strings.HasSuffix(name, "_test.go"):
			return nil
		}
		raw, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), raw, 0o600)
	})
}

func turnOff(name string) error {
	raw, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if bytes.Count(raw, []byte(switchOn)) != 1 {
		return fmt.Errorf("%s: no line %q: look at it, and at test/run/race.go", name, switchOn)
	}
	return os.WriteFile(name, bytes.Replace(raw, []byte(switchOn), []byte(switchOff), 1), 0o600)
}

// replaceEngine writes the go.mod and go.sum of this module, with the engine replaced.
func replaceEngine(path, by string) error {
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		return err
	}
	sums, err := os.ReadFile("go.sum")
	if err != nil {
		return err
	}
	mod = fmt.Appendf(mod, "\nreplace %s => %s\n", engine, by)
	return errors.Join(os.WriteFile(path, mod, 0o600), os.WriteFile(strings.TrimSuffix(path, ".mod")+".sum",
		sums, 0o600))
}
