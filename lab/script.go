package lab

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"doublet/bench"
	"doublet/env"
)

//go:embed scripts/*
var scripts embed.FS

// shared is the text that stands before that of each script which comes with the program.
//
//go:embed postfix.sh
var shared string

// Script starts and stops a mail server of another make, as "SCRIPT start DIR PEOPLE" and "SCRIPT stop DIR". The start
// makes a server with empty mailboxes for so many people in the empty folder DIR, returns when its doors are open, and
// prints how to drive and meter it: flags of doublet bench run, NAME=VALUE on a line each. The stop ends all of its
// processes, also if the start was interrupted, and succeeds if none runs.
type Script struct {
	// Name is the path of the script, with a slash in it, or the name of one that comes with the program.
	Name string
	// CPUs are the processors that the server may use (see Options).
	CPUs string
	env  *env.Env
}

// Setting is a line that a script has printed: a flag of doublet bench run.
type Setting struct{ Name, Value string }

// scriptNames returns the names of the scripts that come with the program.
func scriptNames() (out []string) {
	list, err := scripts.ReadDir("scripts")
	if err != nil {
		return nil // the folder is part of the program
	}
	for _, f := range list {
		out = append(out, f.Name())
	}
	return out
}

// NewScript returns the script with a name. A path is made absolute.
func NewScript(e *env.Env, name, cpus string) (*Script, error) {
	if err := checkCPUs(cpus); err != nil {
		return nil, err
	}
	s := &Script{Name: name, CPUs: cpus, env: e}
	if !strings.ContainsRune(name, '/') {
		if _, err := fs.Stat(scripts, "scripts/"+name); err != nil {
			return nil, bench.Usage("--script %s: want the path of a script, such as ./%s, or one of %s", name, name,
				strings.Join(scriptNames(), ", "))
		}
		return s, nil
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return nil, bench.Usage("--script: %w", err)
	}
	s.Name, err = filepath.Abs(path)
	return s, err
}

// command returns the command that runs the script.
func (s *Script) command(args ...string) *exec.Cmd {
	line := append([]string{s.Name}, args...)
	if text, err := scripts.ReadFile("scripts/" + s.Name); err == nil {
		line = append([]string{"bash", "-c", shared + string(text), s.Name}, args...)
	}
	if s.CPUs != "" { // what the script starts inherits them
		line = append([]string{"taskset", "-c", s.CPUs}, line...)
	}
	cmd := exec.Command(line[0], line[1:]...)
	cmd.SysProcAttr = ownSession()
	return cmd
}

// note is the path of the file beside a server's folder that names its script, so that Sweep can stop the server.
func note(dir string) string { return dir + ".script" }

// maxPrinted bounds the output of a script in bytes.
const maxPrinted = 64 << 10

// Start starts the server in the folder dir, which must be empty or absent. If it fails, nothing is left running.
func (s *Script) Start(ctx context.Context, dir string, people int) (out []Setting, err error) {
	err = os.MkdirAll(dir, 0o700)
	if err == nil {
		err = os.Chmod(dir, 0o711) //nolint:gosec // the server may run under an account of its own
	}
	if err != nil {
		return nil, err
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) > 0 {
		return nil, errors.Join(err, fmt.Errorf("%w: %s (to stop a server that was left there: %s stop %s)",
			ErrNotEmpty, dir, s.Name, dir))
	}
	if err := os.WriteFile(note(dir), []byte(s.Name), 0o600); err != nil {
		return nil, err
	}
	text, err := s.run(ctx, startLimit, "start", dir, strconv.Itoa(people))
	if err == nil {
		out, err = settingsOf(text)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", s.Name, err), s.Stop(dir))
	}
	return out, nil
}

// Stop stops the server of the folder dir, and removes the folder.
func (s *Script) Stop(dir string) error {
	if _, err := s.run(context.Background(), stopLimit, "stop", dir); err != nil {
		return fmt.Errorf("%s: stop: %w", s.Name, err)
	}
	return errors.Join(os.RemoveAll(dir), os.Remove(note(dir)))
}

// run runs the script and returns what it prints. Its output goes through a file: a pipe would stay open as long as a
// server that it has started.
func (s *Script) run(ctx context.Context, limit time.Duration, args ...string) (string, error) {
	out, err := os.CreateTemp("", "script")
	if err != nil {
		return "", err
	}
	defer func() { _, _ = out.Close(), os.Remove(out.Name()) }()
	words, err := os.CreateTemp("", "script")
	if err != nil {
		return "", err
	}
	defer func() { _, _ = words.Close(), os.Remove(words.Name()) }()
	cmd := s.command(args...)
	cmd.Stdout, cmd.Stderr = out, words
	if err := cmd.Start(); err != nil {
		return "", err
	}
	ended := make(chan error, 1)
	s.env.Go("lab script", func() { ended <- cmd.Wait() })
	select {
	case err = <-ended:
	case <-ctx.Done():
		err = errors.Join(ctx.Err(), end(cmd, ended))
	case <-s.env.Clock.After(limit):
		err = errors.Join(fmt.Errorf("%s has not ended after %v", args[0], limit), end(cmd, ended))
	}
	printed, rerr := readFrom(out)
	if err == nil {
		return printed, rerr
	}
	said, _ := readFrom(words)
	return "", fmt.Errorf("%w: %s", err, strings.TrimSpace(said))
}

// readFrom returns the content of a small file from its beginning.
func readFrom(f *os.File) (string, error) {
	b, err := io.ReadAll(io.NewSectionReader(f, 0, maxPrinted+1))
	if len(b) > maxPrinted {
		return "", fmt.Errorf("it prints more than %d bytes", maxPrinted)
	}
	return string(b), err
}

// settingsOf parses what a script prints.
func settingsOf(text string) (out []Setting, err error) {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		if !ok || name == "" || value == "" {
			return nil, fmt.Errorf("it prints %q: want a flag of doublet bench run, NAME=VALUE", line)
		}
		out = append(out, Setting{name, value})
	}
	return out, nil
}

// sweepScript stops the server that a script has left in the folder dir, if one has.
func sweepScript(e *env.Env, dir string) error {
	name, err := os.ReadFile(note(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return (&Script{Name: string(name), env: e}).Stop(dir)
}
