package main

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestSlowOperations checks that a command over the limit leaves a trace.
func TestSlowOperations(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	made(t, data)
	log := newLines()
	p := startServe(t, log, []string{"DOUBLET_LOG_SLOW=1ns"}, "--data", data)
	if got := speak(t, log.door(t, "imap")).say("a LOGIN admin secret", "a "); !strings.HasPrefix(got, "a OK") {
		t.Fatal(got)
	}
	if err := p.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(); err != nil {
		t.Error(err)
	}
	if files, err := filepath.Glob(filepath.Join(data, "traces", "slow-*-imap.trace")); err != nil || len(files) != 1 {
		t.Errorf("%q, %v", files, err)
	}
}
