//go:build unix

package lab

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"doublet/env"
)

// TestStartGivenUp checks that Start ends the process of a server if the context is cancelled before the PID file
// exists.
func TestStartGivenUp(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program, number := filepath.Join(dir, "slow"), filepath.Join(dir, "number")
	if err := os.WriteFile(program, []byte("#!/bin/sh\necho $$ >"+number+".new; mv "+number+".new "+number+
		"; exec sleep 600\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	s := &Server{Name: "one", Data: dir, Doors: map[string]string{"imap": "127.0.0.1:1"}, program: program,
		env: env.Real(slog.New(slog.NewTextHandler(io.Discard, nil)))}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	given := make(chan error, 1)
	go func() { given <- s.Start(ctx) }()
	var text []byte
	for deadline := time.Now().Add(30 * time.Second); len(text) == 0; time.Sleep(5 * time.Millisecond) {
		if text, _ = os.ReadFile(number); time.Now().After(deadline) {
			t.Fatal("it does not run")
		}
	}
	stop()
	if err := <-given; !errors.Is(err, context.Canceled) {
		t.Errorf("start: %v", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("process %d was left behind: %v", pid, err)
	}
}
