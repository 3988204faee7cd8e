//go:build unix

package lab

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"doublet/bench"
	"doublet/env"
	"doublet/test/external"
)

// scripted writes a script whose start does what body says, and which notes its calls in the file calls beside it.
func scripted(t *testing.T, body string) (s *Script, dir string, calls func() string) {
	t.Helper()
	home := t.TempDir()
	path := filepath.Join(home, "server")
	external.Script(t, path,
		"#!/bin/sh\necho \"$1 $3\" >>"+home+"/calls\n[ \"$1\" = stop ] && exit 0\n"+body+"\n")
	s, err := NewScript(env.Real(slog.New(slog.DiscardHandler)), path, "")
	if err != nil {
		t.Fatal(err)
	}
	return s, filepath.Join(home, "data"), func() string {
		b, _ := os.ReadFile(filepath.Join(home, "calls"))
		return strings.ReplaceAll(strings.TrimSpace(string(b)), "\n", ",")
	}
}

// TestScript starts and stops the server of a script: what it prints are flags, also while a process that it has
// started keeps its output open, and nothing is left.
func TestScript(t *testing.T) {
	t.Parallel()
	s, dir, calls := scripted(t, "sleep 600 & echo $! >$2/pid; echo imap=127.0.0.1:1; echo; echo monitor=x=pid:1=2")
	got, err := s.Start(t.Context(), dir, 7)
	if err != nil || !slices.Equal(got, []Setting{{"imap", "127.0.0.1:1"}, {"monitor", "x=pid:1=2"}}) {
		t.Fatalf("%q, %v", got, err)
	}
	pid, err := os.ReadFile(filepath.Join(dir, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	// Sweep knows the script after a crash.
	if err := Sweep(s.env, dir); err != nil || calls() != "start 7,stop" {
		t.Errorf("%v, calls %s", err, calls())
	}
	if list, err := os.ReadDir(filepath.Dir(dir)); err != nil || len(list) != 2 {
		t.Errorf("left: %v, %v", list, err)
	}
	if err := Sweep(s.env, dir); err != nil || calls() != "start 7,stop" {
		t.Errorf("again: %v, calls %s", err, calls())
	}
	number, err := strconv.Atoi(strings.TrimSpace(string(pid)))
	if err == nil {
		err = syscall.Kill(number, syscall.SIGKILL) // it has held the output of the script
	}
	if err != nil {
		t.Error(err)
	}
}

// TestScriptFails checks that a server that does not start is stopped, and that the error has the reason.
func TestScriptFails(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		"echo no such user >&2; exit 3": "no such user",
		"echo ready":                    "\"ready\": want a flag of doublet bench run",
		"echo imap=":                    "\"imap=\": want",
		"yes | head -c 100000":          "more than 65536 bytes",
	} {
		s, dir, calls := scripted(t, body)
		if _, err := s.Start(t.Context(), dir, 1); err == nil || !strings.Contains(err.Error(), want) ||
			calls() != "start 1,stop" {
			t.Errorf("%s: %v, calls %s", body, err, calls())
		}
	}
	s, dir, calls := scripted(t, "exec sleep 600")
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := s.Start(ctx, dir, 1); !errors.Is(err, context.Canceled) || !strings.HasSuffix(calls(), "stop") {
		t.Errorf("given up: %v, calls %s", err, calls())
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(dir), "x"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Start(t.Context(), filepath.Dir(dir), 1); !errors.Is(err, ErrNotEmpty) {
		t.Errorf("a folder with content: %v", err)
	}
}

// TestScriptsThatCome runs the scripts that come with the program, where no server is to be stopped: both the text in
// the program and the file have the functions that they share.
func TestScriptsThatCome(t *testing.T) {
	t.Parallel()
	for _, name := range scriptNames() {
		for _, as := range []string{name, "./scripts/" + name} {
			s, err := NewScript(env.Real(slog.New(slog.DiscardHandler)), as, "")
			if err == nil {
				_, err = s.run(t.Context(), stopLimit, "stop", t.TempDir())
			}
			if err != nil {
				t.Errorf("%s: %v", as, err)
			}
		}
	}
}

// TestScriptNames checks the names of scripts.
func TestScriptNames(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"cyrus-postfix": "", "dovecot-postfix": "",
		"exim": "one of cyrus-postfix, dovecot-postfix", "./no-such-script": "no such file"} {
		_, err := NewScript(nil, name, "")
		var usage *bench.UsageError
		if (err == nil) != (want == "") || err != nil && (!errors.As(err, &usage) ||
			!strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	if _, err := NewScript(nil, "dovecot-postfix", "some"); err == nil || !strings.Contains(err.Error(), "--cpus") {
		t.Error(err)
	}
}
